package status

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/counters"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/policies"
	"github.com/bongsu-io/bongsu/pkg/events"
	"github.com/bongsu-io/bongsu/pkg/step"
)

// AlarmObject is an alarm or a receiver.
type AlarmObject interface {
	Object
	AlarmStatus() *v1alpha1.AlarmStatus
}

// Result is the result of configuring an alarm or a receiver. The zero Result means
// that it is ready.
type Result struct {
	// Reason why it is not ready, or that it is suspended: a constant of v1alpha1.
	Reason string
	// Message says what is wrong and what to do.
	Message string
	// Hint says what probably is a mistake, although the object is in force. Optional.
	Hint string
	// NextAttempt is status.nextAttemptTime of a receiver; zero if it has none.
	NextAttempt time.Time
	// SetAside and HandledDrop are the fields of the status of a receiver.
	SetAside    int64
	HandledDrop string
	// ResumedAt is status.resumedTime of an alarm; zero if it stays as it is.
	ResumedAt time.Time
	// Delivery is nil for an alarm.
	Delivery *Delivery
	// MuteFrom and MuteUntil are those of the spec of an alarm, or zero.
	MuteFrom, MuteUntil time.Time
	// Acknowledgements is spec.acknowledgements of an alarm.
	Acknowledgements []v1alpha1.AlarmAcknowledgement
	// Unchanged means that the status stays as it is.
	Unchanged bool
	// RequeueAfter is when the object is configured again at the latest; zero is never.
	RequeueAfter time.Duration
}

// Delivery is what the operator knows about the messages to a receiver, since it started or
// the receiver changed.
type Delivery struct {
	// Attempted means that there was an attempt to send a message. Reason and Message are those
	// of its failure, and empty if the receiver accepted the message.
	Attempted       bool
	Reason, Message string
	// Wanted is the value of the test that the receiver shall get, or empty.
	Wanted string
	// Test is the value of the last test, if there was one. TestedAt is when it ended, and
	// TestFailure is why it failed, if it did.
	Test        string
	TestedAt    time.Time
	TestFailure string
}

// Blocked returns the result for an object that is not in force without the admission
// policies. During the grace time of policies it reports nothing.
func Blocked(s policies.State) Result {
	if s.InGrace() {
		return Result{Unchanged: true}
	}
	return Result{Reason: s.Reason, Message: s.Message}
}

// Ready reports whether the object is in force.
func (r Result) Ready() bool { return r.Reason == "" }

func (r Result) suspended() bool { return r.Reason == v1alpha1.ReasonSuspended }

// Reporter reports alarms or receivers: their counts, and their failures.
type Reporter struct {
	writer   *Writer
	client   client.Client
	live     client.Reader
	clock    clock.PassiveClock
	counters *counters.Counters
}

// New returns a Reporter for objects of a kind. live reads from the API server, without a
// cache. The Events of an AlarmReceiver come from "alarmreceiver-controller".
func New(c client.Client, live client.Reader, clk clock.PassiveClock, t *counters.Counters, kind string) *Reporter {
	return &Reporter{
		writer: NewWriter(c, clk, strings.ToLower(kind)+"-controller"), client: c, live: live, clock: clk, counters: t,
	}
}

// Reconcile reads the object into the given empty one. If the object does not exist, it
// calls gone; otherwise it calls configure and reports the result.
func (r *Reporter) Reconcile(
	ctx context.Context, key kube.Key, object AlarmObject,
	gone func(key string), configure func(ctx context.Context, key string) (Result, error),
) (reconcile.Result, error) {
	subject := key.String()
	err := r.client.Get(ctx, key.NamespacedName(), object)
	if apierrors.IsNotFound(err) {
		gone(subject)
		return reconcile.Result{}, r.counters.Forget(ctx, subject)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	result, err := configure(ctx, subject)
	if err != nil || result.Unchanged {
		return step.Finish(result.RequeueAfter, err)
	}
	return step.Finish(r.report(ctx, object, subject, result))
}

// errRecreated is returned until the cache contains the new object.
var errRecreated = errors.New("the object was deleted and created again: reading it again")

// report writes the status and emits Events. subject is the key of the object in the
// counters.
func (r *Reporter) report(ctx context.Context, object AlarmObject, subject string, result Result) (time.Duration, error) {
	before := object.DeepCopyObject().(AlarmObject)
	status := object.AlarmStatus()
	err := r.counters.Apply(ctx, subject, object.GetUID(), status, func(ctx context.Context) (*v1alpha1.AlarmStatus, error) {
		current := object.DeepCopyObject().(AlarmObject)
		*current.AlarmStatus() = v1alpha1.AlarmStatus{}
		err := r.live.Get(ctx, client.ObjectKeyFromObject(object), current)
		if err == nil && current.GetUID() != object.GetUID() {
			err = errRecreated
		}
		return current.AlarmStatus(), err
	})
	if err != nil {
		return 0, err
	}
	notices := r.counters.Notices(subject, r.clock.Now())
	status.SetAside, status.HandledDrop = result.SetAside, cmp.Or(result.HandledDrop, status.HandledDrop)
	if object.GetAnnotations()[v1alpha1.AnnotationDrop] == "" {
		status.HandledDrop = "" // the same value can be set again
	}
	status.NextAttemptTime = nil
	if next := result.NextAttempt; !next.IsZero() { // a Time has whole seconds
		status.NextAttemptTime = new(metav1.NewTime(next.Add(time.Second - 1).Truncate(time.Second)))
	}
	if !result.ResumedAt.IsZero() && !result.suspended() {
		status.ResumedTime = new(metav1.NewTime(result.ResumedAt))
	}
	muteChanges := r.setMuted(status, result)
	groupsEnd, err := r.setGroups(ctx, object, subject, result)
	if err != nil {
		return 0, err
	}
	expires := r.setDegraded(object, notices)
	result.Hint = withUnresolved(result.Hint, status)
	r.setReady(object, result)
	tests := r.setDelivered(object, result.Delivery)

	report := Report{Changes: tests, Recovered: events.Event{Action: "Reconcile", Note: "in force again"}}
	if !result.Ready() && !result.suspended() {
		report.Failure = new(warning(result.Reason, result.Message))
	}
	repeat, err := r.writer.Write(ctx, before, object, report)
	if err != nil {
		return 0, err
	}
	for _, n := range notices {
		e := warning(n.Reason, n.Text)
		e.Since = n.Since
		if err := r.writer.Emit(ctx, object, e); err != nil {
			return 0, err
		}
	}
	return step.Sooner(repeat, expires, muteChanges, groupsEnd, result.RequeueAfter), nil
}

// withUnresolved adds to a hint that Events were not sent, because their object is not known.
func withUnresolved(hint string, s *v1alpha1.AlarmStatus) string {
	if s.Unresolved == 0 {
		return hint
	}
	return strings.TrimPrefix(hint+"; status.unresolved counts Events that were not sent, because "+match.UnresolvedAdvice, "; ")
}

func (r *Reporter) setReady(object AlarmObject, result Result) {
	conditions := object.CommonStatus().Conditions
	degraded := meta.FindStatusCondition(*conditions, v1alpha1.ConditionDegraded)
	switch {
	case result.suspended():
		meta.RemoveStatusCondition(conditions, v1alpha1.ConditionReady)
		r.writer.SetState(object, v1alpha1.StateSuspended, "", false)
		return
	case !result.Ready():
		r.writer.SetCondition(object, metav1.Condition{
			Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: result.Reason, Message: result.Message,
		})
		r.writer.SetState(object, v1alpha1.StateFailing, result.Reason, true)
		return
	case degraded != nil:
		r.writer.SetState(object, v1alpha1.StateDegraded, degraded.Reason, false)
	default:
		r.writer.SetState(object, v1alpha1.StateReady, "", false)
	}
	message := "in force"
	if result.Hint != "" {
		message += "; " + result.Hint
	}
	r.writer.SetCondition(object, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady, Message: message,
	})
}

// setMuted shows a mute while it lasts, and returns how long it is until it begins or ends.
func (r *Reporter) setMuted(status *v1alpha1.AlarmStatus, result Result) time.Duration {
	status.MutedUntil = nil
	now := r.clock.Now()
	switch {
	case !now.Before(result.MuteUntil):
		return 0
	case now.Before(result.MuteFrom):
		return result.MuteFrom.Sub(now)
	default:
		status.MutedUntil = new(metav1.NewTime(result.MuteUntil))
		return result.MuteUntil.Sub(now)
	}
}

// groupsRetry is when the status shows the open groups if they are not known after a takeover.
const groupsRetry = 10 * time.Second

// setGroups shows the open groups of an alarm. It returns how long it is until the first of them
// ends if nothing happens.
func (r *Reporter) setGroups(ctx context.Context, object AlarmObject, subject string, result Result) (time.Duration, error) {
	if result.Delivery != nil { // a receiver
		return 0, nil
	}
	groups, count, ok, err := r.counters.Groups(ctx, subject, v1alpha1.MaxAcknowledgements)
	status := object.AlarmStatus()
	if !ok && err == nil && len(status.OpenGroups) > 0 {
		return groupsRetry, nil
	}
	if !ok || err != nil {
		return 0, err
	}
	status.OpenGroups, status.OpenGroupCount = nil, count
	var ends time.Duration
	for i := range groups {
		g := &groups[i]
		open := v1alpha1.AlarmOpenGroup{
			Key: g.ID, Name: g.Name, Since: metav1.NewTime(g.Since), LastTime: metav1.NewTime(g.Newest), Occurrences: g.Total,
		}
		for j := range result.Acknowledgements {
			if a := &result.Acknowledgements[j]; a.Group == g.ID && match.AcknowledgementToken(a) == g.Acknowledged {
				open.AcknowledgedBy, open.AcknowledgedTime = a.By, a.Time.DeepCopy()
			}
		}
		status.OpenGroups = append(status.OpenGroups, open)
		if left := g.Over.Add(time.Second).Sub(r.clock.Now()); left > 0 {
			ends = step.Sooner(ends, left)
		}
	}
	return ends, nil
}

// setDelivered sets the condition Delivered. It returns the Event about a test message that
// the status does not contain yet.
func (r *Reporter) setDelivered(object AlarmObject, d *Delivery) []events.Event {
	if d == nil {
		return nil
	}
	c := metav1.Condition{Type: v1alpha1.ConditionDelivered}
	former := meta.FindStatusCondition(object.AlarmStatus().Conditions, c.Type)
	switch {
	case d.Wanted != "" && d.Wanted != d.Test && d.Wanted != object.AlarmStatus().HandledTest:
		c.Status, c.Reason = metav1.ConditionUnknown, v1alpha1.ReasonSendingTest
		c.Message = "a test message waits: it is sent when the receiver is ready"
	case d.Attempted && d.Reason != "":
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, d.Reason, "the last message was not accepted: "+d.Message
	case d.Attempted:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonAccepted, "the receiver accepted the last message"
	case former != nil && former.ObservedGeneration == object.GetGeneration():
		c = *former
	default:
		c.Status, c.Reason = metav1.ConditionUnknown, v1alpha1.ReasonNothingSent
		c.Message = "no message was sent since the spec changed: to send a test, set the annotation " + v1alpha1.AnnotationSendTest + " to a new value"
	}
	r.writer.SetCondition(object, c)
	if d.Test == "" || d.Test == object.AlarmStatus().HandledTest {
		return nil
	}
	object.AlarmStatus().HandledTest = d.Test
	test := events.Event{
		Type: corev1.EventTypeNormal, Reason: v1alpha1.ReasonAcceptedTest, Action: "SendTest",
		Note: "the receiver accepted the test message", Since: d.TestedAt,
	}
	if d.TestFailure != "" {
		test.Type, test.Reason = corev1.EventTypeWarning, v1alpha1.ReasonFailedTest
		test.Note = "the receiver did not accept the test message, which is not sent again: " + d.TestFailure
	}
	return []events.Event{test}
}

// setDegraded shows the newest notice and returns how long it is still shown. A notice
// of a former process is in the status only.
func (r *Reporter) setDegraded(object AlarmObject, notices []counters.Notice) time.Duration {
	status := object.AlarmStatus()
	if len(notices) > 0 {
		last := notices[0]
		status.LastProblemTime = new(metav1.NewTime(last.Since.Truncate(time.Second)))
		r.writer.SetCondition(object, metav1.Condition{
			Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue, Reason: last.Reason, Message: last.Text,
		})
	}
	if status.LastProblemTime != nil {
		if left := counters.NoticeFor - r.clock.Since(status.LastProblemTime.Time); left > 0 {
			return left
		}
	}
	meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionDegraded)
	return 0
}

func warning(reason, note string) events.Event {
	return events.Event{Type: corev1.EventTypeWarning, Reason: reason, Action: "Reconcile", Note: note}
}
