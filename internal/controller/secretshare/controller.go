package secretshare

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/events"
)

// Finalizer keeps a rule until its copies are gone, or let go.
const Finalizer = share.Domain + "copies"

// gatherFor is how long results are gathered before a rule's status is written.
const gatherFor = 200 * time.Millisecond

// Object is a SecretShare or a ClusterSecretShare.
type Object interface {
	client.Object
	CopySpec() *v1alpha1.SecretCopySpec
	ClusterSource() v1alpha1.ClusterSecretSource
	ShareStatus() *v1alpha1.SecretShareStatus
}

// Reconciler makes plans of the rules of one kind, and tells how they fare.
type Reconciler struct {
	kind     string
	newEmpty func() Object
	newList  func() client.ObjectList

	client   client.Client
	live     client.Reader
	book     *book
	clock    clock.PassiveClock
	recorder *events.Recorder
}

// SetUp registers the reconciler.
func (r *Reconciler) SetUp(mgr ctrl.Manager) error {
	b := ctrl.NewControllerManagedBy(mgr).
		Named(r.kind).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		For(r.newEmpty(), builder.WithPredicates(ruleChanged)).
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.all), builder.WithPredicates(namespaceChanged)).
		WatchesRawSource(source.Func(r.hear))
	if r.kind == v1alpha1.KindSecretShare {
		b = b.Watches(&v1alpha1.SecretShareGrant{}, handler.EnqueueRequestsFromMapFunc(r.granted))
	}
	return b.Complete(r)
}

// hear has the book's rules of this kind reconciled.
func (r *Reconciler) hear(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	r.book.listen(r.kind, func(key kube.Key) {
		queue.AddAfter(reconcile.Request{NamespacedName: key.NamespacedName()}, gatherFor)
	})
	return nil
}

// Rules are read, and bear a finalizer from before their first copy to after their last.
// +kubebuilder:rbac:groups=bongsu.io,resources=secretshares,verbs=list;watch;patch
// +kubebuilder:rbac:groups=bongsu.io,resources=clustersecretshares,verbs=list;watch;patch
//
// The rule secretsync is made at the first start in a cluster, and a ConfigMap remembers
// that it was.
// +kubebuilder:rbac:groups=bongsu.io,resources=clustersecretshares,verbs=create
// +kubebuilder:rbac:groups="",namespace=bongsu-system,resources=configmaps,verbs=get;create
//
// The status tells their owners how the copies fare.
// +kubebuilder:rbac:groups=bongsu.io,resources=secretshares/status,verbs=update
// +kubebuilder:rbac:groups=bongsu.io,resources=clustersecretshares/status,verbs=update
//
// A grant is a namespace's consent to be written to.
// +kubebuilder:rbac:groups=bongsu.io,resources=secretsharegrants,verbs=list;watch
//
// The names and labels of namespaces decide which of them get copies.
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch

// Reconcile makes a plan of one rule and writes its status.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	object := r.newEmpty()
	key := kube.Key{Kind: r.kind, Namespace: req.Namespace, Name: req.Name}
	err := r.client.Get(ctx, req.NamespacedName, object)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return reconcile.Result{}, err
	case err != nil:
		r.book.forget(key)
		return reconcile.Result{}, nil
	case !object.GetDeletionTimestamp().IsZero():
		return r.withdraw(ctx, key, object)
	case !controllerutil.ContainsFinalizer(object, Finalizer):
		// Before the first copy: none may outlive its rule.
		return again(r.patchFinalizer(ctx, object, controllerutil.AddFinalizer))
	}
	verdict, err := r.plan(ctx, key, object)
	if err != nil {
		return reconcile.Result{}, err
	}
	return r.report(ctx, key, object, verdict)
}

// plan gives the book the plan of the rule. The verdict reports what the user must
// correct. Until then no copy is written, and those that the rule may still want stay
// as they are.
func (r *Reconciler) plan(ctx context.Context, key kube.Key, object Object) (verdict, error) {
	if object.CopySpec().Suspend {
		r.book.forget(key)
		return verdict{Reason: v1alpha1.ReasonSuspended, Message: "suspended: spec.suspend is true; copies stay as they are"}, nil
	}
	rule, wrong := share.Compile(definitionOf(key, object))
	sources, unread := r.sources(ctx, key, object, rule)
	v := verdictOf(rule, sources, wrong, unread)
	if v.held {
		sources = sources.hold()
	}
	p := &plan{key: key, rule: rule, generation: object.GetGeneration(), sources: sources}
	var err error
	if p.targets, p.ungranted, err = r.targets(ctx, rule); err != nil {
		return verdict{}, err
	}
	r.book.put(p)
	return v, nil
}

func definitionOf(key kube.Key, object Object) share.Definition {
	source := object.ClusterSource()
	name := key.Kind + "/" + key.Name
	if key.Namespace != "" {
		name = key.Kind + "/" + key.Namespace + "/" + key.Name
	}
	return share.Definition{
		UID: string(object.GetUID()), Name: name, Namespace: source.Namespace,
		Source: source.SecretSource, Spec: *object.CopySpec(),
	}
}

// withdraw has all copies of a rule that is deleted removed, or let go, and then
// lets the rule go.
func (r *Reconciler) withdraw(ctx context.Context, key kube.Key, object Object) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(object, Finalizer) {
		return reconcile.Result{}, nil
	}
	rule, _ := share.Compile(definitionOf(key, object)) // its selectors no longer matter
	r.book.put(&plan{key: key, rule: rule, generation: object.GetGeneration()})
	var err error
	left, known := r.book.countCopies(key, string(object.GetUID()))
	if known && left == 0 {
		left, err = r.countLive(ctx, string(object.GetUID()))
	}
	if err != nil || !known || left > 0 {
		return r.reportWithdrawal(ctx, key, object, err)
	}
	r.book.forget(key)
	return again(client.IgnoreNotFound(r.patchFinalizer(ctx, object, controllerutil.RemoveFinalizer)))
}

// reportWithdrawal says why a rule that is deleted is still there, and looks again.
func (r *Reconciler) reportWithdrawal(ctx context.Context, key kube.Key, object Object, err error) (reconcile.Result, error) {
	if err != nil {
		return reconcile.Result{}, err
	}
	_, err = r.report(ctx, key, object, verdict{Reason: v1alpha1.ReasonCopying, Message: "the copies are being removed"})
	return reconcile.Result{RequeueAfter: time.Second}, err
}

// patchFinalizer writes nothing but the finalizers: a write of the whole object
// would take what is empty in it for what is not given, and have it defaulted.
func (r *Reconciler) patchFinalizer(ctx context.Context, object Object, change func(client.Object, string) bool) error {
	patch := client.MergeFromWithOptions(object.DeepCopyObject().(Object), client.MergeFromWithOptimisticLock{})
	change(object, Finalizer)
	return r.client.Patch(ctx, object, patch)
}

// countLive asks the API server itself whether there is a copy: what was created in
// the very last moment may not have been told yet.
func (r *Reconciler) countLive(ctx context.Context, ruleUID string) (int, error) {
	list := secretMetadataList()
	err := r.live.List(ctx, list, client.MatchingLabels{share.LabelRuleUID: ruleUID})
	n := 0
	for i := range list.Items {
		if share.RuleOf(list.Items[i].Annotations) == ruleUID {
			n++
		}
	}
	return n, err
}
