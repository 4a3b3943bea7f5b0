// Package receiver makes AlarmReceivers and ClusterAlarmReceivers ready to be
// sent to: it reads the Secrets that they name, builds the notifier, and tells
// the owner how delivery fares. It sends nothing itself.
package receiver

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/controller/status"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// Object is an AlarmReceiver or a ClusterAlarmReceiver.
type Object interface {
	status.AlarmObject
	ClusterSpec() v1alpha1.ClusterAlarmReceiverSpec
}

// Dispatcher is told of receivers and tells how they fare.
type Dispatcher interface {
	Configure(notify.Receiver)
	Disable(key string)
	Forget(key string)
	Failure(key string) *notify.SendError
}

// SecretWatcher is told which Secrets a receiver depends on, none if it is gone.
type SecretWatcher interface {
	Watch(receiver string, secrets ...types.NamespacedName)
}

// workers bounds the Secrets read and the status writes under way.
const workers = 4

// Reconciler makes the receivers of one kind ready.
type Reconciler struct {
	kind     string
	newEmpty func() Object
	reporter *status.Recorder
	Dependencies
}

// Dependencies are what both kinds' reconcilers need.
type Dependencies struct {
	Client client.Client
	// Live reads Secrets from the API server: no cache holds them.
	Live       client.Reader
	Secrets    SecretWatcher
	Dispatcher Dispatcher
	// Reporter makes that of a kind.
	Reporter func(kind string) *status.Recorder
	Sinks    Sinks
}

// NewAlarmReceiver returns the Reconciler of AlarmReceivers.
func NewAlarmReceiver(d Dependencies) *Reconciler {
	return newReconciler(v1alpha1.KindAlarmReceiver, d, func() Object { return &v1alpha1.AlarmReceiver{} })
}

// NewClusterAlarmReceiver returns the Reconciler of ClusterAlarmReceivers.
func NewClusterAlarmReceiver(d Dependencies) *Reconciler {
	return newReconciler(v1alpha1.KindClusterAlarmReceiver, d, func() Object { return &v1alpha1.ClusterAlarmReceiver{} })
}

func newReconciler(kind string, d Dependencies, newEmpty func() Object) *Reconciler {
	return &Reconciler{kind: kind, newEmpty: newEmpty, reporter: d.Reporter(kind), Dependencies: d}
}

// SetUp registers the reconciler. changed brings the receivers whose counts or
// health changed, secrets those Secrets that a receiver may depend on.
func (r *Reconciler) SetUp(mgr ctrl.Manager, changed, secrets <-chan event.GenericEvent) error {
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), r.newEmpty(), secretsField, secretsOf); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named(r.kind).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		For(r.newEmpty(), builder.WithPredicates(kube.SpecChanged)).
		WatchesRawSource(source.Channel(changed, &handler.EnqueueRequestForObject{})).
		WatchesRawSource(source.Channel(secrets, handler.EnqueueRequestsFromMapFunc(r.usersOf))).
		Complete(r)
}

// Receivers are made ready to be sent to.
// +kubebuilder:rbac:groups=bongsu.io,resources=alarmreceivers,verbs=get;list;watch
// +kubebuilder:rbac:groups=bongsu.io,resources=clusteralarmreceivers,verbs=get;list;watch
//
// The status tells their owners how delivery fares.
// +kubebuilder:rbac:groups=bongsu.io,resources=alarmreceivers/status,verbs=update
// +kubebuilder:rbac:groups=bongsu.io,resources=clusteralarmreceivers/status,verbs=update
//
// Receivers name Secrets with their addresses and tokens: these are read one by one, and
// the metadata of all is watched for changes. A role cannot be bounded to names that are
// not known beforehand.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch

// Reconcile makes one receiver ready, or says why it is not.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	object := r.newEmpty()
	key := kube.Key{Kind: r.kind, Namespace: req.Namespace, Name: req.Name}
	return r.reporter.Reconcile(ctx, key, object, r.forget,
		func(ctx context.Context, key string) (status.Result, error) { return r.configure(ctx, object, key) })
}

func (r *Reconciler) forget(key string) {
	r.Secrets.Watch(key)
	r.Dispatcher.Forget(key)
}

// configure hands the receiver to the dispatcher and judges how it fares. Its
// Secrets are watched from before they are read.
func (r *Reconciler) configure(ctx context.Context, object Object, key string) (status.Result, error) {
	r.Secrets.Watch(key, namedIn(object.ClusterSpec())...)
	receiver, verdict, err := r.build(ctx, object, key)
	if err != nil {
		return status.Result{}, err
	}
	if !verdict.Ready() {
		r.Dispatcher.Disable(key)
		return verdict, nil
	}
	r.Dispatcher.Configure(receiver)
	if failure := r.Dispatcher.Failure(key); failure != nil {
		return status.Result{Reason: failure.Reason, Message: failure.Text}, nil
	}
	return status.Result{}, nil
}
