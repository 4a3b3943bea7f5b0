package secretshare

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/internal/controller/status"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/events"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
	"github.com/bongsu-io/bongsu/pkg/step"
)

// maxFailing limits how many namespaces a status lists.
const maxFailing = 20

// retryUnreadable is the delay until sources that could not be read are read again.
const retryUnreadable = 5 * time.Second

// readiness is the reason why a rule is not Ready. The zero value means Ready.
type readiness struct {
	share.Problem
	// held means that no copy is written, so the counts of copies stay as they are.
	held bool
	// retry is the delay until the rule is reconciled again, if no watch enqueues it when the
	// cause is gone.
	retry time.Duration
	// nothing is the message of a rule that is Ready because it has nothing to copy yet.
	nothing string
	// awaited says until when copies stay whose source was not found. It is empty if there are none.
	awaited string
	// protected are the protected namespaces with copies. They are no reason to be not Ready,
	// because the Secrets there can be forgeries.
	protected []string
	// leftOut are labels and annotations of tools that are not copied.
	leftOut []string
	// shared counts the copies that belong to other rules, by their names.
	shared map[string]int
}

// isExpected reports whether a reason needs no Warning, because the user asked for it or
// because it is temporary.
func isExpected(reason string) bool {
	switch reason {
	case "", v1alpha1.ReasonReady, v1alpha1.ReasonSuspended, v1alpha1.ReasonCopying:
		return true
	}
	return false
}

// isPartial reports whether some copies of a rule with a problem are as they should be. Those that
// wait for the end of the grace are.
func isPartial(s *v1alpha1.SecretShareStatus) bool { return s.Synced > 0 || s.Expiring > 0 }

// evaluate returns the first problem of the rule of a plan or of its sources. invalid is the error of
// compiling the rule, unread the error of reading the sources.
func evaluate(p *plan, invalid, unread error) readiness {
	rule := p.Rule
	var retry time.Duration
	if unread != nil {
		retry = retryUnreadable
	}
	held := func(reason, message string) readiness {
		return readiness{Problem: share.Problem{Reason: reason, Message: message}, held: true, retry: retry}
	}
	switch {
	case invalid != nil:
		return held(v1alpha1.ReasonInvalidSelector, invalid.Error())
	case rule.InvalidTarget() != "":
		return held(v1alpha1.ReasonInvalidTarget, rule.InvalidTarget())
	case rule.InvalidSource() != "":
		return held(v1alpha1.ReasonSourceUnreadable, rule.InvalidSource())
	case isRecreated(unread):
		return readiness{Problem: share.Problem{Reason: v1alpha1.ReasonSourceRecreated, Message: unread.Error()}, held: true}
	case unread != nil:
		// The error cannot contain values of a Secret, because none was read.
		return held(v1alpha1.ReasonSourceUnreadable, fmt.Sprintf("the sources cannot be read, so no copy is written until a retry succeeds: %v", unread))
	}
	return readiness{Problem: p.Problem(), nothing: p.Nothing()}
}

// updateStatus writes the status of the rule, if it changed, and emits Events.
func (r *Reconciler) updateStatus(ctx context.Context, key kube.Key, object Object, state readiness) (reconcile.Result, error) {
	p, known := r.store.planOf(key)
	if !known && state.Reason == "" {
		return reconcile.Result{}, nil // the first list of all Secrets enqueues the rule again
	}
	before := object.DeepCopyObject().(Object)
	if known {
		state = r.setCounts(object.ShareStatus(), p, state)
		object.ShareStatus().Expiring = int32(r.store.countExpiring(p))
		state.protected, state.leftOut = r.store.protectedCopies(p.Rule), p.LeftOut
	}
	failing := !isExpected(state.Reason)
	r.setState(object, state, failing)
	report := status.Report{Recovered: events.Event{Action: "Copy", Note: share.UpToDate}}
	if failing {
		report.Failure = &events.Event{Type: corev1.EventTypeWarning, Reason: state.Reason, Action: "Copy", Note: state.Message}
	}
	next, err := r.writer.Write(ctx, before, object, report)
	if state.retry > 0 {
		next = step.Sooner(next, state.retry)
	}
	return step.Finish(next, err)
}

// setCounts sets the counts of the status. It returns the problem of the copies if the
// rule has no other.
func (r *Reconciler) setCounts(s *v1alpha1.SecretShareStatus, p *plan, state readiness) readiness {
	results := r.store.resultsOf(p.key)
	for _, namespace := range p.Ungranted {
		results[namespace] = syncResult{
			failed: len(p.Wanted), reason: v1alpha1.ReasonNotGranted, done: true,
			message: "the namespace has no SecretShareGrant for this SecretShare: ask its owner to create one with " + p.Rule.Namespace + " in spec.from",
		}
	}
	for namespace, missing := range p.Missing {
		results[namespace] = syncResult{failed: len(p.Wanted), reason: missing.Reason, message: missing.Message, done: true}
	}
	s.Conflicted, s.Failed, s.Failing = 0, 0, nil
	synced, pending, failing := 0, len(p.Waiting) > 0, []string(nil)
	shared := map[string]int{}
	for namespace, found := range results {
		pending = pending || !found.done
		synced += found.synced
		for owner, n := range found.shared {
			shared[owner] += n
		}
		s.Conflicted += int32(found.conflicted)
		s.Failed += int32(found.failed)
		if _, isMissing := p.Missing[namespace]; isMissing || !found.ok() {
			failing = append(failing, namespace)
		}
	}
	if !state.held {
		s.Sources, s.Desired, s.Synced = int32(len(p.Wanted)+len(p.Held)), int32(p.Desired()), int32(synced)
	}
	slices.Sort(failing)
	for _, namespace := range failing[:min(len(failing), maxFailing)] {
		found := results[namespace]
		s.Failing = append(s.Failing, v1alpha1.SecretShareFailure{
			Namespace: namespace, Reason: found.reason, Message: plaintext.Cut(found.message, share.MaxMessage),
		})
	}
	found := readiness{
		Problem: share.CopiesProblem(s, pending, failing),
		nothing: state.nothing, awaited: state.awaited, retry: state.retry, shared: shared,
	}
	if state.Reason == "" || state.Reason == v1alpha1.ReasonCopying && len(s.Failing) > 0 {
		return found
	}
	return state
}

// setState sets the condition Ready and the state. A suspended rule has no such condition.
func (r *Reconciler) setState(object Object, state readiness, failing bool) {
	ready := metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady,
		Message: cmp.Or(state.nothing, share.UpToDate),
	}
	ready.Message += share.SharedNote(state.shared) + state.awaited
	if len(state.protected) > 0 {
		ready.Message += fmt.Sprintf("; Secrets with the marks of copies remain in protected namespaces (%s): delete them there",
			strings.Join(state.protected[:min(len(state.protected), maxFailing)], ", "))
	}
	if len(state.leftOut) > 0 {
		ready.Message += "; not copied, because a tool would take the copies for its own objects: " + strings.Join(state.leftOut, ", ")
	}
	if state.Reason != "" {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, state.Reason, state.Message
	}
	if state.Reason == v1alpha1.ReasonSuspended {
		meta.RemoveStatusCondition(&object.ShareStatus().Conditions, v1alpha1.ConditionReady)
	} else {
		r.writer.SetCondition(object, ready)
	}
	name := v1alpha1.StateReady
	switch {
	case !object.GetDeletionTimestamp().IsZero():
		name = v1alpha1.StateDeleting
	case state.Reason == v1alpha1.ReasonSuspended:
		name = v1alpha1.StateSuspended
	case failing && !state.held && isPartial(object.ShareStatus()):
		name = v1alpha1.StateDegraded
	case failing:
		name = v1alpha1.StateFailing
	case state.Reason == v1alpha1.ReasonCopying:
		name = v1alpha1.StateCopying
	case state.Reason != "":
		name = v1alpha1.StateWaiting
	}
	r.writer.SetState(object, name, ready.Reason, failing)
}
