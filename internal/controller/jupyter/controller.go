// Package jupyter runs a notebook server for each Jupyter: a StatefulSet with one pod, a
// Service, a claim, a token, and an Ingress. Everything that keeps a notebook from
// running appears on the Jupyter as a condition and a Warning.
//
// Package workload decides what the children look like, package diagnosis why they do
// not run. A notebook whose state does not change causes no requests.
package jupyter

import (
	"context"
	"errors"
	"time"

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
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/jupyter/culling"
	"github.com/bongsu-io/bongsu/internal/controller/jupyter/server"
	"github.com/bongsu-io/bongsu/internal/controller/reconciler"
	"github.com/bongsu-io/bongsu/internal/controller/status"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/policies"
	"github.com/bongsu-io/bongsu/pkg/step"
)

// Dependencies of a Reconciler. All are required, except DialPod.
type Dependencies struct {
	// Client reads from the caches, Live from the API server.
	Client client.Client
	Live   client.Reader
	Clock  clock.WithTicker
	// Image of notebooks that name none.
	Image string
	// DialPod connects to pods. The default is a direct connection.
	DialPod server.DialFunc
	// Policies reports whether the operator can work for the author of an object.
	Policies *policies.Gate
}

// Reconciler runs notebooks and reports their status.
type Reconciler struct {
	*reconciler.Helpers
	image    string
	policies *policies.Gate
	secrets  *kube.SecretWatch
	tokens   *tokens
	prober   *prober
	ended    *reconciler.EndedPods
}

// New returns a Reconciler.
func New(d Dependencies) *Reconciler {
	helpers := reconciler.New(d.Client, d.Live, d.Clock, "jupyter-controller")
	r := &Reconciler{
		Helpers: helpers, image: d.Image, policies: d.Policies, tokens: newTokens(), ended: reconciler.NewEndedPods(v1alpha1.LabelJupyter),
		prober: newProber(d.Clock, d.DialPod, helpers.Enqueue),
	}
	r.secrets = kube.NewSecretWatch(r.secretChanged)
	return r
}

// Secrets receives changes of all Secrets: some contain the tokens of notebooks.
func (r *Reconciler) Secrets() kube.SecretHandler { return r.secrets }

// secretChanged enqueues a notebook whose token is in a Secret that has changed.
func (r *Reconciler) secretChanged(notebook kube.Key) {
	name := notebook.NamespacedName()
	r.tokens.changed(name)
	r.prober.forgetToken(name)
	r.Enqueue(name)
}

// SetUp registers the reconciler.
func (r *Reconciler) SetUp(mgr ctrl.Manager) error {
	if err := mgr.Add(r.prober.pool); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named(v1alpha1.KindJupyter).
		WithOptions(reconciler.Workers(reconciler.Concurrent)).
		For(&v1alpha1.Jupyter{}, builder.WithPredicates(kube.SpecChanged)).
		Owns(&appsv1.StatefulSet{}).
		Owns(&corev1.Service{}).
		Owns(&networkingv1.Ingress{}).
		Watches(&corev1.PersistentVolumeClaim{}, reconciler.ByLabel(v1alpha1.LabelJupyter)).
		Watches(&corev1.Pod{}, r.ended).
		WatchesRawSource(source.Func(r.SetQueue)).
		WatchesRawSource(r.policies.Source(r.Client, func() client.ObjectList { return &v1alpha1.JupyterList{} })).
		Complete(r)
}

// notebook is the state of one reconcile. Steps change the status of jupyter in memory.
type notebook struct {
	jupyter *v1alpha1.Jupyter
	// before is the Jupyter as it was read.
	before *v1alpha1.Jupyter
	name   types.NamespacedName
	// template is the pod that the Jupyter asks for. It is not used if it is refused.
	template        corev1.PodTemplateSpec
	templateRefused bool

	set appsv1.StatefulSet
	observed
	// use is the decision whether the notebook is used.
	use culling.Decision
	// failing is the decision whether the notebook fails for too long.
	failing culling.FailingDecision
	report  status.Report
}

func newNotebook(j *v1alpha1.Jupyter) *notebook {
	return &notebook{
		jupyter: j, before: j.DeepCopy(), name: client.ObjectKeyFromObject(j),
		observed: observed{
			suspend: j.Spec.Suspend, culled: culledReason(j), failed: !status.FailingSince(j).IsZero(),
			url: workload.NotebookURL(j), claimName: claimName(j), culling: settingsOf(j),
			findings:      reconciler.Findings{Kind: v1alpha1.KindJupyter, Owner: j},
			updatePending: ofType(v1alpha1.ConditionUpdatePending)(metav1.ConditionFalse, v1alpha1.ReasonUpToDate, "the pod has the current template"),
		},
	}
}

func keyOf(name types.NamespacedName) kube.Key {
	return kube.Key{Kind: v1alpha1.KindJupyter, Namespace: name.Namespace, Name: name.Name}
}

// Jupyters are read. Culling patches the spec.
// +kubebuilder:rbac:groups=bongsu.io,resources=jupyters,verbs=get;list;watch;patch
//
// The status is written.
// +kubebuilder:rbac:groups=bongsu.io,resources=jupyters/status,verbs=update
//
// The children of a notebook. The garbage collector deletes them.
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;create;patch
//
// An Ingress is deleted when the Jupyter no longer asks for it.
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingresses,verbs=get;list;watch;create;patch;delete
//
// A notebook that names no token gets one. The token is read to ask the server whether
// the notebook is used. The metadata of all Secrets is watched for changes of tokens.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;patch
//
// The pod is read. It is deleted if its template is outdated and it may be replaced.
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;delete
//
// Quotas and LimitRanges explain why there is no pod.
// +kubebuilder:rbac:groups="",resources=resourcequotas;limitranges,verbs=list
//
// Classes of volumes, priorities and runtimes: if one does not exist, the message names those that do.
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=list
// +kubebuilder:rbac:groups=scheduling.k8s.io,resources=priorityclasses,verbs=list
// +kubebuilder:rbac:groups=node.k8s.io,resources=runtimeclasses,verbs=list
//
// Nodes explain why a pod is not scheduled. The cache contains a summary.
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch
//
// The volumes of its claims also explain this, if only nodes of another zone can use them.
// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=get

// Reconcile brings one notebook closer to its spec and writes its status.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	jupyter := &v1alpha1.Jupyter{}
	err := r.Client.Get(ctx, req.NamespacedName, jupyter)
	if apierrors.IsNotFound(err) || err == nil && !jupyter.DeletionTimestamp.IsZero() {
		r.forget(req.NamespacedName) // the garbage collector deletes its children
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	blocked, err := r.policies.CheckObject(ctx, jupyter)
	if err != nil {
		return reconcile.Result{}, err
	}
	if blocked.Blocked {
		r.forget(req.NamespacedName) // stops what runs
		return step.Finish(r.Writer.Block(ctx, jupyter, blocked))
	}
	n := newNotebook(jupyter)
	next, err := r.runSteps(ctx, n)
	if err != nil {
		r.Writer.SetError(jupyter, err)
	}
	repeat, writeErr := r.Writer.Write(ctx, n.before, jupyter, n.report)
	if err = errors.Join(err, writeErr); err != nil {
		return step.Finish(0, err)
	}
	r.ended.Reported(n.name, n.ended)
	warned, err := r.cull(ctx, n)
	return step.Finish(step.Sooner(next, repeat, warned), errors.Join(err, r.emitCreatedPod(ctx, n)))
}

// runSteps changes children, and the status in memory. It returns when to reconcile
// again if nothing changes.
func (r *Reconciler) runSteps(ctx context.Context, n *notebook) (time.Duration, error) {
	children, err := step.Run(ctx, n,
		r.resume, r.expectEvents, r.renderPod, r.ensureToken, r.ensureClaim, r.ensureService, r.ensureIngress, r.ensureStatefulSet)
	if err != nil {
		return 0, err
	}
	if n.blocked = children.Stop; n.blocked {
		if err := r.findStatefulSet(ctx, n); err != nil {
			return 0, err
		}
	}
	if n.suspend {
		// Problems of a start are reported when the notebook is resumed.
		stopping, err := step.Run(ctx, n, r.stopStatefulSet, r.findPod, r.stopObserving, r.diagnoseStop, r.assess)
		if err != nil {
			return 0, err
		}
		return step.Sooner(stopping.RequeueAfter, r.setStatus(n)), nil
	}
	running, err := step.Run(ctx, n, r.findPod, r.replacePod, r.probe, r.diagnose, r.assess)
	if err != nil {
		return 0, err
	}
	return step.Sooner(children.RequeueAfter, running.RequeueAfter, r.setStatus(n)), nil
}

// forget releases what is held in memory for a notebook.
func (r *Reconciler) forget(name types.NamespacedName) {
	r.Forget(name)
	r.secrets.Watch(keyOf(name))
	r.tokens.forget(name)
	r.prober.forget(name)
	r.ended.Forget(name)
}
