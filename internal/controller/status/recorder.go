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
}

// Ready reports whether the object is in force.
func (r Result) Ready() bool { return r.Reason == "" }

func (r Result) suspended() bool { return r.Reason == v1alpha1.ReasonSuspended }

// Recorder reports alarms or receivers: their counts, and their failures.
type Recorder struct {
	writer   *Writer
	client   client.Client
	clock    clock.PassiveClock
	counters *counters.Counters
}

// New returns a Recorder for objects of a kind. The Events of an AlarmReceiver come
// from "alarmreceiver-controller".
func New(c client.Client, clk clock.PassiveClock, t *counters.Counters, kind string) *Recorder {
	return &Recorder{
		writer: NewWriter(c, clk, strings.ToLower(kind)+"-controller"), client: c, clock: clk, counters: t,
	}
}

// Reconcile reads the object into the given empty one. If the object does not exist, it
// calls gone; otherwise it calls configure and reports the result.
func (r *Recorder) Reconcile(
	ctx context.Context, key kube.Key, object AlarmObject,
	gone func(key string), configure func(ctx context.Context, key string) (Result, error),
) (reconcile.Result, error) {
	subject := key.String()
	err := r.client.Get(ctx, key.NamespacedName(), object)
	if apierrors.IsNotFound(err) {
		gone(subject)
		r.counters.Forget(subject)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	result, err := configure(ctx, subject)
	if err != nil {
		return reconcile.Result{}, err
	}
	return step.Finish(r.report(ctx, object, subject, result))
}

// report writes the status and emits Events. subject is the key of the object in the
// counters.
func (r *Recorder) report(ctx context.Context, object AlarmObject, subject string, result Result) (time.Duration, error) {
	before := object.DeepCopyObject().(AlarmObject)
	status := object.AlarmStatus()
	r.counters.Apply(subject, object.GetUID(), status)
	notices := r.counters.Notices(subject, r.clock.Now())
	expires := r.setDegraded(object, notices)
	r.setReady(object, result)

	report := Report{Recovered: events.Event{Action: "Reconcile", Note: "in force again"}}
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
	return step.Sooner(repeat, expires), nil
}

func (r *Recorder) setReady(object AlarmObject, result Result) {
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
	r.writer.SetCondition(object, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady, Message: "in force",
	})
}

// setDegraded shows the newest notice and returns how long it is still shown. A notice
// of a former process is in the status only.
func (r *Recorder) setDegraded(object AlarmObject, notices []counters.Notice) time.Duration {
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
