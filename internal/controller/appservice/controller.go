// Package appservice runs the pods of each AppService: with a Deployment, a Service, a
// PodDisruptionBudget, and health checks. A backup precedes every deletion.
// Everything that keeps an app from running appears on the AppService as a condition and a
// Warning.
//
// Package workload decides what the children look like, package diagnosis why they do
// not run, package health whether a pod is healthy. Checks run outside of every
// reconcile. Apart from its checks, an app whose state does not change causes no requests.
package appservice

import (
	"context"
	"errors"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/appservice/health"
	"github.com/bongsu-io/bongsu/internal/controller/reconciler"
	"github.com/bongsu-io/bongsu/internal/controller/status"
	"github.com/bongsu-io/bongsu/internal/feature"
	"github.com/bongsu-io/bongsu/internal/policies"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
	"github.com/bongsu-io/bongsu/pkg/healthcheck"
	"github.com/bongsu-io/bongsu/pkg/podexec"
	"github.com/bongsu-io/bongsu/pkg/step"
)

// Dependencies of a Reconciler. All are required, except DialPod.
type Dependencies struct {
	// Client reads from the caches, Live from the API server.
	Client  client.Client
	Live    client.Reader
	Clock   clock.WithTicker
	Metrics prometheus.Registerer
	// REST runs commands in pods, and reaches pods through the API server.
	REST *rest.Config
	// Image of apps that name none.
	Image string
	// DialPod connects to pods. The default is a direct connection.
	DialPod healthcheck.DialFunc
	// Policies reports whether the operator can work for the author of an object.
	Policies *policies.Gate
	// Features of the operator. Some apps need one that extends AppService.
	Features []feature.Feature
}

// Reconciler runs apps and reports their status.
type Reconciler struct {
	*reconciler.Helpers
	image    string
	features []feature.Feature
	policies *policies.Gate
	runner   *podexec.Runner
	checks   *checks
	exec     *execGrants
	backups  *backups
	metrics  *metrics
	ended    *reconciler.EndedPods
	// evictions of unhealthy pods.
	evictions *evictions
}

// New returns a Reconciler.
func New(d Dependencies) (*Reconciler, error) {
	helpers := reconciler.New(d.Client, d.Live, d.Clock, "appservice-controller")
	runner, err := podexec.New(d.REST)
	if err != nil {
		return nil, err
	}
	checker, err := healthcheck.New(d.Clock, d.REST, runner, d.DialPod)
	if err != nil {
		return nil, err
	}
	checks := newChecks(d.Clock, checker)
	checks.metrics = newMetrics(d.Metrics, checks.Len)
	return &Reconciler{
		Helpers: helpers, image: d.Image, features: d.Features, policies: d.Policies, runner: runner, checks: checks, metrics: checks.metrics,
		exec: newExecGrants(d.Client, d.Clock), backups: newBackups(d.Clock, runner, helpers.Enqueue), evictions: newEvictions(),
		ended: reconciler.NewEndedPods(v1alpha1.LabelAppService),
	}, nil
}

// SetUp registers the reconciler.
func (r *Reconciler) SetUp(mgr ctrl.Manager) error {
	if err := r.addIndexes(mgr); err != nil {
		return err
	}
	for _, part := range []manager.Runnable{r.runner, manager.RunnableFunc(r.checks.Run), r.backups} {
		if err := mgr.Add(part); err != nil {
			return err
		}
	}
	ofApp := reconciler.ByLabel(v1alpha1.LabelAppService)
	return ctrl.NewControllerManagedBy(mgr).
		Named(v1alpha1.KindAppService).
		WithOptions(reconciler.Workers(reconciler.Concurrent)).
		For(&v1alpha1.AppService{}, builder.WithPredicates(appChanged)).
		Watches(&appsv1.Deployment{}, ofApp).
		Watches(&appsv1.ReplicaSet{}, ofApp, builder.OnlyMetadata, builder.WithPredicates(createdOrDeleted)).
		Watches(&corev1.Service{}, ofApp).
		Watches(&policyv1.PodDisruptionBudget{}, ofApp).
		Watches(&corev1.Pod{}, r.ended).
		Watches(&batchv1.Job{}, ofApp).
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.deletedIn), builder.WithPredicates(terminates)).
		WatchesRawSource(source.Func(r.SetQueue)).
		WatchesRawSource(r.checks).
		WatchesRawSource(r.policies.Source(r.Client, func() client.ObjectList { return &v1alpha1.AppServiceList{} })).
		Complete(r)
}

// app is the state of one reconcile. Steps change the status of service in memory.
type app struct {
	service *v1alpha1.AppService
	// before is the AppService as it was read.
	before   *v1alpha1.AppService
	name     types.NamespacedName
	findings reconciler.Findings
	// blocked: a child could not be created.
	blocked bool

	// deployment is empty if the app has none.
	deployment appsv1.Deployment
	// sets are the UIDs and revisions of the Deployment's ReplicaSets.
	sets map[types.UID]string
	// pods are those of the Deployment that are not terminating and have not ended, by name.
	pods []*corev1.Pod
	// ended are those that were evicted or rejected. Their ReplicaSets keep them, but create others.
	ended []*corev1.Pod
	// ending are those that are terminating.
	ending []*corev1.Pod
	// lastEnded is a pod that was ended, and that the status does not contain yet. It may be gone.
	lastEnded *corev1.Pod
	// commandForbidden: the last run of the backup command was refused.
	commandForbidden bool
	// commandCounted: the status contains the result of the last backup command.
	commandCounted bool
	// recovering is the crash from which the pods have not recovered yet, although they are ready.
	recovering *diagnosis.Cause
	// disabled are the parts of the spec that need a feature that the operator runs without.
	disabled disabled
	// checked are the pods with the results of their checks, and refreshed is when counts and
	// messages in the status were last updated.
	checked   []health.Pod
	refreshed time.Time
	remedy    remedy
	report    status.Report
}

func newApp(service *v1alpha1.AppService) *app {
	return &app{
		service: service, before: service.DeepCopy(), name: client.ObjectKeyFromObject(service),
		findings: reconciler.Findings{Kind: v1alpha1.KindAppService, Owner: service},
	}
}

func (a *app) deleting() bool { return !a.service.DeletionTimestamp.IsZero() }

// AppServices are read. A patch adds and removes the finalizer.
// +kubebuilder:rbac:groups=bongsu.io,resources=appservices,verbs=get;list;watch;patch
//
// The status is written.
// +kubebuilder:rbac:groups=bongsu.io,resources=appservices/status,verbs=update
//
// The children of an app. Those without an owner are deleted after its backup.
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch;delete
//
// The ReplicaSets of the Deployment prove which pods belong to the app.
// +kubebuilder:rbac:groups=apps,resources=replicasets,verbs=list;watch
//
// The pods are read, and checked while they run.
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
//
// An unhealthy pod is evicted, so that disruption budgets count. A dry run shows whether they
// allow it.
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create
//
// A backup is a Job, which outlives its app.
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create
//
// A backup must not delay the deletion of a namespace.
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
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
// The claims of a pod and their volumes also explain this, if only nodes of another zone can use them.
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims;persistentvolumes,verbs=get

// Reconcile brings one app closer to its spec and writes its status.
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
	a := newApp(service)
	a.disabled = disabledIn(&service.Spec, r.features)
	if a.deleting() && !controllerutil.ContainsFinalizer(service, v1alpha1.FinalizerBackup) {
		r.forget(req.NamespacedName) // the garbage collector deletes its children
		return reconcile.Result{}, nil
	}
	if a.deleting() && (isOver(service.Status.Backup) || hasNoBackup(service)) {
		return step.Finish(0, r.cleanUp(ctx, a))
	}
	blocked, err := r.policies.CheckObject(ctx, service)
	if err != nil {
		return reconcile.Result{}, err
	}
	if blocked.Blocked {
		return step.Finish(r.block(ctx, a, blocked))
	}
	next, err := r.runSteps(ctx, a)
	if err != nil {
		r.Writer.SetError(service, err)
	}
	a.report.Changes = slices.Concat(a.report.Changes, a.backupEvents(), a.featureEvents(), a.evictionEvents())
	repeat, writeErr := r.Writer.Write(ctx, a.before, service, a.report)
	if writeErr != nil {
		r.checks.setRefreshed(a.name, time.Time{}) // to emit its Events again
		return step.Finish(0, errors.Join(err, writeErr))
	}
	r.ended.Reported(a.name, a.lastEnded)
	if a.commandCounted {
		r.backups.count(a.name)
	}
	if a.deleting() && isOver(service.Status.Backup) {
		r.metrics.backups.WithLabelValues(string(service.Status.Backup.Phase)).Inc()
		return step.Finish(0, r.cleanUp(ctx, a))
	}
	if err != nil {
		return step.Finish(0, err)
	}
	evict, err := r.restart(ctx, a)
	return step.Finish(step.Sooner(next, repeat, evict), err)
}

// block stops what runs for an app, and reports why.
func (r *Reconciler) block(ctx context.Context, a *app, state policies.State) (time.Duration, error) {
	r.forget(a.name)
	if a.deleting() && state.Message != "" {
		state.Message += ": the app is deleted after its backup, which waits for the policies"
	}
	return r.Writer.Block(ctx, a.service, state)
}

// runSteps changes children, and the status in memory. It returns when to reconcile
// again if nothing changes.
func (r *Reconciler) runSteps(ctx context.Context, a *app) (time.Duration, error) {
	children, err := step.Run(ctx, a,
		r.addFinalizer, r.findDeployment, r.ensureDeployment, r.ensureService, r.ensureBudget, r.removeFinalizer)
	if err != nil {
		return 0, err
	}
	a.blocked = children.Stop
	if a.service.Spec.Suspend {
		// Problems are reported when the app is resumed.
		children.RequeueAfter, a.findings.Known = 0, nil
	}
	observed, err := step.Run(ctx, a, r.findPods, r.check, r.checkExec, r.backUp, r.diagnose, r.chooseRestart)
	if err != nil {
		return 0, err
	}
	return step.Sooner(children.RequeueAfter, observed.RequeueAfter, r.setStatus(a)), nil
}

// forget releases what is held in memory for an app.
func (r *Reconciler) forget(name types.NamespacedName) {
	r.Forget(name)
	r.checks.forget(name)
	r.backups.forget(name)
	r.evictions.forget(name)
	r.ended.Forget(name)
}

// metrics of apps. No label contains the name of an app or namespace.
type metrics struct {
	observations *prometheus.CounterVec
	restarts     prometheus.Counter
	backups      *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer, checked func() int) *metrics {
	factory := promauto.With(registry)
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "bongsu", Subsystem: "appservice", Name: "checked_pods", Help: "Pods that are checked.",
	}, func() float64 { return float64(checked()) })
	counter := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "bongsu", Subsystem: "appservice", Name: name, Help: help}
	}
	return &metrics{
		observations: factory.NewCounterVec(counter("checks_total", "Health checks, by outcome."), []string{"outcome"}),
		restarts:     factory.NewCounter(counter("restarts_total", "Unhealthy pods evicted to be replaced.")),
		backups:      factory.NewCounterVec(counter("backups_total", "Backups that ended, by phase."), []string{"phase"}),
	}
}
