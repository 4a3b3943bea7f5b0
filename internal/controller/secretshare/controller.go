// Package secretshare copies Secrets to other namespaces and keeps the copies up to
// date, as SecretShares and ClusterSecretShares demand. Both kinds are called rules.
//
// It works in two steps. The [Reconciler] of a rule makes a plan: which Secrets to copy
// to which namespaces. The syncer then applies the plan, many namespaces at a time. A
// namespace that fails does not stop the others. The results go into the rule's status.
//
// The store is between the two steps. It keeps every plan, and the owner and version of
// every copy. It learns these from the metadata of Secrets that the API server sends,
// and is empty at every start.
//
// Package share makes the decisions: what is copied where, and what is removed. Never write to a
// Secret that is not a copy of the rule.
package secretshare

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/budget"
	"github.com/bongsu-io/bongsu/internal/controller/reconciler"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/internal/controller/status"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/policies"
	"github.com/bongsu-io/bongsu/pkg/events"
	"github.com/bongsu-io/bongsu/pkg/step"
)

// Finalizer blocks the deletion of a rule until its copies are deleted or released.
const Finalizer = share.Domain + "copies"

const (
	// maxConcurrentSyncs limits how many namespaces are synced at the same time.
	maxConcurrentSyncs = 16
	// statusDelay collects results, so that they share one write of the rule's status.
	statusDelay = 200 * time.Millisecond
)

// RemovalDelay is that of the operator. The requests of one `kubectl apply` follow each other faster.
const RemovalDelay = 2 * time.Second

// Dependencies are the parameters of [New]. All are required.
type Dependencies struct {
	Client client.Client
	// Live reads Secrets from the API server, because no cache contains them. It also reads
	// the UIDs of namespaces, because those in a cache can be old.
	Live client.Reader
	// Namespace is the operator's own, which gets no copies.
	Namespace string
	// Protected are further namespaces that get no copies.
	Protected []string
	// Only are the namespaces of sources and targets; none means all.
	Only []string
	// RemovalDelay is how long an unwanted copy stays at least. A rule that is created just after
	// another one was deleted can then take over its copies.
	RemovalDelay time.Duration
	// Clock gives the times of Events and conditions.
	Clock clock.PassiveClock
	// Metrics registers the metrics.
	Metrics prometheus.Registerer
	// Policies reports whether copies can be written.
	Policies *policies.Gate
}

// Controllers are the reconcilers of both kinds, the syncer that they share, and the
// reconciler of grants.
type Controllers struct {
	rules  []*Reconciler
	grants *grantReconciler
	syncer *syncer
	store  *store
}

// New returns the controllers.
func New(d Dependencies) *Controllers {
	s, read := newStore(), newContents(d.Live)
	writers := map[string]*status.Writer{}
	for kind, controller := range map[string]string{
		v1alpha1.KindSecretShare: "secretshare-controller", v1alpha1.KindClusterSecretShare: "clustersecretshare-controller",
	} {
		writers[kind] = status.NewWriter(d.Client, d.Clock, controller)
	}
	newLists := map[string]func() client.ObjectList{
		v1alpha1.KindSecretShare:        func() client.ObjectList { return &v1alpha1.SecretShareList{} },
		v1alpha1.KindClusterSecretShare: func() client.ObjectList { return &v1alpha1.ClusterSecretShareList{} },
	}
	rule := func(kind string, newEmpty func() Object) *Reconciler {
		return &Reconciler{
			kind: kind, newEmpty: newEmpty, newList: newLists[kind], namespace: d.Namespace, protected: d.Protected, only: d.Only, policies: d.Policies, clock: d.Clock,
			client: d.Client, live: d.Live, contents: read, store: s, budget: newBudget(kind), writer: writers[kind],
		}
	}
	grants := &grantReconciler{
		client: d.Client, live: d.Live, store: s, policies: d.Policies, writer: status.NewWriter(d.Client, d.Clock, "secretsharegrant-controller"),
	}
	secretShares := rule(v1alpha1.KindSecretShare, func() Object { return &v1alpha1.SecretShare{} })
	secretShares.enqueueGrants = grants.enqueue
	return &Controllers{
		store:  s,
		grants: grants,
		rules: []*Reconciler{
			secretShares,
			rule(v1alpha1.KindClusterSecretShare, func() Object { return &v1alpha1.ClusterSecretShare{} }),
		},
		syncer: &syncer{
			client: client.WithFieldOwner(d.Client, share.FieldOwner), clock: d.Clock, removalDelay: d.RemovalDelay, newLists: newLists,
			live: d.Live, contents: read, store: s, metrics: newMetrics(d.Metrics, s, read), policies: d.Policies,
			recorder: func(kind string) *events.Recorder { return writers[kind].Recorder },
		},
	}
}

// Secrets returns the handler that must receive the changes of all Secrets.
func (c *Controllers) Secrets() kube.SecretHandler { return c.store }

// SetUp registers the controllers.
func (c *Controllers) SetUp(mgr ctrl.Manager) error {
	for _, r := range c.rules {
		if err := r.SetUp(mgr); err != nil {
			return err
		}
	}
	if err := c.grants.SetUp(mgr); err != nil {
		return err
	}
	return builder.TypedControllerManagedBy[workItem](mgr).
		Named("secretcopy").
		WithOptions(reconciler.WorkersFor(maxConcurrentSyncs, func(item workItem) string { return item.Rule.Namespace })).
		WatchesRawSource(source.TypedFunc[workItem](c.watchStore)).
		Complete(c.syncer)
}

// watchStore adds the store's work items to the queue of the syncer.
func (c *Controllers) watchStore(_ context.Context, queue workqueue.TypedRateLimitingInterface[workItem]) error {
	c.store.setSyncQueue(queue.Add)
	return nil
}

// Object is a SecretShare or a ClusterSecretShare.
type Object interface {
	status.Object
	CopySpec() *v1alpha1.SecretCopySpec
	ClusterSource() v1alpha1.ClusterSecretSource
	ShareStatus() *v1alpha1.SecretShareStatus
}

// Reconciler makes plans for the rules of one kind, and writes their status.
type Reconciler struct {
	kind     string
	newEmpty func() Object
	newList  func() client.ObjectList
	// namespace is the operator's own. protected get no copies either.
	namespace string
	protected []string
	// only are the namespaces of sources and targets; none means all.
	only     []string
	policies *policies.Gate
	clock    clock.PassiveClock

	client   client.Client
	live     client.Reader
	contents *contents
	store    *store
	budget   *budget.Budget[kube.Key]
	writer   *status.Writer
	// enqueueGrants enqueues the grants for the SecretShares of a namespace. It is nil for
	// ClusterSecretShares, which need no grant.
	enqueueGrants func(ctx context.Context, namespace string)
}

// SetUp registers the reconciler.
func (r *Reconciler) SetUp(mgr ctrl.Manager) error {
	b := ctrl.NewControllerManagedBy(mgr).
		Named(r.kind).
		WithOptions(reconciler.Workers(4)).
		For(r.newEmpty(), builder.WithPredicates(ruleChanged)).
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.allRules), builder.WithPredicates(namespaceChanged)).
		WatchesRawSource(source.Func(r.watchStore)).
		WatchesRawSource(r.policies.Source(r.client, r.newList))
	if r.kind == v1alpha1.KindSecretShare {
		b = b.Watches(&v1alpha1.SecretShareGrant{}, handler.EnqueueRequestsFromMapFunc(r.grantedRules), builder.WithPredicates(grantChanged))
	}
	return b.Complete(r)
}

// watchStore enqueues the rules of this kind that the store reports.
func (r *Reconciler) watchStore(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	r.store.setRuleQueue(r.kind, func(key kube.Key) {
		queue.AddAfter(reconcile.Request{NamespacedName: key.NamespacedName()}, statusDelay)
	})
	return nil
}

// ruleChanged accepts changes of a rule's spec, its deletion, and changes of its
// finalizers.
var ruleChanged = predicate.Or(kube.SpecChanged, predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		return len(e.ObjectOld.GetFinalizers()) != len(e.ObjectNew.GetFinalizers())
	},
})

// namespaceChanged accepts the changes that can make a namespace a target or not.
var namespaceChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() ||
			e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero() ||
			!maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels())
	},
}

// grantChanged accepts the changes of a grant that can change which copies it allows.
var grantChanged = predicate.Or(kube.SpecChanged, predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*v1alpha1.SecretShareGrant), e.ObjectNew.(*v1alpha1.SecretShareGrant)
		return !slices.Equal(before.Status.From, after.Status.From)
	},
})

// allRules maps a namespace to all rules.
func (r *Reconciler) allRules(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.listRules(ctx)
}

// grantedRules maps a grant to the rules of the namespaces that it names.
func (r *Reconciler) grantedRules(ctx context.Context, o client.Object) []reconcile.Request {
	grant, ok := o.(*v1alpha1.SecretShareGrant)
	if !ok {
		return nil
	}
	var requests []reconcile.Request
	for _, from := range grant.Spec.From {
		requests = append(requests, r.listRules(ctx, client.InNamespace(from.Namespace))...)
	}
	return requests
}

func (r *Reconciler) listRules(ctx context.Context, opts ...client.ListOption) []reconcile.Request {
	list := r.newList()
	if err := r.client.List(ctx, list, opts...); err != nil {
		return nil // only if the cache was stopped
	}
	var requests []reconcile.Request
	_ = meta.EachListItem(list, func(o runtime.Object) error {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o.(client.Object))})
		return nil
	})
	return requests
}

// The operator reads rules. Their finalizer is set before the first copy is created and
// removed after the last copy is deleted.
// +kubebuilder:rbac:groups=bongsu.io,resources=secretshares,verbs=list;watch;patch
// +kubebuilder:rbac:groups=bongsu.io,resources=clustersecretshares,verbs=list;watch;patch
//
// A SecretShare is read again after its namespace, which shows that both belong together.
// +kubebuilder:rbac:groups=bongsu.io,resources=secretshares,verbs=get
//
// The first start in a cluster creates the rule secretsync and records that in a
// ConfigMap.
// +kubebuilder:rbac:groups=bongsu.io,resources=clustersecretshares,verbs=create
// +kubebuilder:rbac:groups="",namespace=bongsu-system,resources=configmaps,verbs=get;create
//
// The status of a rule shows the state of its copies.
// +kubebuilder:rbac:groups=bongsu.io,resources=secretshares/status,verbs=update
// +kubebuilder:rbac:groups=bongsu.io,resources=clustersecretshares/status,verbs=update
//
// A grant allows SecretShares of other namespaces to copy to its namespace. Its status shows
// the state of the copies.
// +kubebuilder:rbac:groups=bongsu.io,resources=secretsharegrants,verbs=list;watch
// +kubebuilder:rbac:groups=bongsu.io,resources=secretsharegrants/status,verbs=update
//
// The names and labels of namespaces decide which of them get copies.
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch

// Reconcile makes a plan for one rule and writes its status.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if r.enqueueGrants != nil {
		defer r.enqueueGrants(ctx, req.Namespace)
	}
	object := r.newEmpty()
	key := kube.Key{Kind: r.kind, Namespace: req.Namespace, Name: req.Name}
	err := r.client.Get(ctx, req.NamespacedName, object)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return reconcile.Result{}, err
	case err != nil:
		if left := r.store.keepGone(key, r.clock.Now()); left > 0 {
			r.update(r.budget.Delete(key))
			return reconcile.Result{RequeueAfter: left}, nil
		}
		r.forget(key)
		return reconcile.Result{}, nil
	case !object.GetDeletionTimestamp().IsZero():
		return r.reconcileDeletion(ctx, key, object)
	case !controllerutil.ContainsFinalizer(object, Finalizer):
		// Set it before the first copy, because no copy may outlive its rule.
		return step.Finish(0, r.patchFinalizer(ctx, object, controllerutil.AddFinalizer))
	}
	blocked, err := r.policies.CheckObject(ctx, object)
	if err != nil {
		return reconcile.Result{}, err
	}
	if blocked.Blocked {
		r.forget(key)
		r.store.setDecided(key, object)
		return step.Finish(r.writer.Block(ctx, object, blocked))
	}
	state, err := r.updatePlan(ctx, key, object)
	if err != nil {
		return reconcile.Result{}, err
	}
	r.store.setDecided(key, object)
	if p, ok := r.store.planOf(key); ok {
		r.announceRemovals(ctx, p, object)
		r.announceExpiry(ctx, p, object)
	}
	return r.updateStatus(ctx, key, object, state)
}

// updatePlan stores the plan of the rule. The result reports what the user must
// correct. Until then no copy is written, and copies that may still be wanted stay as
// they are.
func (r *Reconciler) updatePlan(ctx context.Context, key kube.Key, object Object) (readiness, error) {
	if object.CopySpec().Suspend {
		r.forget(key)
		return readiness{Problem: share.Problem{
			Reason:  v1alpha1.ReasonSuspended,
			Message: "spec.suspend is true, so the copies stay as they are: set it to false to resume",
		}}, nil
	}
	if err := r.recordSource(ctx, object); err != nil {
		return readiness{}, err
	}
	rule, invalid := share.Compile(r.definitionOf(key, object))
	p := newPlan(key, rule, object)
	if err := r.setNamespace(ctx, p, object); err != nil {
		return readiness{}, err
	}
	if err := r.setTargets(ctx, p); err != nil {
		return readiness{}, err
	}
	unread := r.setSources(ctx, p, object)
	if err := r.setGrace(ctx, p); err != nil && unread == nil {
		p.Sources, unread = share.Sources{Unknown: true}, err
	}
	if refused := r.claim(p, object, unread); refused.Reason != "" {
		r.store.refuse(key)
		return refused, nil
	}
	state := evaluate(p, invalid, unread)
	if end := p.GraceEnds(); !end.IsZero() {
		state.awaited, state.retry = p.Awaited(), step.Sooner(state.retry, max(end.Sub(r.clock.Now()), time.Millisecond))
	}
	if state.held {
		p.Sources = p.Sources.Hold()
	}
	r.store.setPlan(p)
	return state, nil
}

func (r *Reconciler) definitionOf(key kube.Key, object Object) share.Definition {
	source := object.ClusterSource()
	name := key.Kind + "/" + key.Name
	if key.Namespace != "" {
		name = key.Kind + "/" + key.Namespace + "/" + key.Name
	}
	return share.Definition{
		UID: string(object.GetUID()), Name: name, Namespace: source.Namespace, Operator: r.namespace, Protected: r.protected, Only: r.only,
		Source: source.SecretSource, Spec: *object.CopySpec(),
	}
}

// reconcileDeletion stores a plan without copies, and removes the finalizer when no
// copy is left that the operator can remove.
func (r *Reconciler) reconcileDeletion(ctx context.Context, key kube.Key, object Object) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(object, Finalizer) {
		return reconcile.Result{}, nil
	}
	rule, _ := share.Compile(r.definitionOf(key, object)) // an invalid selector no longer matters
	p := newPlan(key, rule, object)
	p.Deleting = true
	if err := r.setNamespace(ctx, p, object); err != nil { // to recognize copies of its predecessors
		return reconcile.Result{}, err
	}
	rule = p.Rule
	r.store.setPlan(p)
	r.announceRemovals(ctx, p, object)
	var err error
	left, known := r.store.countCopies(key, rule)
	if known && left == 0 {
		left, err = r.countLiveCopies(ctx, rule)
	}
	if err != nil || !known || left > 0 {
		return r.reportDeletion(ctx, key, object, err)
	}
	if namespaces := r.store.protectedCopies(rule); len(namespaces) > 0 {
		logr.FromContextOrDiscard(ctx).Info("Deleting a rule whose copies remain in protected namespaces: delete them there", "rule", rule.Name, "namespaces", namespaces)
	}
	return step.Finish(0, client.IgnoreNotFound(r.patchFinalizer(ctx, object, controllerutil.RemoveFinalizer)))
}

// reportDeletion writes into the status why the rule still exists, and requeues it.
func (r *Reconciler) reportDeletion(ctx context.Context, key kube.Key, object Object, err error) (reconcile.Result, error) {
	if err != nil {
		return reconcile.Result{}, err
	}
	_, err = r.updateStatus(ctx, key, object, readiness{Problem: share.Problem{Reason: v1alpha1.ReasonCopying, Message: "the copies are being removed"}})
	return reconcile.Result{RequeueAfter: time.Second}, err
}

// patchFinalizer writes only the finalizers. An update of the whole object would leave
// out its empty fields, and the API server would set their defaults.
func (r *Reconciler) patchFinalizer(ctx context.Context, object Object, change func(client.Object, string) bool) error {
	patch := client.MergeFromWithOptions(object.DeepCopyObject().(Object), client.MergeFromWithOptimisticLock{})
	change(object, Finalizer)
	return r.client.Patch(ctx, object, patch)
}

// countLiveCopies counts the copies in the API server that the operator must still remove.
// The watch may not have delivered the newest ones yet. It does not count copies that are
// being deleted: only finalizers of others keep them.
func (r *Reconciler) countLiveCopies(ctx context.Context, rule *share.Rule) (int, error) {
	if len(r.only) == 0 {
		return r.countLiveCopiesIn(ctx, rule, metav1.NamespaceAll)
	}
	all := 0
	for _, namespace := range r.only {
		n, err := r.countLiveCopiesIn(ctx, rule, namespace)
		switch {
		case apierrors.IsForbidden(err): // as in a protected namespace, it cannot remove copies there
		case err != nil:
			return 0, err
		}
		all += n
	}
	return all, nil
}

func (r *Reconciler) countLiveCopiesIn(ctx context.Context, rule *share.Rule, namespace string) (int, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	err := r.live.List(ctx, list, client.MatchingLabels{share.LabelRuleUID: rule.UID}, client.InNamespace(namespace))
	n := 0
	for i := range list.Items {
		secret := &list.Items[i]
		if share.RuleOf(secret.Annotations) == rule.UID && secret.DeletionTimestamp.IsZero() && !rule.Protects(secret.Namespace) {
			n++
		}
	}
	return n, err
}

// The default rule copies every Secret of one type from one namespace to all others.
const (
	defaultRule = "secretsync"
	defaultType = v1alpha1.Group + "/secretsync"
)

// DefaultNamespace is the namespace of the sources of the default rule.
const DefaultNamespace = defaultRule

// EnsureDefault creates the ClusterSecretShare secretsync at the operator's first start in a
// cluster, which the ConfigMap defaults records. If there already are Secrets that it would copy,
// it is suspended: no admission policy has checked their authors.
func EnsureDefault(ctx context.Context, c client.Client, defaults client.ObjectKey) error {
	var created corev1.ConfigMap
	err := c.Get(ctx, defaults, &created)
	if err == nil || !apierrors.IsNotFound(err) {
		return err
	}
	var unchecked corev1.SecretList
	err = c.List(ctx, &unchecked, client.InNamespace(defaultRule), client.MatchingFields{"type": defaultType}, client.Limit(1))
	if err != nil {
		return fmt.Errorf("list Secrets in namespace %s: %w", defaultRule, err)
	}
	rule := &v1alpha1.ClusterSecretShare{
		ObjectMeta: metav1.ObjectMeta{Name: defaultRule},
		Spec: v1alpha1.ClusterSecretShareSpec{
			Source: v1alpha1.ClusterSecretSource{
				Namespace: defaultRule, SecretSource: v1alpha1.SecretSource{Type: defaultType},
			},
			SecretCopySpec: v1alpha1.SecretCopySpec{Suspend: len(unchecked.Items) > 0},
		},
	}
	if err := c.Create(ctx, rule); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create ClusterSecretShare %s: %w", defaultRule, err)
	}
	// Create the ConfigMap last: if the operator stops before, its next start creates the
	// rule again or finds it.
	created = corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: defaults.Namespace, Name: defaults.Name},
		Data:       map[string]string{"clustersecretshare." + defaultRule: "created"},
	}
	if err := c.Create(ctx, &created); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create ConfigMap %s: %w", defaults, err)
	}
	return nil
}
