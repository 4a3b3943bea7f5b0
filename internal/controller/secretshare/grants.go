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
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/reconciler"
	"github.com/bongsu-io/bongsu/internal/controller/status"
	"github.com/bongsu-io/bongsu/internal/glob"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/policies"
	"github.com/bongsu-io/bongsu/pkg/events"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
	"github.com/bongsu-io/bongsu/pkg/step"
)

// maxListedCopies limits each list of copies in the status of a grant.
const maxListedCopies = 50

// grantReconciler writes the status of grants.
type grantReconciler struct {
	client client.Client
	// live reads the UIDs of namespaces from the API server.
	live     client.Reader
	store    *store
	policies *policies.Gate
	writer   *status.Writer
	queue    workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// SetUp registers the reconciler.
func (r *grantReconciler) SetUp(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named(v1alpha1.KindSecretShareGrant).
		WithOptions(reconciler.Workers(4)).
		For(&v1alpha1.SecretShareGrant{}, builder.WithPredicates(kube.SpecChanged)).
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.grantsForNamespace), builder.WithPredicates(namespaceCreated)).
		WatchesRawSource(source.Func(r.setQueue)).
		Complete(r)
}

func (r *grantReconciler) setQueue(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	r.queue = queue
	return nil
}

// namespaceCreated accepts namespaces that are created after the start, also if a deletion
// of the same name was not observed. Every grant is enqueued at the start.
var namespaceCreated = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList },
	UpdateFunc: func(e event.UpdateEvent) bool { return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() },
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}

func (r *grantReconciler) grantsForNamespace(ctx context.Context, o client.Object) []reconcile.Request {
	return r.grantsFrom(ctx, o.GetName())
}

// grantsFrom returns the grants for the SecretShares of a namespace.
func (r *grantReconciler) grantsFrom(ctx context.Context, namespace string) []reconcile.Request {
	var grants v1alpha1.SecretShareGrantList
	if r.client.List(ctx, &grants, client.UnsafeDisableDeepCopy) != nil {
		return nil // only if the cache was stopped
	}
	var requests []reconcile.Request
	for i := range grants.Items {
		if g := &grants.Items[i]; isFrom(g, namespace) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(g)})
		}
	}
	return requests
}

// enqueue enqueues the grants for the SecretShares of a namespace. The delay collects
// changes, so that they share one write of a status.
func (r *grantReconciler) enqueue(ctx context.Context, namespace string) {
	r.store.mu.Lock()
	queue := r.queue
	r.store.mu.Unlock()
	if queue == nil {
		return // every grant is enqueued when its controller starts
	}
	for _, request := range r.grantsFrom(ctx, namespace) {
		queue.AddAfter(request, statusDelay)
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
	if !grant.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	state, err := r.policies.CheckObject(ctx, &grant)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case state.Reason == v1alpha1.ReasonUnchecked:
		return step.Finish(r.writer.Block(ctx, &grant, state))
	}
	before := grant.DeepCopy()
	recreated, err := r.recordSources(ctx, &grant)
	if err != nil {
		return reconcile.Result{}, err
	}
	copies, known, err := r.readCopies(ctx, &grant)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !known && len(recreated) == 0 {
		return step.Finish(r.writer.Write(ctx, before, &grant, status.Report{}))
	}
	if known {
		setCopies(&grant.Status, copies.found)
	}
	ready := grantCondition(&grant.Status, copies, recreated)
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

// grantedCopies are the copies that concern a grant.
type grantedCopies struct {
	// found are the copies in order of their names.
	found []grantedCopy
	// exceeds is a namespace in spec.from to which the grants of the namespace would allow too
	// many names. It is empty if there is none.
	exceeds string
}

// readCopies returns the copies that concern a grant. It returns false while the state of
// some is unknown: their SecretShare is reconciled later, which enqueues the grant again.
func (r *grantReconciler) readCopies(ctx context.Context, grant *v1alpha1.SecretShareGrant) (c grantedCopies, known bool, err error) {
	for _, from := range grant.Spec.From {
		var shares v1alpha1.SecretShareList
		if err := r.client.List(ctx, &shares, client.InNamespace(from.Namespace), client.UnsafeDisableDeepCopy); err != nil {
			return c, false, err
		}
		for i := range shares.Items {
			copies, known := r.copiesOf(&shares.Items[i], grant)
			if !known {
				return c, false, nil
			}
			c.found = append(c.found, copies...)
			if r.store.exceedsNames(keyOfShare(&shares.Items[i]), grant.UID) {
				c.exceeds = from.Namespace
			}
		}
	}
	slices.SortFunc(c.found, func(a, b grantedCopy) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.SecretShare, b.SecretShare))
	})
	return c, true, nil
}

func keyOfShare(rule *v1alpha1.SecretShare) kube.Key {
	return kube.Key{Kind: v1alpha1.KindSecretShare, Namespace: rule.Namespace, Name: rule.Name}
}

// copiesOf returns the copies of one SecretShare that concern a grant; false while their
// state is unknown.
func (r *grantReconciler) copiesOf(rule *v1alpha1.SecretShare, grant *v1alpha1.SecretShareGrant) ([]grantedCopy, bool) {
	if !rule.DeletionTimestamp.IsZero() {
		return nil, true // its copies are being removed
	}
	copies, known := r.store.copiesFor(grant, keyOfShare(rule), rule)
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
	if _, refused := s.refused[key]; refused || rule.Spec.Suspend {
		for name := range existing {
			add(name.Name, grantedCopy{held: true})
		}
		return copies, true
	}
	state, ok := s.rules[key]
	if !ok || state.plan.grants[grant.UID].generation != grant.Generation {
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

// exceedsNames reports whether the plan of a SecretShare leaves out names of a grant, because
// they are too many.
func (s *store) exceedsNames(key kube.Key, grant types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, ok := s.rules[key]
	return ok && state.plan.grants[grant].exceeds
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
// or of the SecretShare has excluded do not make it False. recreated are namespaces that were
// deleted and created again.
func grantCondition(s *v1alpha1.SecretShareGrantStatus, copies grantedCopies, recreated []string) metav1.Condition {
	c := metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady, Message: copiesUpToDate,
	}
	if s.Synced == 0 {
		c.Reason, c.Message = v1alpha1.ReasonUnused, "no SecretShare of the namespaces in spec.from has written a copy that the grant allows"
	}
	if len(recreated) > 0 {
		c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonSourceRecreated
		c.Message = fmt.Sprintf("namespace %s was deleted and created again, so its SecretShares cannot write here: check who owns it, then delete this grant and create it again", recreated[0])
		return c
	}
	if copies.exceeds != "" {
		c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonOverBudget
		c.Message = fmt.Sprintf("this grant and older ones list more than %d names for namespace %s, so some names are not allowed: use globs in spec.to",
			maxGrantedNames, copies.exceeds)
		return c
	}
	for _, found := range copies.found {
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
