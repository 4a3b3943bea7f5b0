package jupyter

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/culling"
	"github.com/bongsu-io/bongsu/internal/diagnosis"
	"github.com/bongsu-io/bongsu/internal/journal"
	"github.com/bongsu-io/bongsu/internal/kube"
	server "github.com/bongsu-io/bongsu/internal/notebook"
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
	Dependencies
	children *kube.Children
	recorder *kube.Recorder
	journal  *journal.Journal
	secrets  *kube.SecretWatch
	tokens   *tokens
	prober   *prober
	// changed names notebooks to look at again, for what no watch of theirs tells.
	changed chan event.GenericEvent
}

// New returns a Reconciler.
func New(d Dependencies) *Reconciler {
	r := &Reconciler{
		Dependencies: d,
		children:     kube.NewChildren(d.Client, d.Live),
		recorder:     kube.NewRecorder(d.Client, d.Clock, "jupyter-controller"),
		tokens:       newTokens(),
		changed:      make(chan event.GenericEvent, 1024),
	}
	r.journal = journal.New(d.Live, d.Clock, r.lookAgain)
	r.prober = newProber(d.Clock, d.DialPod, r.lookAgain)
	r.secrets = kube.NewSecretWatch(r.secretChanged)
	return r
}

// Secrets is to hear of all Secrets: some hold the tokens of notebooks.
func (r *Reconciler) Secrets() kube.SecretListener { return r.secrets }

// Hear is to be told of all Events: some tell why a notebook does not run.
func (r *Reconciler) Hear(ctx context.Context, occurrences []alarm.Occurrence) {
	r.journal.Hear(ctx, occurrences)
}

// lookAgain has a notebook reconciled. It waits for a busy controller, but not for
// one that has ended.
func (r *Reconciler) lookAgain(ctx context.Context, name types.NamespacedName) {
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	select {
	case r.changed <- event.GenericEvent{Object: object}:
	case <-ctx.Done():
	}
}

// secretChanged has the token that a Secret holds looked at again.
func (r *Reconciler) secretChanged(ctx context.Context, secret types.NamespacedName) {
	for _, user := range r.secrets.Users(secret) {
		if key, err := kube.ParseKey(user); err == nil {
			r.tokens.changed(key.NamespacedName())
			r.prober.forgetToken(key.NamespacedName())
			r.lookAgain(ctx, key.NamespacedName())
		}
	}
}

// concurrent is how many notebooks are reconciled at once: they wait for the API
// server most of the time.
const concurrent = 16

// SetUp registers the reconciler.
func (r *Reconciler) SetUp(mgr ctrl.Manager) error {
	if err := mgr.Add(r.prober.pool); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named(v1alpha1.KindJupyter).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrent}).
		For(&v1alpha1.Jupyter{}, builder.WithPredicates(kube.SpecChanged)).
		Owns(&appsv1.StatefulSet{}).
		Owns(&corev1.Service{}).
		Owns(&networkingv1.Ingress{}).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(ofNotebook)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(ofNotebook)).
		WatchesRawSource(source.Channel(r.changed, handler.Funcs{GenericFunc: gather})).
		Complete(r)
}

// gatherFor is how long news of a notebook is gathered: a flood of Events must not keep
// everyone's workers busy with one.
const gatherFor = 300 * time.Millisecond

func gather(_ context.Context, e event.GenericEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	queue.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.Object)}, gatherFor)
}

// ofNotebook names the Jupyter that an object says it is part of. Anyone may say so:
// it is only looked at again.
func ofNotebook(_ context.Context, o client.Object) []reconcile.Request {
	name := o.GetLabels()[v1alpha1.LabelJupyter]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
}

// notebook is one Jupyter while it is reconciled. Steps change its status in memory
// and add what they find; nothing but the end writes it.
type notebook struct {
	*v1alpha1.Jupyter
	before *v1alpha1.Jupyter
	name   types.NamespacedName

	set   appsv1.StatefulSet
	claim corev1.PersistentVolumeClaim
	// pod is nil if there is none.
	pod *corev1.Pod
	// known are the causes that steps found; stop says that no later step may act.
	known []diagnosis.Cause
	stop  bool
	// updatePending tells whether the pod is older than what is asked for.
	updatePending metav1.Condition
	// cause is why it does not run; nil if nothing is wrong.
	cause *diagnosis.Cause
	// crash is one that the notebook has recovered from; nil if there is no new one.
	crash *diagnosis.Cause
	// others are further causes.
	others []diagnosis.Cause
	// use is what was decided about whether it is used.
	use culling.Decision
	// next is when to look again though nothing changes; zero is never.
	next time.Duration
}

func keyOf(name types.NamespacedName) kube.Key {
	return kube.Key{Kind: v1alpha1.KindJupyter, Namespace: name.Namespace, Name: name.Name}
}

func (n *notebook) key() kube.Key { return keyOf(n.name) }

// within has the notebook looked at again within d.
func (n *notebook) within(d time.Duration) {
	if n.next == 0 || d < n.next {
		n.next = max(d, time.Second)
	}
}

// found adds a cause that lies with the notebook itself, and stops.
func (n *notebook) found(c diagnosis.Cause) {
	n.known = append(n.known, c)
	n.stop = true
}

// step is one step of the way to a notebook that runs.
type step func(ctx context.Context, n *notebook) error

// +kubebuilder:rbac:groups=bongsu.io,resources=jupyters,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=bongsu.io,resources=jupyters/status,verbs=update
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingresses,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups="",resources=resourcequotas,verbs=list
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
	n := &notebook{Jupyter: jupyter, before: jupyter.DeepCopy(), name: req.NamespacedName}
	for _, step := range []step{r.resume, r.expect, r.ensureToken, r.ensureClaim, r.ensureAccess, r.ensureSet, r.findPod, r.update, r.ask, r.diagnose} {
		if err := step(ctx, n); err != nil {
			return again(err)
		}
	}
	r.setStatus(n)
	return r.report(ctx, n)
}

func (r *Reconciler) forget(name types.NamespacedName) {
	r.journal.Forget(name)
	r.secrets.Watch(keyOf(name).String())
	r.tokens.forget(name)
	r.prober.forget(name)
}

// soon is when something is looked at again that the caches do not show yet.
const soon = 200 * time.Millisecond

// again takes it for no error that something was newer than the cache.
func again(err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: soon}, nil
	}
	return reconcile.Result{}, err
}
