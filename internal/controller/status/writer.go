// Package status writes the status of every kind: the summary, the conditions, and the
// Events for failures and recoveries. ADR 0030 describes the pattern.
package status

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/condition"
	"github.com/bongsu-io/bongsu/pkg/events"
)

// Object is an object with a summary in its status.
type Object interface {
	client.Object
	CommonStatus() v1alpha1.CommonStatus
}

// Writer writes the statuses and Events of one kind.
type Writer struct {
	*events.Recorder

	client client.Client
	clock  clock.PassiveClock
}

// NewWriter returns a Writer whose Events come from controller, for example
// "jupyter-controller".
func NewWriter(c client.Client, clk clock.PassiveClock, controller string) *Writer {
	return &Writer{Recorder: events.NewRecorder(c, clk, controller), client: c, clock: clk}
}

// SetCondition sets a condition of the object's generation in memory.
func (w *Writer) SetCondition(o Object, c metav1.Condition) {
	c.ObservedGeneration = o.GetGeneration()
	condition.Set(o.CommonStatus().Conditions, c, w.clock)
}

// SetState sets the summary in memory. An object that fails keeps failingSince until it
// is ready or stopped.
func (w *Writer) SetState(o Object, state v1alpha1.State, reason string, failing bool) {
	common := o.CommonStatus()
	*common.ObservedGeneration = o.GetGeneration()
	summary := common.Summary
	if summary.State = state; reason == string(state) {
		reason = ""
	}
	summary.Reason = reason
	switch {
	case failing && summary.FailingSince == nil:
		summary.FailingSince = new(metav1.NewTime(w.clock.Now().Truncate(time.Second)))
	case !failing && endsFailure(state):
		summary.FailingSince = nil
	}
}

// endsFailure is false for states from which a failure can continue: the object is
// recovering.
func endsFailure(state v1alpha1.State) bool {
	switch state {
	case v1alpha1.StateStarting, v1alpha1.StateUpdating, v1alpha1.StateCopying, v1alpha1.StateDeleting:
		return false
	default:
		return true
	}
}

func works(state v1alpha1.State) bool {
	return state == v1alpha1.StateReady || state == v1alpha1.StateDegraded
}

// FailingSince returns when the object began to fail; zero if it does not.
func FailingSince(o Object) time.Time {
	if since := o.CommonStatus().Summary.FailingSince; since != nil {
		return since.Time
	}
	return time.Time{}
}

// Report is what Write emits besides the status. Write sets Since of Failure and
// Recovered.
type Report struct {
	// Changes are Events about differences from the former status.
	Changes []events.Event
	// Failure is the present failure; nil if there is none.
	Failure *events.Event
	// Recovered is emitted if the object failed and works again.
	Recovered events.Event
}

// Write writes the status if it differs from before, and emits the Events of the
// report. It returns when to reconcile again to repeat the Event of a failure that
// lasts.
func (w *Writer) Write(ctx context.Context, before, object Object, r Report) (time.Duration, error) {
	since := FailingSince(object)
	// Changes come before the status is written: after it, a retry would not see them.
	if was := FailingSince(before); !was.IsZero() && since.IsZero() && works(object.CommonStatus().Summary.State) {
		r.Recovered.Type, r.Recovered.Reason, r.Recovered.Since = corev1.EventTypeNormal, v1alpha1.ReasonRecovered, was
		r.Changes = append(r.Changes, r.Recovered)
	}
	for _, e := range r.Changes {
		if err := w.Emit(ctx, object, e); err != nil {
			return 0, err
		}
	}
	if err := condition.UpdateStatus(ctx, w.client, before, object); err != nil {
		return 0, err
	}
	if r.Failure == nil {
		return 0, nil
	}
	r.Failure.Since = since
	return w.NextRepeat(since), w.Emit(ctx, object, *r.Failure)
}
