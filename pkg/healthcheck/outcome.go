package healthcheck

import "time"

// Outcome is the result of a check.
type Outcome string

// Values of Outcome.
const (
	// Passed: the app is healthy.
	Passed Outcome = "Passed"
	// Failed: the check was made, and the app is not healthy.
	Failed Outcome = "Failed"
	// Leaked: the command of a check did not end in time and may still run. This is a
	// failure.
	Leaked Outcome = "Leaked"
	// Unreachable: the check could not be made, so the health of the app is not known.
	Unreachable Outcome = "Unreachable"
	// Forbidden: the operator may not make the check.
	Forbidden Outcome = "Forbidden"
)

// Observation is one check of a pod.
type Observation struct {
	// At is when the check began. The order of two times of one process is right even if
	// the clock was set in between.
	At      time.Time
	Outcome Outcome
	// Message says why the check did not pass, in one line of at most 512 bytes.
	Message string
}
