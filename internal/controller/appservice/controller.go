package appservice

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/appservice/health"
	"github.com/bongsu-io/bongsu/internal/controller/appservice/healthcheck"
	"github.com/bongsu-io/bongsu/internal/controller/reconciler"
	"github.com/bongsu-io/bongsu/pkg/podexec"
)

// Dependencies are what a Reconciler needs; all of them.
type Dependencies struct {
	// Client reads from the caches, Live from the API server.
	Client  client.Client
	Live    client.Reader
	Clock   clock.WithTicker
	Metrics prometheus.Registerer
	// REST is how commands are run in pods, and pods reached through the API server.
	REST *rest.Config
	// Image of apps that name none.
	Image string
	// DialPod is how pods are reached. Nil, which is allowed here alone, is the
	// network's way.
	DialPod healthcheck.DialFunc
}

// Reconciler makes apps run and tells how they fare.
type Reconciler struct {
	*reconciler.Helpers
	image   string
	runner  *podexec.Runner
	checks  *checks
	backups *backups
	metrics *metrics
}

// New returns a Reconciler.
func New(d Dependencies) (*Reconciler, error) {
	upkeep := reconciler.New(d.Client, d.Live, d.Clock, "appservice-controller")
	runner, err := podexec.New(d.REST)
	if err != nil {
		return nil, err
	}
	checker, err := healthcheck.New(d.Clock, d.REST, runner, d.DialPod)
	if err != nil {
		return nil, err
	}
	checks := newChecks(d.Clock, checker, upkeep.Enqueue)
	checks.metrics = newMetrics(d.Metrics, checks.pool.Len)
	return &Reconciler{
		Helpers: upkeep, image: d.Image, runner: runner, checks: checks, metrics: checks.metrics,
		backups: newBackups(d.Clock, runner, upkeep.Enqueue),
	}, nil
}

// SetUp registers the reconciler.
func (r *Reconciler) SetUp(mgr ctrl.Manager) error {
	if err := r.addIndexes(mgr); err != nil {
		return err
	}
	for _, part := range []manager.Runnable{r.runner, r.checks.pool, r.backups} {
		if err := mgr.Add(part); err != nil {
			return err
		}
	}
	ofApp := handler.EnqueueRequestsFromMapFunc(reconciler.Labelled(v1alpha1.LabelAppService))
	return ctrl.NewControllerManagedBy(mgr).
		Named(v1alpha1.KindAppService).
		WithOptions(controller.Options{MaxConcurrentReconciles: reconciler.Concurrent}).
		For(&v1alpha1.AppService{}, builder.WithPredicates(lifeChanged)).
		Watches(&appsv1.Deployment{}, ofApp).
		Watches(&appsv1.ReplicaSet{}, ofApp, builder.OnlyMetadata, builder.WithPredicates(isNewOrGone)).
		Watches(&corev1.Service{}, ofApp).
		Watches(&corev1.Pod{}, ofApp).
		Watches(&batchv1.Job{}, ofApp).
		WatchesRawSource(r.Changes()).
		Complete(r)
}

// app is one AppService while it is reconciled. Steps change its status in memory and
// add what they find; nothing but the end writes it.
type app struct {
	*reconciler.State
	*v1alpha1.AppService
	before *v1alpha1.AppService
	name   types.NamespacedName

	// deployment is empty if there is none of the app's.
	deployment appsv1.Deployment
	// sets are the UIDs and names of the Deployment's ReplicaSets.
	sets map[types.UID]string
	// pods are those of the Deployment that are not terminating, by name.
	pods []*corev1.Pod
	// turned are the pods that came to fare otherwise, by their checks.
	turned health.Transitions
	// commandJudged: the status says what the last run of the backup's command came to.
	commandJudged bool
	// toRestart is the pod to be replaced; empty for none.
	toRestart types.UID
}

// step is one step of the way to an app that runs.
type step func(ctx context.Context, a *app) error

// AppServices are read; a patch adds and takes off the finalizer of a backup.
// +kubebuilder:rbac:groups=bongsu.io,resources=appservices,verbs=list;watch;patch
//
// The status tells their owners how they fare.
// +kubebuilder:rbac:groups=bongsu.io,resources=appservices/status,verbs=update
//
// These are what an app is made of; those without an owner are removed after its backup.
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch;delete
//
// The ReplicaSets of the Deployment prove whose a pod is.
// +kubebuilder:rbac:groups=apps,resources=replicasets,verbs=get;list;watch
//
// The app's pods are looked at, and checked if they run.
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
//
// Checks and backups by command run in the app's containers.
// +kubebuilder:rbac:groups="",resources=pods/exec,verbs=get;create
//
// Checks by HTTP reach pods through the API server where that is asked for.
// +kubebuilder:rbac:groups="",resources=pods/proxy,verbs=get
//
// An unhealthy pod is evicted, so that disruption budgets count.
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create
//
// A backup is a Job, which outlives its app.
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create
//
// A backup never holds up a namespace that is being deleted.
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
//
// A quota may be why there is no pod.
// +kubebuilder:rbac:groups="",resources=resourcequotas,verbs=list
//
// Nodes may be why a pod is not scheduled; they are summed up from a trimmed cache.
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch

// Reconcile brings one app a step further and writes how it fares.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	service := &v1alpha1.AppService{}
	err := r.Client.Get(ctx, req.NamespacedName, service)
	if apierrors.IsNotFound(err) {
		r.forget(req.NamespacedName)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	a := &app{
		State:      reconciler.NewState(v1alpha1.KindAppService, service, &service.Status.Conditions),
		AppService: service, before: service.DeepCopy(), name: req.NamespacedName,
	}
	if !a.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(a.AppService, v1alpha1.FinalizerBackup) {
		r.forget(req.NamespacedName) // its children go with it
		return reconcile.Result{}, nil
	}
	if !a.DeletionTimestamp.IsZero() && isOver(a.Status.Backup) {
		return reconciler.RequeueOnConflict(r.cleanUp(ctx, a))
	}
	for _, step := range []step{
		r.holdForBackup, r.expect, r.ensureDeployment, r.ensureService, r.releaseFromBackup,
		r.findPods, r.check, r.backUp, r.diagnose,
	} {
		if err := step(ctx, a); err != nil {
			return reconciler.RequeueOnConflict(err)
		}
	}
	r.setStatus(a)
	return r.report(ctx, a)
}

func (r *Reconciler) forget(name types.NamespacedName) {
	r.EventCache.Forget(name)
	r.checks.forget(name)
	r.backups.forget(name)
}
