package jupyter

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/jupyter/culling"
	"github.com/bongsu-io/bongsu/internal/controller/jupyter/server"
	"github.com/bongsu-io/bongsu/internal/controller/reconciler"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// Dependencies are what a Reconciler needs; all of them.
type Dependencies struct {
	// Client reads from the caches, Live from the API server.
	Client client.Client
	Live   client.Reader
	Clock  clock.WithTicker
	// Image of notebooks that name none.
	Image string
	// DialPod is how pods are reached. Nil, which is allowed here alone, is the
	// network's way.
	DialPod server.DialFunc
}

// Reconciler makes notebooks run and tells how they fare.
type Reconciler struct {
	*reconciler.Helpers
	image   string
	secrets *kube.SecretWatch
	tokens  *tokens
	prober  *prober
}

// New returns a Reconciler.
func New(d Dependencies) *Reconciler {
	upkeep := reconciler.New(d.Client, d.Live, d.Clock, "jupyter-controller")
	r := &Reconciler{
		Helpers: upkeep, image: d.Image, tokens: newTokens(),
		prober: newProber(d.Clock, d.DialPod, upkeep.Enqueue),
	}
	r.secrets = kube.NewSecretWatch(r.secretChanged)
	return r
}

// Secrets is to hear of all Secrets: some hold the tokens of notebooks.
func (r *Reconciler) Secrets() kube.SecretHandler { return r.secrets }

// secretChanged has the token that a Secret holds looked at again.
func (r *Reconciler) secretChanged(ctx context.Context, secret types.NamespacedName) {
	for _, user := range r.secrets.Users(secret) {
		if key, err := kube.ParseKey(user); err == nil {
			r.tokens.changed(key.NamespacedName())
			r.prober.forgetToken(key.NamespacedName())
			r.Enqueue(ctx, key.NamespacedName())
		}
	}
}

// SetUp registers the reconciler.
func (r *Reconciler) SetUp(mgr ctrl.Manager) error {
	if err := mgr.Add(r.prober.pool); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named(v1alpha1.KindJupyter).
		WithOptions(controller.Options{MaxConcurrentReconciles: reconciler.Concurrent}).
		For(&v1alpha1.Jupyter{}, builder.WithPredicates(kube.SpecChanged)).
		Owns(&appsv1.StatefulSet{}).
		Owns(&corev1.Service{}).
		Owns(&networkingv1.Ingress{}).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(reconciler.Labelled(v1alpha1.LabelJupyter))).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(reconciler.Labelled(v1alpha1.LabelJupyter))).
		WatchesRawSource(r.Changes()).
		Complete(r)
}

// notebook is one Jupyter while it is reconciled. Steps change its status in memory
// and add what they find; nothing but the end writes it.
type notebook struct {
	*reconciler.State
	*v1alpha1.Jupyter
	before *v1alpha1.Jupyter
	name   types.NamespacedName

	set   appsv1.StatefulSet
	claim corev1.PersistentVolumeClaim
	// pod is nil if there is none.
	pod *corev1.Pod
	// updatePending tells whether the pod is older than what is asked for.
	updatePending metav1.Condition
	// use is what was decided about whether it is used.
	use culling.Decision
}

func keyOf(name types.NamespacedName) kube.Key {
	return kube.Key{Kind: v1alpha1.KindJupyter, Namespace: name.Namespace, Name: name.Name}
}

func (n *notebook) key() kube.Key { return keyOf(n.name) }

// step is one step of the way to a notebook that runs.
type step func(ctx context.Context, n *notebook) error

// Jupyters are read; culling stops one, by a patch of its spec.
// +kubebuilder:rbac:groups=bongsu.io,resources=jupyters,verbs=list;watch;patch
//
// The status tells their owners how they fare.
// +kubebuilder:rbac:groups=bongsu.io,resources=jupyters/status,verbs=update
//
// These are what a notebook is made of; they go with it.
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;create;patch
//
// An Ingress is a notebook's own, and removed when it is not asked for any more.
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingresses,verbs=get;list;watch;create;patch;delete
//
// A token is made for a notebook that names none, and read to ask its server whether it is
// used; the metadata of all Secrets is watched, to notice when a token changes.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;patch
//
// The notebook's pod is looked at, and deleted if it is older than what is asked for and
// may be replaced.
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;delete
//
// A quota may be why there is no pod.
// +kubebuilder:rbac:groups="",resources=resourcequotas,verbs=list
//
// Nodes may be why a pod is not scheduled; they are summed up from a trimmed cache.
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch

// Reconcile brings one notebook a step further and writes how it fares.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	jupyter := &v1alpha1.Jupyter{}
	err := r.Client.Get(ctx, req.NamespacedName, jupyter)
	if apierrors.IsNotFound(err) || err == nil && !jupyter.DeletionTimestamp.IsZero() {
		r.forget(req.NamespacedName) // its children go with it
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	n := &notebook{
		State:   reconciler.NewState(v1alpha1.KindJupyter, jupyter, &jupyter.Status.Conditions),
		Jupyter: jupyter, before: jupyter.DeepCopy(), name: req.NamespacedName,
	}
	for _, step := range []step{r.resume, r.expect, r.ensureToken, r.ensureClaim, r.ensureAccess, r.ensureSet, r.findPod, r.update, r.ask, r.diagnose} {
		if err := step(ctx, n); err != nil {
			return reconciler.RequeueOnConflict(err)
		}
	}
	r.setStatus(n)
	return r.report(ctx, n)
}

func (r *Reconciler) forget(name types.NamespacedName) {
	r.EventCache.Forget(name)
	r.secrets.Watch(keyOf(name).String())
	r.tokens.forget(name)
	r.prober.forget(name)
}
