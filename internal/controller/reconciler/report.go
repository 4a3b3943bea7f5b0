package reconciler

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/condition"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
	"github.com/bongsu-io/bongsu/pkg/events"
)

// Stalled sets the condition of that name. It keeps the time when it began to be
// stalled, for whatever reason: an Event that tells of a reason is told once from then
// on.
func (u *Helpers) Stalled(p *State, stalled bool) {
	c := p.Condition(v1alpha1.ConditionStalled, metav1.ConditionFalse, v1alpha1.ReasonNotStalled, "nothing is in the way")
	if stalled {
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, p.Cause.Reason, p.Sentence()
	}
	c.LastTransitionTime = metav1.NewTime(u.Clock.Now().Truncate(time.Second))
	meta.SetStatusCondition(p.conditions, c)
}

// StartedAt is when the object was last made to run, or what was in the way went.
func (u *Helpers) StartedAt(p *State) time.Time {
	stalled := p.StalledBefore()
	if stalled != nil && stalled.Reason == diagnosis.ReasonProgressDeadlineExceeded && stalled.ObservedGeneration == p.object.GetGeneration() {
		return time.Time{} // it has had its time
	}
	if c := p.Before(v1alpha1.ConditionProgressing); isStarting(c) {
		return c.LastTransitionTime.Time
	}
	return u.Clock.Now()
}

func isStarting(progressing *metav1.Condition) bool {
	return progressing != nil && (progressing.Reason == v1alpha1.ReasonStarting || progressing.Reason == v1alpha1.ReasonRecovering) &&
		progressing.Status == metav1.ConditionTrue
}

// Report writes the status, if it changed, and tells what there is to tell of causes:
// if runs is not empty, that the object does what it should again, in these words.
func (u *Helpers) Report(ctx context.Context, p *State, before client.Object, runs string) error {
	if since, failed := p.FailedSince(); failed && !p.stalledNow() && runs != "" {
		// Before the status is written: afterwards, a retry could not tell that there was
		// anything to recover from.
		if err := u.Recorder.Emit(ctx, p.object, recovered(runs, since)); err != nil {
			return err
		}
	}
	if p.Crash != nil { // before, for the same reason
		if err := u.Recorder.Emit(ctx, p.object, warning(p.Crash, p.Crash.Time)); err != nil {
			return err
		}
	}
	if err := condition.UpdateStatus(ctx, u.Client, before, p.object); err != nil {
		return err
	}
	if !p.stalledNow() {
		return nil
	}
	since := meta.FindStatusCondition(*p.conditions, v1alpha1.ConditionStalled).LastTransitionTime.Time
	p.RequeueAfter(u.Recorder.NextRepeat(since))
	return u.Recorder.Emit(ctx, p.object, warning(p.Cause, since))
}

func recovered(note string, since time.Time) events.Event {
	return events.Event{Type: corev1.EventTypeNormal, Reason: v1alpha1.ReasonRecovered, Action: "Start", Note: note, Since: since}
}

// warning is the Warning that tells of a cause.
func warning(c *diagnosis.Cause, since time.Time) events.Event {
	reason := c.Reason
	if reason == diagnosis.ReasonFailedCreate && c.Object.Kind == "StatefulSet" {
		reason = "FailedToCreatePod"
	}
	return events.Event{
		Type: corev1.EventTypeWarning, Reason: reason, Action: "Start", Note: c.Sentence(), Identity: c.Identity(), Since: since,
	}
}
