// Package status writes the status of every kind: the summary, the conditions, and the
// Events for failures and recoveries. ADR 0030 describes the pattern.
package status

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/policies"
	"github.com/bongsu-io/bongsu/pkg/condition"
	"github.com/bongsu-io/bongsu/pkg/events"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
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

	mu sync.Mutex
	// replaced are the versions of objects that the last writes have replaced.
	replaced map[objectID]replacedVersion
}

// objectID identifies an object of the Writer's kind.
type objectID struct {
	client.ObjectKey
	uid types.UID
}

// replacedVersion is the resourceVersion that a write has replaced, and the time of the write.
type replacedVersion struct {
	version string
	at      time.Time
}

// Versions are forgotten after maxCacheLag. A cache is rarely this far behind.
const (
	maxCacheLag = time.Minute
	maxReplaced = 1000
)

// NewWriter returns a Writer whose Events come from controller, for example
// "jupyter-controller".
func NewWriter(c client.Client, clk clock.PassiveClock, controller string) *Writer {
	return &Writer{Recorder: events.NewRecorder(c, clk, controller), client: c, clock: clk, replaced: map[objectID]replacedVersion{}}
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

// Block reports that the operator does nothing for an object because of the admission policies.
// During the grace time of policies it reports nothing.
func (w *Writer) Block(ctx context.Context, o Object, blocked policies.State) (time.Duration, error) {
	if blocked.Message == "" {
		return 0, nil
	}
	before := o.DeepCopyObject().(Object)
	w.SetCondition(o, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: blocked.Reason, Message: blocked.Message,
	})
	w.SetState(o, v1alpha1.StateFailing, blocked.Reason, true)
	return w.Write(ctx, before, o, Report{Failure: &events.Event{
		Type: corev1.EventTypeWarning, Reason: blocked.Reason, Action: "Reconcile", Note: blocked.Message,
	}})
}

// SetError reports an error in memory that prevented the first evaluation of an object. The
// status of a former evaluation stays as it is: most errors pass.
func (w *Writer) SetError(o Object, err error) {
	common := o.CommonStatus()
	ready := meta.FindStatusCondition(*common.Conditions, v1alpha1.ConditionReady)
	isFirst := *common.ObservedGeneration == 0 || ready != nil && ready.Reason == v1alpha1.ReasonReconcileError
	if !isFirst || apierrors.IsConflict(err) || errors.Is(err, context.Canceled) {
		return
	}
	w.SetCondition(o, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonReconcileError,
		Message: "a request of the operator failed: " + plaintext.Cut(plaintext.Line(err.Error()), maxError) + ": the operator retries",
	})
	w.SetState(o, v1alpha1.StateStarting, v1alpha1.ReasonReconcileError, false)
}

// maxError is the limit of an error in a condition, in bytes.
const maxError = 1024

// Report is what Write emits besides the status. Write sets Since of Failure and
// Recovered.
type Report struct {
	// Changes are Events about differences from the former status.
	Changes []events.Event
	// Lasting are Events about entries of the new status, with the times of these entries.
	// The caller must pass them again until Write returns nil, also after a restart.
	Lasting []events.Event
	// Failure is the present failure; nil if there is none.
	Failure *events.Event
	// Recovered is emitted if the object failed and works again.
	Recovered events.Event
}

// Write writes the status if it differs from before, and emits the Events of the
// report. It returns when to reconcile again to repeat the Event of a failure that
// lasts. The error is a conflict if before, which comes from a cache, lacks the last write.
func (w *Writer) Write(ctx context.Context, before, object Object, r Report) (time.Duration, error) {
	if w.isReplaced(before) {
		return 0, apierrors.NewConflict(schema.GroupResource{}, before.GetName(), errors.New("the cache does not contain the last write yet"))
	}
	since := FailingSince(object)
	// Changes come before the status is written: after it, a retry would not see them. Lasting
	// Events come after it: before it, a retry would observe another time.
	if was := FailingSince(before); !was.IsZero() && since.IsZero() && works(object.CommonStatus().Summary.State) {
		r.Recovered.Type, r.Recovered.Reason, r.Recovered.Since = corev1.EventTypeNormal, v1alpha1.ReasonRecovered, was
		r.Changes = append(r.Changes, r.Recovered)
	}
	if err := w.emitAll(ctx, object, r.Changes); err != nil {
		return 0, err
	}
	if err := condition.UpdateStatus(ctx, w.client, before, object); err != nil {
		return 0, err
	}
	w.setReplaced(before, object)
	if err := w.emitAll(ctx, object, r.Lasting); err != nil {
		return 0, err
	}
	if r.Failure == nil {
		return 0, nil
	}
	r.Failure.Since = since
	return w.NextRepeat(since), w.Emit(ctx, object, *r.Failure)
}

// isReplaced reports whether the last write has replaced this version of the object. Without this
// check, a status that equals the one before the last write would not be written.
func (w *Writer) isReplaced(o Object) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := idOf(o)
	last, ok := w.replaced[id]
	if !ok {
		return false
	}
	if last.version == o.GetResourceVersion() && w.clock.Since(last.at) <= maxCacheLag {
		return true
	}
	delete(w.replaced, id) // the cache has caught up, or etcd was restored to this version
	return false
}

// setReplaced records that a write has replaced a version of an object.
func (w *Writer) setReplaced(before, after Object) {
	if before.GetResourceVersion() == after.GetResourceVersion() {
		return // nothing was written
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Now()
	if len(w.replaced) >= maxReplaced {
		maps.DeleteFunc(w.replaced, func(_ objectID, r replacedVersion) bool { return now.Sub(r.at) > maxCacheLag })
	}
	w.replaced[idOf(before)] = replacedVersion{before.GetResourceVersion(), now}
}

func idOf(o Object) objectID { return objectID{client.ObjectKeyFromObject(o), o.GetUID()} }

func (w *Writer) emitAll(ctx context.Context, object Object, all []events.Event) error {
	for _, e := range all {
		if err := w.Emit(ctx, object, e); err != nil {
			return err
		}
	}
	return nil
}
