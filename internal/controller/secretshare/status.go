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

// maxFailing is how many namespaces a status names, maxMessage how much of a
// sentence it takes, in bytes.
const (
	maxFailing = 20
	maxMessage = 500
)

// retryUnreadable is when sources that could not be read are read again.
const retryUnreadable = 5 * time.Second

// verdict is how a rule fares. The zero verdict is well.
type verdict struct {
	Reason, Message string
	// held means that no copy is written, so the counts of copies stay as they are.
	held bool
	// retry says that nobody will tell when to look again.
	retry bool
}

// isQuiet tells whether the owner of a rule need not be told of a reason: it is what
// they asked for, or under way, or that a set of Secrets is empty.
func isQuiet(object Object, reason string) bool {
	switch reason {
	case "", v1alpha1.ReasonReady, v1alpha1.ReasonSuspended, v1alpha1.ReasonCopying:
		return true
	case v1alpha1.ReasonSourceNotFound:
		return len(object.ClusterSource().Names) == 0
	}
	return false
}

// verdictOf reports what is wrong with the rule or its sources: first the errors of
// compiling the rule and of reading the sources.
func verdictOf(rule *share.Rule, s sources, wrong, unread error) verdict {
	held := func(reason, message string) verdict {
		return verdict{Reason: reason, Message: message, held: true, retry: unread != nil}
	}
	switch {
	case wrong != nil:
		return held(v1alpha1.ReasonInvalidSelector, wrong.Error())
	case rule.TargetsItself():
		return held(v1alpha1.ReasonInvalidTarget, "spec.targets.names: the rule's own namespace cannot be a target")
	case unread != nil:
		return held(v1alpha1.ReasonSourceUnreadable, unreadable(unread))
	case len(s.refused) > 0:
		return verdict{Reason: s.refused[0].Reason, Message: s.refused[0].Message}
	case len(s.wants) == 0:
		return verdict{
			Reason:  v1alpha1.ReasonSourceNotFound,
			Message: fmt.Sprintf("no Secret of namespace %s is what spec.source selects: create it, or correct spec.source", rule.Namespace),
		}
	}
	return verdict{}
}

// unreadable words an error of the API server, which says nothing of a Secret's
// values: none was read.
func unreadable(err error) string {
	return fmt.Sprintf("the sources could not be read, so no copy is written: %v", err)
}

// report writes the status of the rule, if it changed, and says what there is to
// say.
func (r *Reconciler) report(ctx context.Context, key kube.Key, object Object, v verdict) (reconcile.Result, error) {
	p, known := r.book.planOf(key)
	if !known && v.Reason == "" {
		return reconcile.Result{}, nil // to be looked at again when it is known which copies there are
	}
	before := object.DeepCopyObject().(Object)
	status := object.ShareStatus()
	status.ObservedGeneration = object.GetGeneration()
	if known {
		v = r.count(status, p, v)
	}
	condition.Set(&status.Conditions, v.condition(object.GetGeneration()), r.clock)
	if err := condition.UpdateStatus(ctx, r.client, before, object); err != nil {
		return again(err)
	}
	return r.tell(ctx, object, before, v)
}

// count sets the counts of status, and returns what is amiss with the copies if
// nothing else is.
func (r *Reconciler) count(status *v1alpha1.SecretShareStatus, p *plan, v verdict) verdict {
	results := r.book.resultsOf(p.key)
	for _, namespace := range p.ungranted {
		results[namespace] = result{
			failed: len(p.wants), reason: v1alpha1.ReasonNotGranted, done: true,
			message: "the namespace has no SecretShareGrant for this one: have its owner create one that names " + p.rule.Namespace + " in spec.from",
		}
	}
	status.Conflicted, status.Failed, status.Failing = 0, 0, nil
	synced, pending, failing := 0, false, []string(nil)
	for namespace, found := range results {
		pending = pending || !found.done
		synced += found.synced
		status.Conflicted += int32(found.conflicted)
		status.Failed += int32(found.failed)
		if !found.well() {
			failing = append(failing, namespace)
		}
	}
	if !v.held {
		status.Sources, status.Desired, status.Synced = int32(len(p.wants)), int32(p.desired()), int32(synced)
	}
	slices.Sort(failing)
	for _, namespace := range failing[:min(len(failing), maxFailing)] {
		found := results[namespace]
		status.Failing = append(status.Failing, v1alpha1.SecretShareFailure{
			Namespace: namespace, Reason: found.reason, Message: plaintext.Cut(found.message, maxMessage),
		})
	}
	found := amiss(status, pending)
	if v.Reason == "" || v.Reason == v1alpha1.ReasonCopying && len(status.Failing) > 0 {
		return found
	}
	return v
}

// amiss says what is wrong with the copies; pending that some were not yet looked at.
func amiss(status *v1alpha1.SecretShareStatus, pending bool) verdict {
	switch {
	case len(status.Failing) > 0:
		first := status.Failing[0]
		return verdict{Reason: first.Reason, Message: fmt.Sprintf("%d of %d copies are as they should be; namespace %s: %s",
			status.Synced, status.Desired, first.Namespace, first.Message)}
	case pending || status.Synced < status.Desired:
		return verdict{Reason: v1alpha1.ReasonCopying, Message: "copies are being written"}
	}
	return verdict{}
}

func (v verdict) condition(generation int64) metav1.Condition {
	c := metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue,
		Reason: v1alpha1.ReasonReady, Message: "all copies are as they should be", ObservedGeneration: generation,
	}
	if v.Reason != "" {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v.Reason, v.Message
	}
	return c
}

// tell emits what the owner must know, and asks to come back when it is to be said
// again.
func (r *Reconciler) tell(ctx context.Context, object, before Object, v verdict) (reconcile.Result, error) {
	ready := meta.FindStatusCondition(object.ShareStatus().Conditions, v1alpha1.ConditionReady)
	since := ready.LastTransitionTime.Time
	if isQuiet(object, v.Reason) {
		return reconcile.Result{}, r.tellRecovery(ctx, object, before, v, since)
	}
	err := r.recorder.Emit(ctx, object, events.Event{
		Type: corev1.EventTypeWarning, Reason: v.Reason, Action: "Copy", Note: v.Message, Since: since,
	})
	next := r.recorder.NextRepeat(since)
	if v.retry {
		next = min(next, retryUnreadable)
	}
	return reconcile.Result{RequeueAfter: next}, err
}

// tellRecovery says that a rule is well of which a Warning said that it was not.
func (r *Reconciler) tellRecovery(ctx context.Context, object, before Object, v verdict, since time.Time) error {
	old := meta.FindStatusCondition(before.ShareStatus().Conditions, v1alpha1.ConditionReady)
	if v.Reason != "" || old == nil || isQuiet(object, old.Reason) {
		return nil
	}
	return r.recorder.Emit(ctx, object, events.Event{
		Type: corev1.EventTypeNormal, Reason: v1alpha1.ReasonRecovered, Action: "Copy", Note: "all copies are as they should be", Since: since,
	})
}

// again takes it for no error that the object was newer than the cache.
func again(err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: gatherFor}, nil
	}
	return reconcile.Result{}, err
}
