package secretshare

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/status"
	"github.com/bongsu-io/bongsu/internal/glob"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/events"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
	"github.com/bongsu-io/bongsu/pkg/step"
)

// maxListedCopies limits each list of copies in the status of a grant.
const maxListedCopies = 50

// grantReconciler writes the status of grants.
type grantReconciler struct {
	client client.Client
	store  *store
	writer *status.Writer
	queue  workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// SetUp registers the reconciler.
func (r *grantReconciler) SetUp(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named(v1alpha1.KindSecretShareGrant).
		For(&v1alpha1.SecretShareGrant{}, builder.WithPredicates(kube.SpecChanged)).
		WatchesRawSource(source.Func(r.setQueue)).
		Complete(r)
}

func (r *grantReconciler) setQueue(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	r.queue = queue
	return nil
}

// enqueue enqueues the grants for the SecretShares of a namespace. The delay collects
// changes, so that they share one write of a status.
func (r *grantReconciler) enqueue(ctx context.Context, namespace string) {
	r.store.mu.Lock()
	queue := r.queue
	r.store.mu.Unlock()
	var grants v1alpha1.SecretShareGrantList
	if queue == nil || r.client.List(ctx, &grants, client.UnsafeDisableDeepCopy) != nil {
		return // every grant is enqueued when its controller starts
	}
	for i := range grants.Items {
		if g := &grants.Items[i]; isFrom(g, namespace) {
			queue.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(g)}, statusDelay)
		}
	}
}

// isFrom reports whether a grant names the namespace in spec.from.
func isFrom(g *v1alpha1.SecretShareGrant, namespace string) bool {
	return slices.Contains(g.Spec.From, v1alpha1.SecretShareGrantFrom{Namespace: namespace})
}

// Reconcile writes the status of a grant.
func (r *grantReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var grant v1alpha1.SecretShareGrant
	if err := r.client.Get(ctx, req.NamespacedName, &grant); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	copies, known, err := r.readCopies(ctx, &grant)
	if err != nil || !known || !grant.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, err
	}
	before := grant.DeepCopy()
	setCopies(&grant.Status, copies)
	ready := grantCondition(&grant.Status, copies)
	r.writer.SetCondition(&grant, ready)
	report := status.Report{Recovered: events.Event{Action: "Copy", Note: copiesUpToDate}}
	switch {
	case ready.Status == metav1.ConditionTrue:
		r.writer.SetState(&grant, v1alpha1.StateReady, ready.Reason, false)
	case ready.Reason == v1alpha1.ReasonCopying:
		r.writer.SetState(&grant, v1alpha1.StateCopying, ready.Reason, false)
	default:
		r.writer.SetState(&grant, v1alpha1.StateFailing, ready.Reason, true)
		report.Failure = &events.Event{Type: corev1.EventTypeWarning, Reason: ready.Reason, Action: "Copy", Note: ready.Message}
	}
	return step.Finish(r.writer.Write(ctx, before, &grant, report))
}

// readCopies returns the copies that concern a grant, in order of their names. It returns
// false while the state of some is unknown: their SecretShare is reconciled later, which
// enqueues the grant again.
func (r *grantReconciler) readCopies(ctx context.Context, grant *v1alpha1.SecretShareGrant) ([]grantedCopy, bool, error) {
	var found []grantedCopy
	for _, from := range grant.Spec.From {
		var shares v1alpha1.SecretShareList
		if err := r.client.List(ctx, &shares, client.InNamespace(from.Namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, false, err
		}
		for i := range shares.Items {
			copies, known := r.copiesOf(&shares.Items[i], grant)
			if !known {
				return nil, false, nil
			}
			found = append(found, copies...)
		}
	}
	slices.SortFunc(found, func(a, b grantedCopy) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.SecretShare, b.SecretShare))
	})
	return found, true, nil
}

// copiesOf returns the copies of one SecretShare that concern a grant; false while their
// state is unknown.
func (r *grantReconciler) copiesOf(rule *v1alpha1.SecretShare, grant *v1alpha1.SecretShareGrant) ([]grantedCopy, bool) {
	if !rule.DeletionTimestamp.IsZero() {
		return nil, true // its copies are being removed
	}
	key := kube.Key{Kind: v1alpha1.KindSecretShare, Namespace: rule.Namespace, Name: rule.Name}
	copies, known := r.store.copiesFor(grant, key, rule)
	var found []grantedCopy
	for _, c := range copies {
		c.SecretShare = rule.Namespace + "/" + rule.Name
		if c.held {
			c.problem = heldProblem(rule, c.SecretShare)
		}
		if c.isDenied || allows(grant, c.Name) {
			found = append(found, c)
		}
	}
	return found, known
}

// allows reports whether a grant allows copies with this name.
func allows(grant *v1alpha1.SecretShareGrant, name string) bool {
	return len(grant.Spec.To) == 0 || slices.ContainsFunc(grant.Spec.To, func(to v1alpha1.SecretShareGrantTo) bool {
		return glob.MatchAny([]glob.Pattern{glob.Pattern(to.Name)}, name)
	})
}

// grantedCopy is a copy that concerns a grant.
type grantedCopy struct {
	v1alpha1.GrantedCopy
	// problem is empty if the copy is up to date.
	problem problem
	// held means that the SecretShare cannot update the copy now.
	held bool
	// isDenied means that no grant of the namespace allows the name.
	isDenied bool
}

// heldProblem returns the reason why a SecretShare does not update an existing copy. It
// does not quote the status of the SecretShare, which can name other namespaces.
func heldProblem(rule *v1alpha1.SecretShare, name string) problem {
	if rule.Spec.Suspend {
		return problem{v1alpha1.ReasonSuspended, fmt.Sprintf("SecretShare %s is suspended: ask its owner to set spec.suspend to false", name)}
	}
	reason := v1alpha1.ReasonCopying
	if c := meta.FindStatusCondition(rule.Status.Conditions, v1alpha1.ConditionReady); c != nil && c.Status == metav1.ConditionFalse {
		reason = c.Reason
	}
	return problem{reason, fmt.Sprintf("SecretShare %s cannot update the copy: ask its owner to check its status", name)}
}

// copiesFor returns the copies of a SecretShare in the namespace of a grant: those that it
// wants, and those that it holds. It returns false if their state is unknown.
func (s *store) copiesFor(grant *v1alpha1.SecretShareGrant, key kube.Key, rule *v1alpha1.SecretShare) ([]grantedCopy, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.synced {
		return nil, false
	}
	existing := s.copiesByRule[string(rule.UID)][grant.Namespace]
	var copies []grantedCopy
	add := func(name string, c grantedCopy) {
		c.Name = name
		copies = append(copies, c)
	}
	if rule.Spec.Suspend {
		for name := range existing {
			add(name.Name, grantedCopy{held: true})
		}
		return copies, true
	}
	state, ok := s.rules[key]
	if !ok || state.plan.grants[grant.UID] != grant.Generation {
		return nil, false
	}
	names, denied := state.plan.copiesIn(grant.Namespace)
	result := state.results[grant.Namespace]
	if !result.done && len(names)+len(denied) > 0 {
		return nil, false
	}
	for _, name := range names {
		add(name, grantedCopy{problem: s.problemOf(state, result, types.NamespacedName{Namespace: grant.Namespace, Name: name})})
	}
	for _, name := range denied {
		add(name, grantedCopy{problem: result.problems[name], isDenied: true})
	}
	for name := range existing {
		if !slices.Contains(names, name.Name) && state.plan.keeps(name, s.copies[name]) {
			add(name.Name, grantedCopy{held: true})
		}
	}
	return copies, true
}

// problemOf returns the problem of a wanted copy, or an empty one if the copy is up to
// date. The caller holds s.mu.
func (s *store) problemOf(state *ruleState, result syncResult, name types.NamespacedName) problem {
	if s.copies[name].content == state.plan.wanted[name.Name].content {
		return problem{}
	}
	return cmp.Or(result.problems[name.Name], problem{v1alpha1.ReasonCopying, "the copy is being written"})
}

// setCopies sets the counts and lists of the status.
func setCopies(s *v1alpha1.SecretShareGrantStatus, copies []grantedCopy) {
	s.Synced, s.Waiting, s.SyncedCopies, s.WaitingCopies = 0, 0, nil, nil
	for _, c := range copies {
		if c.problem.reason == "" {
			s.Synced++
			if len(s.SyncedCopies) < maxListedCopies {
				s.SyncedCopies = append(s.SyncedCopies, c.GrantedCopy)
			}
			continue
		}
		s.Waiting++
		if len(s.WaitingCopies) < maxListedCopies {
			s.WaitingCopies = append(s.WaitingCopies, v1alpha1.WaitingCopy{
				GrantedCopy: c.GrantedCopy, Reason: c.problem.reason, Message: plaintext.Cut(c.problem.message, maxMessage),
			})
		}
	}
}

// grantCondition returns the Ready condition of a grant. Copies that the owner of the grant
// or of the SecretShare has excluded do not make it False.
func grantCondition(s *v1alpha1.SecretShareGrantStatus, copies []grantedCopy) metav1.Condition {
	c := metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady, Message: copiesUpToDate,
	}
	if s.Synced == 0 {
		c.Reason, c.Message = v1alpha1.ReasonUnused, "no SecretShare of the namespaces in spec.from has written a copy that the grant allows"
	}
	for _, found := range copies {
		switch found.problem.reason {
		case "", v1alpha1.ReasonNotGranted, v1alpha1.ReasonSuspended:
		default:
			c.Status, c.Reason = metav1.ConditionFalse, found.problem.reason
			c.Message = fmt.Sprintf("%d copies are not up to date; Secret %s of SecretShare %s: %s",
				s.Waiting, found.Name, found.SecretShare, found.problem.message)
			return c
		}
	}
	return c
}
