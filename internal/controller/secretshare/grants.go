package secretshare

import (
	"cmp"
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/internal/controller/status"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/policies"
	"github.com/bongsu-io/bongsu/pkg/events"
	"github.com/bongsu-io/bongsu/pkg/step"
)

// grantReconciler writes the status of grants.
type grantReconciler struct {
	client client.Client
	// live reads the UIDs of namespaces from the API server.
	live     client.Reader
	store    *store
	policies *policies.Gate
	writer   *status.Writer

	mu sync.Mutex // for queue
	// queue is nil before the controller starts.
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
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
	r.mu.Lock()
	defer r.mu.Unlock()
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
		if g := &grants.Items[i]; share.IsFrom(g, namespace) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(g)})
		}
	}
	return requests
}

// enqueue enqueues the grants for the SecretShares of a namespace. The delay collects
// changes, so that they share one write of a status.
func (r *grantReconciler) enqueue(ctx context.Context, namespace string) {
	r.mu.Lock()
	queue := r.queue
	r.mu.Unlock()
	if queue == nil {
		return // every grant is enqueued when its controller starts
	}
	for _, request := range r.grantsFrom(ctx, namespace) {
		queue.AddAfter(request, statusDelay)
	}
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
	copies, exceeds, known, err := r.readCopies(ctx, &grant)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !known && len(recreated) == 0 {
		return step.Finish(r.writer.Write(ctx, before, &grant, status.Report{}))
	}
	if known {
		share.SetCopies(&grant.Status, copies)
	}
	ready := share.GrantCondition(&grant.Status, copies, recreated, exceeds)
	r.writer.SetCondition(&grant, ready)
	report := status.Report{Recovered: events.Event{Action: "Copy", Note: share.UpToDate}}
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

// readCopies returns the copies that concern a grant, in order of their names. exceeds is that of
// share.GrantCondition. known is false while the state of some copies is unknown: their SecretShare is
// reconciled later, which enqueues the grant again.
func (r *grantReconciler) readCopies(ctx context.Context, grant *v1alpha1.SecretShareGrant) (found []share.Granted, exceeds string, known bool, err error) {
	for _, from := range grant.Spec.From {
		var shares v1alpha1.SecretShareList
		if err := r.client.List(ctx, &shares, client.InNamespace(from.Namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, "", false, err
		}
		for i := range shares.Items {
			copies, known := r.copiesOf(&shares.Items[i], grant)
			if !known {
				return nil, "", false, nil
			}
			found = append(found, copies...)
			if last, _ := r.store.lastPlan(keyOfShare(&shares.Items[i])); last != nil && last.Grants[grant.UID].Exceeds {
				exceeds = from.Namespace
			}
		}
	}
	slices.SortFunc(found, func(a, b share.Granted) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.SecretShare, b.SecretShare))
	})
	return found, exceeds, true, nil
}

func keyOfShare(rule *v1alpha1.SecretShare) kube.Key {
	return kube.Key{Kind: v1alpha1.KindSecretShare, Namespace: rule.Namespace, Name: rule.Name}
}

// copiesOf returns the copies of one SecretShare that concern a grant; false while their
// state is unknown.
func (r *grantReconciler) copiesOf(rule *v1alpha1.SecretShare, grant *v1alpha1.SecretShareGrant) ([]share.Granted, bool) {
	if !rule.DeletionTimestamp.IsZero() {
		return nil, true // its copies are being removed
	}
	copies, known := r.store.copiesFor(grant, keyOfShare(rule), rule)
	return slices.DeleteFunc(copies, func(c share.Granted) bool { return !c.Denied && !share.Allows(grant, c.Name) }), known
}
