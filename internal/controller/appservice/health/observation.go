package health

import (
	"time"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// Outcome is what a check came to.
type Outcome string

// Values of Outcome.
const (
	// Passed: the app is well.
	Passed Outcome = "Passed"
	// Failed: the check was made, and the app is not.
	Failed Outcome = "Failed"
	// Leaked: the command of a check did not end in time and may still run. That is a
	// failure.
	Leaked Outcome = "Leaked"
	// Unreachable: the check could not be made, so of the app nothing is known.
	Unreachable Outcome = "Unreachable"
	// Forbidden: the operator may not make it.
	Forbidden Outcome = "Forbidden"
)

// Observation is what one check of a pod came to.
type Observation struct {
	// At is when it was begun. Of two times of one process their order counts, whatever
	// the clock was set to between them.
	At      time.Time
	Outcome Outcome
	// Message says why it did not pass, in one line of at most 512 bytes.
	Message string
}

// reason is what a status says of an outcome. An outcome that is not known tells
// nothing of the app.
func (o Outcome) reason() string {
	switch o {
	case Failed:
		return v1alpha1.ReasonHealthCheckFailed
	case Leaked:
		return v1alpha1.ReasonExecLeaked
	case Forbidden:
		return v1alpha1.ReasonExecForbidden
	default:
		return v1alpha1.ReasonHealthCheckUnreachable
	}
}

// Thresholds say how many checks in a row turn a pod.
type Thresholds struct {
	Failure, Success int32
}

// ThresholdsOf reads spec.healthCheck, whose defaults the API server has filled in.
func ThresholdsOf(c *v1alpha1.HealthCheck) Thresholds {
	t := Thresholds{Failure: c.FailureThreshold, Success: c.SuccessThreshold}
	if t.Failure <= 0 {
		t.Failure = 3
	}
	if t.Success <= 0 {
		t.Success = 1
	}
	return t
}
