// Package receiver configures AlarmReceivers and ClusterAlarmReceivers. It reads their
// Secrets, builds the notifier, and reports problems of the configuration and of
// deliveries in the status. It sends nothing itself.
package receiver

import (
	"context"
	"errors"

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
	"github.com/bongsu-io/bongsu/internal/alarm/receiver"
	"github.com/bongsu-io/bongsu/internal/controller/status"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// Object is an AlarmReceiver or a ClusterAlarmReceiver.
type Object interface {
	status.AlarmObject
	receiver.Object
}

// Dispatcher sends to the configured receivers and returns the failure of the last delivery.
type Dispatcher interface {
	Configure(notify.Receiver)
	Disable(key string)
	Forget(key string)
	Failure(key string) *notify.SendError
}

// SecretWatcher watches the Secrets of a receiver: none if it was deleted.
type SecretWatcher interface {
	Watch(receiver string, secrets ...types.NamespacedName)
}

// workers limits how many Secrets are read and statuses written at the same time.
const workers = 4

// Reconciler configures the receivers of one kind.
type Reconciler struct {
	kind     string
	newEmpty func() Object
	recorder *status.Recorder
	Dependencies
}

// Dependencies of the reconcilers of both kinds.
type Dependencies struct {
	Client client.Client
	// Live reads Secrets from the API server: they are not cached.
	Live       client.Reader
	Secrets    SecretWatcher
	Dispatcher Dispatcher
	// Recorder returns the recorder of a kind.
	Recorder func(kind string) *status.Recorder
	Sinks    receiver.Sinks
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
	return &Reconciler{kind: kind, newEmpty: newEmpty, recorder: d.Recorder(kind), Dependencies: d}
}

// SetUp registers the reconciler. changed receives the receivers whose counts or
// deliveries changed, secrets the Secrets that changed.
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

// Receivers are read.
// +kubebuilder:rbac:groups=bongsu.io,resources=alarmreceivers,verbs=get;list;watch
// +kubebuilder:rbac:groups=bongsu.io,resources=clusteralarmreceivers,verbs=get;list;watch
//
// The status shows problems and counts.
// +kubebuilder:rbac:groups=bongsu.io,resources=alarmreceivers/status,verbs=update
// +kubebuilder:rbac:groups=bongsu.io,resources=clusteralarmreceivers/status,verbs=update
//
// Receivers name Secrets with addresses and tokens. These are read one by one. The metadata
// of all Secrets is watched for changes. A role cannot list names that are not known in
// advance.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch

// Reconcile configures one receiver and writes its status.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	object := r.newEmpty()
	key := kube.Key{Kind: r.kind, Namespace: req.Namespace, Name: req.Name}
	return r.recorder.Reconcile(ctx, key, object, r.forget,
		func(ctx context.Context, _ string) (status.Result, error) { return r.configure(ctx, object, key) })
}

func (r *Reconciler) forget(key string) {
	r.Secrets.Watch(key)
	r.Dispatcher.Forget(key)
}

// configure gives the receiver to the dispatcher. Its Secrets are watched before they are
// read, so that no change is missed.
func (r *Reconciler) configure(ctx context.Context, object Object, key kube.Key) (status.Result, error) {
	r.Secrets.Watch(key.String(), receiver.SecretsOf(object.ClusterSpec())...)
	built, err := receiver.Build(ctx, r.Live, r.Sinks, key, object)
	if invalid, ok := errors.AsType[*receiver.ConfigError](err); ok {
		r.Dispatcher.Disable(key.String())
		return status.Result{Reason: invalid.Reason, Message: invalid.Message}, nil
	}
	if err != nil {
		return status.Result{}, err
	}
	r.Dispatcher.Configure(built)
	if failure := r.Dispatcher.Failure(key.String()); failure != nil {
		return status.Result{Reason: failure.Reason, Message: failure.Text}, nil
	}
	return status.Result{}, nil
}
