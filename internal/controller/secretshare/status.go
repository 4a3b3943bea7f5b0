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
	"github.com/bongsu-io/bongsu/internal/controller/status"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/events"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
	"github.com/bongsu-io/bongsu/pkg/step"
)

const (
	// maxFailing limits how many namespaces a status lists.
	maxFailing = 20
	// maxMessage limits each of their messages, in bytes.
	maxMessage = 500
)

const copiesUpToDate = "all copies are up to date"

// retryUnreadable is the delay until sources that could not be read are read again.
const retryUnreadable = 5 * time.Second

// readiness is the reason why a rule is not Ready. The zero value means Ready.
type readiness struct {
	Reason, Message string
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

// evaluate returns the first problem of the rule of a plan or of its sources. invalid is the error of
// compiling the rule, unread the error of reading the sources.
func evaluate(p *plan, invalid, unread error) readiness {
	rule, s := p.rule, p.sources
	var retry time.Duration
	if unread != nil {
		retry = retryUnreadable
	}
	held := func(reason, message string) readiness {
		return readiness{Reason: reason, Message: message, held: true, retry: retry}
	}
	switch {
	case invalid != nil:
		return held(v1alpha1.ReasonInvalidSelector, invalid.Error())
	case rule.InvalidTarget() != "":
		return held(v1alpha1.ReasonInvalidTarget, rule.InvalidTarget())
	case isRecreated(unread):
		return readiness{Reason: v1alpha1.ReasonSourceRecreated, Message: unread.Error(), held: true}
	case unread != nil:
		// The error cannot contain values of a Secret, because none was read.
		return held(v1alpha1.ReasonSourceUnreadable, fmt.Sprintf("the sources cannot be read, so no copy is written until a retry succeeds: %v", unread))
	case s.skipped:
		return readiness{}
	}
	if deleted := evaluateDeleted(p); deleted.Reason != "" {
		return deleted
	}
	return evaluateSources(p)
}

// evaluateSources returns the first problem of sources that were read.
func evaluateSources(p *plan) readiness {
	rule, s := p.rule, p.sources
	switch {
	case len(s.refused) > 0:
		return readiness{Reason: s.refused[0].Reason, Message: s.refused[0].Message}
	case len(rule.Source.Names) > 0:
		return evaluateNames(p)
	case len(s.wanted) == 0:
		return readiness{nothing: fmt.Sprintf("spec.source selects no Secret in namespace %s, so there is nothing to copy yet", rule.Namespace)}
	}
	return readiness{}
}

// evaluateNames reports the names in spec.source without a Secret. The other Secrets are
// copied.
func evaluateNames(p *plan) readiness {
	var missing []string
	for _, name := range p.rule.Source.Names {
		if _, ok := p.versions[name]; !ok {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return readiness{}
	}
	message := fmt.Sprintf("spec.source selects no Secret with the name %s in namespace %s: create the Secret or correct spec.source",
		strings.Join(missing, ", "), p.rule.Namespace)
	return readiness{Reason: v1alpha1.ReasonSourceNotFound, Message: message + p.awaited()}
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
		state.protected, state.leftOut = r.store.protectedCopies(p.rule), p.leftOut
	}
	failing := !isExpected(state.Reason)
	r.setState(object, state, failing)
	report := status.Report{Recovered: events.Event{Action: "Copy", Note: copiesUpToDate}}
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
	for _, namespace := range p.ungranted {
		results[namespace] = syncResult{
			failed: len(p.wanted), reason: v1alpha1.ReasonNotGranted, done: true,
			message: "the namespace has no SecretShareGrant for this SecretShare: ask its owner to create one with " + p.rule.Namespace + " in spec.from",
		}
	}
	s.Conflicted, s.Failed, s.Failing = 0, 0, nil
	synced, pending, failing := 0, len(p.waiting) > 0, []string(nil)
	for namespace, found := range results {
		pending = pending || !found.done
		synced += found.synced
		s.Conflicted += int32(found.conflicted)
		s.Failed += int32(found.failed)
		if !found.ok() {
			failing = append(failing, namespace)
		}
	}
	if !state.held {
		s.Sources, s.Desired, s.Synced = int32(len(p.wanted)+len(p.held)), int32(p.desired()), int32(synced)
	}
	slices.Sort(failing)
	for _, namespace := range failing[:min(len(failing), maxFailing)] {
		found := results[namespace]
		s.Failing = append(s.Failing, v1alpha1.SecretShareFailure{
			Namespace: namespace, Reason: found.reason, Message: plaintext.Cut(found.message, maxMessage),
		})
	}
	found := evaluateCopies(s, pending, failing)
	found.nothing, found.awaited, found.retry = state.nothing, state.awaited, state.retry
	if state.Reason == "" || state.Reason == v1alpha1.ReasonCopying && len(s.Failing) > 0 {
		return found
	}
	return state
}

// maxNamed limits how many namespaces a condition names besides the first one.
const maxNamed = 3

// evaluateCopies returns the first problem of the copies. pending means that some
// namespaces are not synced yet, failing are the names of those with a problem.
func evaluateCopies(s *v1alpha1.SecretShareStatus, pending bool, failing []string) readiness {
	switch {
	case len(s.Failing) > 0:
		first := s.Failing[0]
		message := fmt.Sprintf("%d of %d copies are up to date; namespace %s: %s", s.Synced, s.Desired, first.Namespace, first.Message)
		if others := failing[1:]; len(others) > 0 {
			message += "; also failing: " + strings.Join(others[:min(len(others), maxNamed)], ", ")
			if more := len(others) - maxNamed; more > 0 {
				message += fmt.Sprintf(" and %d more", more)
			}
		}
		return readiness{Reason: first.Reason, Message: message}
	case pending || s.Synced < s.Desired:
		return readiness{Reason: v1alpha1.ReasonCopying, Message: "copies are being written"}
	}
	return readiness{}
}

// setState sets the condition Ready and the state. A suspended rule has no such condition.
func (r *Reconciler) setState(object Object, state readiness, failing bool) {
	ready := metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady,
		Message: cmp.Or(state.nothing, copiesUpToDate),
	}
	ready.Message += state.awaited
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
	case failing:
		name = v1alpha1.StateFailing
	case state.Reason == v1alpha1.ReasonCopying:
		name = v1alpha1.StateCopying
	case state.Reason != "":
		name = v1alpha1.StateWaiting
	}
	r.writer.SetState(object, name, ready.Reason, failing)
}
