package secretshare

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/condition"
	"github.com/bongsu-io/bongsu/pkg/events"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

const (
	// maxFailing limits how many namespaces a status lists.
	maxFailing = 20
	// maxMessage limits each of their messages, in bytes.
	maxMessage = 500
)

// retryUnreadable is the delay until sources that could not be read are read again.
const retryUnreadable = 5 * time.Second

// readiness is the reason why a rule is not Ready. The zero value means Ready.
type readiness struct {
	Reason, Message string
	// held means that no copy is written, so the counts of copies stay as they are.
	held bool
	// retry means that no watch enqueues the rule when the cause is gone.
	retry bool
}

// isExpected reports whether a reason needs no Warning. The user asked for it, it is
// temporary, or no Secret matches a type or selector.
func isExpected(object Object, reason string) bool {
	switch reason {
	case "", v1alpha1.ReasonReady, v1alpha1.ReasonSuspended, v1alpha1.ReasonCopying:
		return true
	case v1alpha1.ReasonSourceNotFound:
		return len(object.ClusterSource().Names) == 0
	}
	return false
}

// evaluate returns the first problem of the rule or its sources. invalid is the error of
// compiling the rule, unread the error of reading the sources.
func evaluate(rule *share.Rule, s sources, invalid, unread error) readiness {
	held := func(reason, message string) readiness {
		return readiness{Reason: reason, Message: message, held: true, retry: unread != nil}
	}
	switch {
	case invalid != nil:
		return held(v1alpha1.ReasonInvalidSelector, invalid.Error())
	case rule.TargetsItself():
		return held(v1alpha1.ReasonInvalidTarget, "spec.targets.names contains the rule's own namespace: remove it")
	case unread != nil:
		// The error cannot contain values of a Secret, because none was read.
		return held(v1alpha1.ReasonSourceUnreadable, fmt.Sprintf("the sources cannot be read, so no copy is written until a retry succeeds: %v", unread))
	case len(s.refused) > 0:
		return readiness{Reason: s.refused[0].Reason, Message: s.refused[0].Message}
	case len(s.wanted) == 0:
		return readiness{
			Reason:  v1alpha1.ReasonSourceNotFound,
			Message: fmt.Sprintf("spec.source selects no Secret in namespace %s: create the Secret or correct spec.source", rule.Namespace),
		}
	}
	return readiness{}
}

// updateStatus writes the status of the rule, if it changed, and emits Events.
func (r *Reconciler) updateStatus(ctx context.Context, key kube.Key, object Object, state readiness) (reconcile.Result, error) {
	p, known := r.store.planOf(key)
	if !known && state.Reason == "" {
		return reconcile.Result{}, nil // the first list of all Secrets enqueues the rule again
	}
	before := object.DeepCopyObject().(Object)
	status := object.ShareStatus()
	status.ObservedGeneration = object.GetGeneration()
	if known {
		state = r.setCounts(status, p, state)
	}
	condition.Set(&status.Conditions, state.condition(object.GetGeneration()), r.clock)
	if err := condition.UpdateStatus(ctx, r.client, before, object); err != nil {
		return requeueOnConflict(err)
	}
	return r.emitEvent(ctx, object, before, state)
}

// setCounts sets the counts of the status. It returns the problem of the copies if the
// rule has no other.
func (r *Reconciler) setCounts(status *v1alpha1.SecretShareStatus, p *plan, state readiness) readiness {
	results := r.store.resultsOf(p.key)
	for _, namespace := range p.ungranted {
		results[namespace] = syncResult{
			failed: len(p.wanted), reason: v1alpha1.ReasonNotGranted, done: true,
			message: "the namespace has no SecretShareGrant for this SecretShare: ask its owner to create one with " + p.rule.Namespace + " in spec.from",
		}
	}
	status.Conflicted, status.Failed, status.Failing = 0, 0, nil
	synced, pending, failing := 0, false, []string(nil)
	for namespace, found := range results {
		pending = pending || !found.done
		synced += found.synced
		status.Conflicted += int32(found.conflicted)
		status.Failed += int32(found.failed)
		if !found.ok() {
			failing = append(failing, namespace)
		}
	}
	if !state.held {
		status.Sources, status.Desired, status.Synced = int32(len(p.wanted)), int32(p.desired()), int32(synced)
	}
	slices.Sort(failing)
	for _, namespace := range failing[:min(len(failing), maxFailing)] {
		found := results[namespace]
		status.Failing = append(status.Failing, v1alpha1.SecretShareFailure{
			Namespace: namespace, Reason: found.reason, Message: plaintext.Cut(found.message, maxMessage),
		})
	}
	found := evaluateCopies(status, pending)
	if state.Reason == "" || state.Reason == v1alpha1.ReasonCopying && len(status.Failing) > 0 {
		return found
	}
	return state
}

// evaluateCopies returns the first problem of the copies. pending means that some
// namespaces are not synced yet.
func evaluateCopies(status *v1alpha1.SecretShareStatus, pending bool) readiness {
	switch {
	case len(status.Failing) > 0:
		first := status.Failing[0]
		return readiness{Reason: first.Reason, Message: fmt.Sprintf("%d of %d copies are up to date; namespace %s: %s",
			status.Synced, status.Desired, first.Namespace, first.Message)}
	case pending || status.Synced < status.Desired:
		return readiness{Reason: v1alpha1.ReasonCopying, Message: "copies are being written"}
	}
	return readiness{}
}

func (state readiness) condition(generation int64) metav1.Condition {
	c := metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue,
		Reason: v1alpha1.ReasonReady, Message: "all copies are up to date", ObservedGeneration: generation,
	}
	if state.Reason != "" {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, state.Reason, state.Message
	}
	return c
}

// emitEvent emits a Warning about the problem of a rule, or its recovery. It requeues the
// rule when the Warning must be repeated.
func (r *Reconciler) emitEvent(ctx context.Context, object, before Object, state readiness) (reconcile.Result, error) {
	ready := meta.FindStatusCondition(object.ShareStatus().Conditions, v1alpha1.ConditionReady)
	since := ready.LastTransitionTime.Time
	if isExpected(object, state.Reason) {
		return reconcile.Result{}, r.emitRecovery(ctx, object, before, state, since)
	}
	err := r.recorder.Emit(ctx, object, events.Event{
		Type: corev1.EventTypeWarning, Reason: state.Reason, Action: "Copy", Note: state.Message, Since: since,
	})
	next := r.recorder.NextRepeat(since)
	if state.retry {
		next = min(next, retryUnreadable)
	}
	return reconcile.Result{RequeueAfter: next}, err
}

// emitRecovery emits an Event if the rule is Ready after a Warning.
func (r *Reconciler) emitRecovery(ctx context.Context, object, before Object, state readiness, since time.Time) error {
	old := meta.FindStatusCondition(before.ShareStatus().Conditions, v1alpha1.ConditionReady)
	if state.Reason != "" || old == nil || isExpected(object, old.Reason) {
		return nil
	}
	return r.recorder.Emit(ctx, object, events.Event{
		Type: corev1.EventTypeNormal, Reason: v1alpha1.ReasonRecovered, Action: "Copy", Note: "all copies are up to date", Since: since,
	})
}

// requeueOnConflict requeues the rule if the cache was older than the object, and returns
// all other errors.
func requeueOnConflict(err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: statusDelay}, nil
	}
	return reconcile.Result{}, err
}
