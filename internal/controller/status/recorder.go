// Package report tells the owner of an alarm or a receiver how it fares: the
// Ready condition, the counts, and an Event for every failure. Both kinds, and
// their Cluster forms, are told of in the same way and only here.
package status

import (
	"context"
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
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/condition"
	"github.com/bongsu-io/bongsu/pkg/events"
)

// Object is what is reported on.
type Object interface {
	client.Object
	AlarmStatus() *v1alpha1.AlarmStatus
}

// Verdict is how an object fares. The zero Verdict is in force and well.
type Result struct {
	// Reason why it is not Ready, a v1alpha1.Reason constant; empty if it is.
	Reason string
	// Message says what is wrong and what to do, in a sentence.
	Message string
}

// Well says whether the object is in force.
func (v Result) Ready() bool { return v.Reason == "" }

// failed says whether the owner must be told: not of what they asked for.
func (v Result) failed() bool { return !v.Ready() && v.Reason != v1alpha1.ReasonSuspended }

func (v Result) condition(generation int64) metav1.Condition {
	c := metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue,
		Reason: v1alpha1.ReasonReady, Message: "in force", ObservedGeneration: generation,
	}
	if !v.Ready() {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v.Reason, v.Message
	}
	return c
}

// Reporter writes reports.
type Recorder struct {
	client   client.Client
	clock    clock.PassiveClock
	tally    *counters.Counters
	recorder *events.Recorder
}

// New returns a Reporter on objects of a kind: the Events of an AlarmReceiver come
// from "alarmreceiver-controller".
func New(c client.Client, clk clock.PassiveClock, t *counters.Counters, kind string) *Recorder {
	return &Recorder{client: c, clock: clk, tally: t, recorder: events.NewRecorder(c, clk, strings.ToLower(kind)+"-controller")}
}

// Reconcile does what all these controllers have in common: it reads the object
// into the given empty one, calls gone if there is none, and otherwise reports
// what judge says of it.
func (r *Recorder) Reconcile(
	ctx context.Context, key kube.Key, object Object,
	gone func(key string), judge func(ctx context.Context, key string) (Result, error),
) (reconcile.Result, error) {
	subject := key.String()
	err := r.client.Get(ctx, key.NamespacedName(), object)
	if apierrors.IsNotFound(err) {
		gone(subject)
		r.tally.Forget(subject)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	verdict, err := judge(ctx, subject)
	if err != nil {
		return reconcile.Result{}, err
	}
	return r.Report(ctx, object, subject, verdict)
}

// Report writes the status of object, if it changed, and emits what there is to
// say. subject is the object's key in the tally. The result asks to come back
// when an Event has to be repeated.
func (r *Recorder) Report(ctx context.Context, object Object, subject string, v Result) (reconcile.Result, error) {
	before := object.DeepCopyObject().(Object)
	status := object.AlarmStatus()
	old := meta.FindStatusCondition(before.AlarmStatus().Conditions, v1alpha1.ConditionReady)

	status.ObservedGeneration = object.GetGeneration()
	condition.Set(&status.Conditions, v.condition(object.GetGeneration()), r.clock)
	r.tally.Apply(subject, object.GetUID(), status)
	notices := r.tally.Notices(subject, r.clock.Now())
	lasts := r.degrade(status, notices)
	if v.Ready() && recovered(old) {
		if err := r.tellRecovery(ctx, object, old.LastTransitionTime.Time); err != nil {
			return reconcile.Result{}, err
		}
	}
	if err := condition.UpdateStatus(ctx, r.client, before, object); err != nil {
		return again(err)
	}
	repeat, err := r.warnOf(ctx, object, notices, v)
	return reconcile.Result{RequeueAfter: sooner(repeat, lasts)}, err
}

// degrade says what went wrong lately, and returns how long it is to be said. What
// a former process said stays as long.
func (r *Recorder) degrade(status *v1alpha1.AlarmStatus, notices []counters.Notice) time.Duration {
	var since time.Time
	if len(notices) > 0 {
		last := notices[0]
		since = last.Since
		condition.Set(&status.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue,
			Reason: last.Reason, Message: last.Text, ObservedGeneration: status.ObservedGeneration,
		}, r.clock)
	} else if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionDegraded); c != nil {
		since = c.LastTransitionTime.Time
	} else {
		return 0
	}
	if left := counters.NoticeFor - r.clock.Since(since); left > 0 {
		return left
	}
	meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionDegraded)
	return 0
}

// sooner returns the shorter of two times, of which zero is never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// again takes it for no error that the object was newer than the cache: the cache
// will know in a moment.
func again(err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: 200 * time.Millisecond}, nil
	}
	return reconcile.Result{}, err
}

// tellRecovery comes before the status is written: afterwards, a retry could not
// tell that there was something to recover from. failedSince makes the Event one
// and the same for each failure, however often it is told.
func (r *Recorder) tellRecovery(ctx context.Context, object Object, failedSince time.Time) error {
	return r.recorder.Emit(ctx, object, events.Event{
		Type: corev1.EventTypeNormal, Reason: v1alpha1.ReasonRecovered, Action: "Reconcile",
		Note: "in force again", Since: failedSince,
	})
}

// warnOf returns when the Warning of a failure that lasts is due again.
func (r *Recorder) warnOf(ctx context.Context, object Object, notices []counters.Notice, v Result) (time.Duration, error) {
	for _, n := range notices {
		if err := r.warn(ctx, object, n.Reason, n.Text, n.Since); err != nil {
			return 0, err
		}
	}
	if !v.failed() {
		return 0, nil
	}
	ready := meta.FindStatusCondition(object.AlarmStatus().Conditions, v1alpha1.ConditionReady)
	since := ready.LastTransitionTime.Time
	return r.recorder.NextRepeat(since), r.warn(ctx, object, v.Reason, v.Message, since)
}

func (r *Recorder) warn(ctx context.Context, object Object, reason, note string, since time.Time) error {
	return r.recorder.Emit(ctx, object, events.Event{
		Type: corev1.EventTypeWarning, Reason: reason, Action: "Reconcile", Note: note, Since: since,
	})
}

func recovered(old *metav1.Condition) bool {
	return old != nil && old.Status == metav1.ConditionFalse && old.Reason != v1alpha1.ReasonSuspended
}
