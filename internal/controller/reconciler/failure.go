package reconciler

import (
	"time"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// Steady returns the cause that is reported after the last failure; see
// [diagnosis.Cause.Stabilize].
func Steady(c *diagnosis.Cause, last *v1alpha1.LastFailure) *diagnosis.Cause {
	steady := c.Stabilize(fromStatus(last))
	return &steady
}

// Remember adds a cause to the last failure of a status; see [diagnosis.RecordFailure].
func Remember(last *v1alpha1.LastFailure, c *diagnosis.Cause, now time.Time) *v1alpha1.LastFailure {
	return toStatus(diagnosis.RecordFailure(fromStatus(last), c, now))
}

func fromStatus(l *v1alpha1.LastFailure) *diagnosis.Failure {
	if l == nil {
		return nil
	}
	return &diagnosis.Failure{
		Reason: l.Reason, Message: l.Message, Object: diagnosis.Object(l.Object), Container: l.Container, ExitCode: l.ExitCode,
		FirstTime: l.FirstTime, LastTime: l.LastTime, Count: l.Count,
	}
}

func toStatus(f *diagnosis.Failure) *v1alpha1.LastFailure {
	if f == nil {
		return nil
	}
	return &v1alpha1.LastFailure{
		Reason: f.Reason, Message: f.Message, Object: v1alpha1.FailureObject(f.Object), Container: f.Container, ExitCode: f.ExitCode,
		FirstTime: f.FirstTime, LastTime: f.LastTime, Count: f.Count,
	}
}
