package events

import (
	"cmp"
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// ReasonRecovered is the reason of the Event that an object works again.
const ReasonRecovered = "Recovered"

// OfCause returns the Warning Event of a cause, without Since. All stages of a failure have the same
// Event. [diagnosis.Cause.EventReason] returns how long to wait before it is emitted.
func OfCause(c *diagnosis.Cause, action string) Event {
	reason, wait := c.EventReason(c.Time)
	if wait > 0 {
		reason = c.Reason
	}
	return Event{
		Type: corev1.EventTypeWarning, Reason: reason, FinalReason: cmp.Or(diagnosis.LaterStage(c.Reason), reason),
		Action: action, Note: c.Sentence(), Identity: c.Identity(),
	}
}

// Outcome is what a reconcile found. The zero Outcome is an object that starts: it neither works nor
// fails, and a failure that has begun goes on.
type Outcome struct {
	// Failure is why the object does not work, or nil.
	Failure *diagnosis.Cause
	// Works ends a failure.
	Works bool
	// Action is a verb: what the controller did or tried.
	Action string
}

// Report writes a status, and emits one Warning for each failure and one Event Recovered when it is
// over. It returns when to call it again, or zero if nothing fails.
//
// since points to a field of the object's status: when the present failure began, in whole seconds.
// Report sets it before it calls write, which must fail if the status in the cluster is another one.
// A failure lasts until Works. Its stages, and a cause that comes again, are one Warning.
func (r *Recorder) Report(
	ctx context.Context, object client.Object, since *metav1.Time, o Outcome, write func(context.Context) error,
) (time.Duration, error) {
	now := r.clock.Now()
	var wait time.Duration
	if o.Failure != nil {
		_, wait = o.Failure.EventReason(now)
	}
	due := o.Failure != nil && wait == 0
	switch {
	case due && since.IsZero():
		*since = metav1.NewTime(now.Truncate(time.Second))
	case o.Failure == nil && o.Works && !since.IsZero():
		// Before the status is written: after it, a retry would not see the failure.
		recovered := Event{Type: corev1.EventTypeNormal, Reason: ReasonRecovered, Action: o.Action, Note: "it works again", Since: since.Time}
		if err := r.Emit(ctx, object, recovered); err != nil {
			return 0, err
		}
		*since = metav1.Time{}
	}
	// Before the Warning: after it, a retry would find another time.
	if err := write(ctx); err != nil || !due {
		return wait, err
	}
	warning := OfCause(o.Failure, o.Action)
	warning.Since = since.Time
	return r.NextRepeat(since.Time), r.Emit(ctx, object, warning)
}
