package controller

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/bongsu-io/bongsu/pkg/children"
	"github.com/bongsu-io/bongsu/pkg/events"
	"github.com/bongsu-io/bongsu/pkg/finalizer"
	"github.com/bongsu-io/bongsu/pkg/probe"
	"github.com/bongsu-io/bongsu/pkg/step"

	cachev1alpha1 "github.com/bongsu-io/bongsu/samples/memcached-operator/api/v1alpha1"
)

// MemcachedReconciler runs a Deployment for each Memcached, and reports why its pods do not run.
type MemcachedReconciler struct {
	client.Client
	Scheme *runtime.Scheme

	children *children.Children
	events   *events.Recorder
	prober   *probe.Prober
	backup   *finalizer.Finalizer
	live     client.Reader
}

// +kubebuilder:rbac:groups=cache.example.com,resources=memcacheds,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=cache.example.com,resources=memcacheds/status,verbs=update;patch
// +kubebuilder:rbac:groups=cache.example.com,resources=memcacheds/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;list
// +kubebuilder:rbac:groups="",resources=pods/exec,verbs=get;create
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;create;delete

// Reconcile changes the status in memory. report writes it once, and emits Events.
func (r *MemcachedReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	object := &cachev1alpha1.Memcached{}
	if err := r.Get(ctx, req.NamespacedName, object); err != nil {
		r.prober.Forget(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	policy := finalizer.Policy{OnFailure: finalizer.Abandon, CleanUp: func(ctx context.Context) error { return r.cleanUp(ctx, object) }}
	result, err := r.backup.Reconcile(ctx, object, &object.Status.Backup, policy, func(ctx context.Context) error {
		return r.backUp(ctx, object)
	})
	if err == nil && result.Stop {
		err = r.setDeleting(ctx, object)
	}
	if err != nil || result.Stop {
		return step.Finish(result.RequeueAfter, err)
	}
	before := object.DeepCopy()
	deployment := &appsv1.Deployment{}
	cause, err := r.deploy(ctx, object, deployment)
	if err != nil {
		return step.Finish(0, err)
	}
	r.setReady(object, cause)
	return step.Finish(r.report(ctx, before, object, deployment, cause))
}

// SetupWithManager adds the controller to the manager.
func (r *MemcachedReconciler) SetupWithManager(mgr ctrl.Manager) (err error) {
	r.children = children.New(r.Client, mgr.GetAPIReader(), children.Names{Domain: "cache.example.com", FieldOwner: "memcached-controller"})
	r.events = events.NewRecorder(r.Client, clock.RealClock{}, "memcached-controller")
	r.backup = finalizer.New(r.Client, clock.RealClock{}, r.events, "cache.example.com/memcached-backup", "Backup")
	r.live = mgr.GetAPIReader()
	if r.prober, err = probe.ForManager(mgr); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&cachev1alpha1.Memcached{}).
		Watches(&appsv1.Deployment{}, handler.EnqueueRequestsFromMapFunc(r.ownerOf)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.ownerOf)).
		WatchesRawSource(r.prober).
		Named("memcached").
		Complete(r)
}
