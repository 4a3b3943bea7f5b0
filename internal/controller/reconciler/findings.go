package reconciler

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/status"
	"github.com/bongsu-io/bongsu/pkg/children"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
	"github.com/bongsu-io/bongsu/pkg/events"
	"github.com/bongsu-io/bongsu/pkg/step"
)

// maxOthers is how many further causes a message names.
const maxOthers = 5

// Findings are the causes that one reconcile found.
type Findings struct {
	// Kind and Owner are of the object that is reconciled.
	Kind  string
	Owner status.Object
	// Known are the causes that steps found before the diagnosis.
	Known []diagnosis.Cause
	// Cause is the main reason why the object does not work; nil if nothing is wrong.
	Cause *diagnosis.Cause
	// Others are further causes.
	Others []diagnosis.Cause
	// Crash is a new crash from which the object has recovered; nil if there is none.
	Crash *diagnosis.Cause
}

// SetUpGrace is how long a node may need to set a pod up. Its caches can lack what the pod mounts. A
// new node lacks its network and drivers. setUpReasons are the causes then.
const SetUpGrace = 10 * time.Second

var setUpReasons = []string{
	diagnosis.ReasonFailedMount, diagnosis.ReasonFailedAttachVolume, diagnosis.ReasonFailedCreatePodSandBox, diagnosis.ReasonFailedPrepareDynamicResources,
}

// IsSetUp reports whether the cause is in what a node sets up for a pod before its containers start.
func (f *Findings) IsSetUp() bool {
	return f.Cause != nil && slices.Contains(setUpReasons, f.Cause.Reason)
}

// Add adds a cause that a step found.
func (f *Findings) Add(c diagnosis.Cause) { f.Known = append(f.Known, c) }

// Self is the object as diagnosis names it.
func (f *Findings) Self() diagnosis.Object {
	return diagnosis.Object{Kind: f.Kind, Name: f.Owner.GetName()}
}

// formerGrace is how long the garbage collector may need to delete the objects of a former
// owner.
const formerGrace = time.Minute

// Conflict is the cause for a child whose name another object has.
func (f *Findings) Conflict(c *children.ConflictError) diagnosis.Cause {
	if f.isFormer(c) {
		return diagnosis.Cause{
			Reason: diagnosis.ReasonResourceConflict, Object: diagnosis.Object{Kind: c.Kind, Name: c.Name}, Count: 1, Transient: true,
			Message: fmt.Sprintf("%s %s of a deleted %s with this name still exists", c.Kind, c.Name, f.Kind),
			Advice:  "wait until the cluster deletes it, or delete it", LateAdvice: "delete it", Since: f.Owner.GetCreationTimestamp().Time,
		}
	}
	return diagnosis.Cause{
		Reason: diagnosis.ReasonResourceConflict, Object: diagnosis.Object{Kind: c.Kind, Name: c.Name},
		Message: c.Error(), Advice: fmt.Sprintf("rename or delete it, or create the %s under another name", f.Kind), Count: 1,
	}
}

// isFormer reports whether the object belongs to a deleted object of the same kind and name.
func (f *Findings) isFormer(c *children.ConflictError) bool {
	return c.Owner == f.Kind+" "+f.Owner.GetName()
}

// FormerGraceLeft returns how long the cause may still be an object of a former owner that the
// garbage collector has not deleted yet.
func (f *Findings) FormerGraceLeft(now time.Time) time.Duration {
	if f.Cause == nil || f.Cause.Reason != diagnosis.ReasonResourceConflict || !f.Cause.Transient {
		return 0
	}
	return max(0, formerGrace-now.Sub(f.Owner.GetCreationTimestamp().Time))
}

// StartLeft returns how long the cause may still be a part of a start that the pod itself allows, such as by its
// startup probe.
func (f *Findings) StartLeft(now time.Time) time.Duration {
	if f.Cause == nil || f.Cause.LateAfter.IsZero() {
		return 0
	}
	return max(0, f.Cause.LateAfter.Sub(now))
}

// WaitLeft returns after what time the advice of one of the causes changes, see [diagnosis.Cause.WaitLeft]. It is zero
// if none does.
func (f *Findings) WaitLeft(now time.Time) (next time.Duration) {
	if f.Cause != nil {
		next = f.Cause.WaitLeft(now)
	}
	for i := range f.Others {
		next = step.Sooner(next, f.Others[i].WaitLeft(now))
	}
	return next
}

// SetCause takes the result of a diagnosis. During a failure, the cause keeps the later
// of its stages; see [diagnosis.Cause.Stabilize].
func (f *Findings) SetCause(found diagnosis.Diagnosis, last *v1alpha1.LastFailure) {
	f.Cause, f.Others = found.Cause, found.Others
	if f.Cause != nil && !status.FailingSince(f.Owner).IsZero() {
		f.Cause = new(f.Cause.Stabilize(fromStatus(last)))
	}
}

// Recovering returns the crash from which ready pods have not recovered yet, and how long they must
// still run. Otherwise each moment in which they are ready would end a failure and begin another
// one. Call it before the state is set.
func (f *Findings) Recovering(now time.Time, ready ...*corev1.Pod) (*diagnosis.Cause, time.Duration) {
	if f.Cause != nil || status.FailingSince(f.Owner).IsZero() {
		return nil, 0
	}
	return diagnosis.Recovering(diagnosis.Workload{Pods: ready}, now)
}

// FindCrash finds a crash that was over before a reconcile could see it. last is the
// last failure that was reported.
func (f *Findings) FindCrash(last *v1alpha1.LastFailure, now time.Time, pods ...*corev1.Pod) {
	crash := diagnosis.LastCrash(pods)
	if crash != nil && diagnosis.HappenedAfter(fromStatus(last), crash, now) {
		f.Crash = crash
	}
}

// Lines describes the cause and names the others. There must be a cause.
func (f *Findings) Lines() string {
	text := f.Cause.Lines()
	if len(f.Others) == 0 {
		return text
	}
	named := f.Others[:min(len(f.Others), maxOthers)]
	others := make([]string, len(named), maxOthers+1)
	for i, c := range named {
		others[i] = strings.TrimSpace(fmt.Sprintf("%s of %s %s %s", c.Reason, c.Object.Kind, c.Object.Name, c.Container))
	}
	if more := len(f.Others) - len(named); more > 0 {
		others = append(others, fmt.Sprintf("and %d more", more))
	}
	return text + " (besides: " + strings.Join(others, ", ") + ")"
}

// CauseAt returns the cause in an object; nil if there is none.
func (f *Findings) CauseAt(kind, name string) *diagnosis.Cause {
	object := diagnosis.Object{Kind: kind, Name: name}
	if f.Cause != nil && f.Cause.Object == object {
		return f.Cause
	}
	for i := range f.Others {
		if f.Others[i].Object == object {
			return &f.Others[i]
		}
	}
	return nil
}

// Stalled returns the condition of that type.
func (f *Findings) Stalled(stalled bool) metav1.Condition {
	if stalled {
		return metav1.Condition{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: f.Cause.Reason, Message: f.Lines()}
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionStalled, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotStalled, Message: "nothing blocks progress",
	}
}

// Remember returns the last failure after this reconcile; see [diagnosis.RecordFailure].
func (f *Findings) Remember(last *v1alpha1.LastFailure, stalled bool, now time.Time) *v1alpha1.LastFailure {
	failure := f.Crash
	if stalled {
		failure = f.Cause
	}
	return toStatus(diagnosis.RecordFailure(fromStatus(last), failure, now))
}

// Report returns the Events for the findings. before has the former status, last is the new
// status.lastFailure, and recovered is the note of the Event that the object works again. It
// also returns when to report again: the Warning of a first end waits until it is clear whether
// a crash loop follows.
func (f *Findings) Report(
	before status.Object, last *v1alpha1.LastFailure, stalled bool, recovered string, now time.Time,
) (r status.Report, wait time.Duration) {
	r.Recovered = events.Event{Action: "Start", Note: recovered}
	was := status.FailingSince(before)
	if f.Crash != nil {
		e := warning(f.Crash)
		if e.Since = f.Crash.Time; !was.IsZero() { // it is part of the present failure
			e.Since = was
		}
		r.Changes = append(r.Changes, e)
	}
	if stalled {
		if _, wait = f.Cause.EventReason(now); wait == 0 {
			r.Failure = new(warning(f.Cause))
		}
		return r, wait
	}
	end := firstEnd(last, was, now)
	if end == nil {
		return r, 0
	}
	switch _, wait = end.EventReason(now); {
	case status.FailingSince(f.Owner).IsZero():
		// It has recovered. If the Warning was emitted, the API server refuses this one.
		e := warning(end)
		e.Since = was
		r.Changes = append(r.Changes, e)
		return r, 0
	case wait == 0:
		r.Failure = new(warning(end))
	}
	return r, wait
}

// maxSeenLate is how long after the end of a container its failure can begin. An operator that was
// busy sees the end late.
const maxSeenLate = time.Minute

// firstEnd returns the end of a container that was the last failure, if it belongs to the failure
// since then, and nil otherwise. It leaves out an end whose Warning would be a repetition.
func firstEnd(last *v1alpha1.LastFailure, since, now time.Time) *diagnosis.Cause {
	if last == nil || last.Reason != diagnosis.ReasonError || since.IsZero() {
		return nil
	}
	after := last.LastTime.Sub(since)
	if after < -maxSeenLate || after/events.RepeatEvery != now.Sub(since)/events.RepeatEvery {
		return nil
	}
	return &diagnosis.Cause{
		Reason: last.Reason, Object: diagnosis.Object(last.Object), Container: last.Container, ExitCode: last.ExitCode,
		Message: last.Message, Time: last.LastTime.Time, Count: last.Count,
	}
}

// warning is the Warning of a cause. All stages of a failure have the same one.
func warning(c *diagnosis.Cause) events.Event {
	e := events.OfCause(c, "Start")
	if e.Reason == diagnosis.ReasonFailedCreate && c.Object.Kind == "StatefulSet" {
		e.Reason, e.FinalReason = "FailedToCreatePod", "FailedToCreatePod"
	}
	return e
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
