// Package receivers configures AlarmReceivers and ClusterAlarmReceivers. It reads their
// Secrets, builds the notifier, and reports problems of the configuration and of
// deliveries in the status. It sends nothing itself.
package receivers

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/receiver"
	"github.com/bongsu-io/bongsu/internal/controller/reconciler"
	"github.com/bongsu-io/bongsu/internal/controller/status"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/policies"
)

// Object is an AlarmReceiver or a ClusterAlarmReceiver.
type Object interface {
	status.AlarmObject
	receiver.Object
}

// Dispatcher sends to the configured receivers and returns the failure of the last delivery.
type Dispatcher interface {
	Configure(notify.Receiver)
	Disable(id string)
	Forget(key string)
	Failure(key string) *notify.SendError
	NextAttempt(key string) time.Time
	SetAside(key string) int
	Dropped(key string) string
	LastTest(key string) notify.TestResult
	LastAttempt(key string) (failure *notify.SendError, made bool)
	IsUntried(key string) bool
}

// SecretWatcher watches the Secrets of a receiver: none if it was deleted.
type SecretWatcher interface {
	Watch(receiver kube.Key, secrets ...types.NamespacedName)
}

// rereadSecrets is how often Secrets are read that are not watched.
const rereadSecrets = time.Minute

// workers limits how many Secrets are read and statuses written at the same time.
const workers = 4

// Reconciler configures the receivers of one kind.
type Reconciler struct {
	kind     string
	newEmpty func() Object
	reporter *status.Reporter
	memory   *reconciler.Memory
	Dependencies
}

// Dependencies of the reconcilers of both kinds.
type Dependencies struct {
	Client client.Client
	// Live reads Secrets from the API server: they are not cached.
	Live    client.Reader
	Secrets SecretWatcher
	// Unwatched means that Secrets are read again each minute, because the operator may not watch all.
	Unwatched  bool
	Dispatcher Dispatcher
	// Reporter returns the reporter of a kind.
	Reporter func(kind string) *status.Reporter
	Sinks    receiver.Sinks
	// Policies reports whether AlarmReceivers can be used.
	Policies *policies.Gate
}

// NewAlarmReceiver returns the Reconciler of AlarmReceivers.
func NewAlarmReceiver(d Dependencies) *Reconciler {
	return newReconciler(v1alpha1.KindAlarmReceiver, d, func() Object { return &v1alpha1.AlarmReceiver{} })
}

// NewClusterAlarmReceiver returns the Reconciler of ClusterAlarmReceivers.
func NewClusterAlarmReceiver(d Dependencies) *Reconciler {
	d.Policies = nil // only administrators write them
	return newReconciler(v1alpha1.KindClusterAlarmReceiver, d, func() Object { return &v1alpha1.ClusterAlarmReceiver{} })
}

func newReconciler(kind string, d Dependencies, newEmpty func() Object) *Reconciler {
	memory := newMemory(kind, func(key kube.Key) { d.Dispatcher.Disable(key.String()) })
	return &Reconciler{kind: kind, newEmpty: newEmpty, reporter: d.Reporter(kind), memory: memory, Dependencies: d}
}

// Enqueue enqueues a receiver whose counts, deliveries or Secrets have changed.
func (r *Reconciler) Enqueue(name types.NamespacedName) { r.memory.Enqueue(name) }

// SetUp registers the reconciler.
func (r *Reconciler) SetUp(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named(r.kind).
		WithOptions(reconciler.Workers(workers)).
		For(r.newEmpty(), builder.WithPredicates(predicate.Or(kube.SpecChanged, predicate.AnnotationChangedPredicate{}))).
		WatchesRawSource(source.Func(r.memory.SetQueue)).
		WatchesRawSource(r.Policies.Source(mgr.GetClient(), func() client.ObjectList { return &v1alpha1.AlarmReceiverList{} })).
		Complete(r)
}

// Receivers are read.
// +kubebuilder:rbac:groups=bongsu.io,resources=alarmreceivers,verbs=get;list;watch
// +kubebuilder:rbac:groups=bongsu.io,resources=clusteralarmreceivers,verbs=get;list;watch
//
// The status shows problems and counts.
// +kubebuilder:rbac:groups=bongsu.io,resources=alarmreceivers/status,verbs=update
// +kubebuilder:rbac:groups=bongsu.io,resources=clusteralarmreceivers/status,verbs=update

// Reconcile configures one receiver and writes its status.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	object := r.newEmpty()
	key := kube.Key{Kind: r.kind, Namespace: req.Namespace, Name: req.Name}
	return r.reporter.Reconcile(ctx, key, object,
		func(string) { r.forget(key) },
		func(ctx context.Context, _ string) (status.Result, error) {
			result, err := r.configure(ctx, object, key)
			result.Delivery = r.delivery(key.String(), object)
			result.RequeueAfter = r.rereadAfter(object, result)
			return result, err
		})
}

// rereadAfter returns when the Secrets of a receiver are read again without a change that was observed;
// zero is never. The permission to read one can come at any time.
func (r *Reconciler) rereadAfter(object Object, result status.Result) time.Duration {
	if r.Unwatched && len(receiver.SecretsOf(object)) > 0 || result.Reason == v1alpha1.ReasonSecretForbidden {
		return rereadSecrets
	}
	return 0
}

func (r *Reconciler) forget(key kube.Key) {
	r.Secrets.Watch(key)
	r.Dispatcher.Forget(key.String())
	r.memory.Release(key)
}

// configure gives the receiver to the dispatcher. Its Secrets are watched before they are
// read, so that no change is missed.
func (r *Reconciler) configure(ctx context.Context, object Object, key kube.Key) (status.Result, error) {
	blocked, err := r.Policies.CheckObject(ctx, object)
	if err != nil {
		return status.Result{}, err
	}
	if blocked.Blocked {
		if !blocked.InGrace() {
			r.disable(key, object)
		}
		return status.Blocked(blocked), nil
	}
	if refused := r.claim(key, object); refused.Reason != "" {
		return refused, nil
	}
	r.Secrets.Watch(key, receiver.SecretsOf(object)...)
	built, err := receiver.Build(ctx, r.Live, r.Sinks, key, object)
	if invalid, ok := errors.AsType[*receiver.ConfigError](err); ok {
		r.disable(key, object)
		return status.Result{Reason: invalid.Reason, Message: invalid.Message}, nil
	}
	if unread, ok := errors.AsType[*receiver.UnreadSecretError](err); ok && apierrors.IsForbidden(err) {
		r.disable(key, object)
		return forbidden(unread.Secret), nil
	}
	if err != nil {
		return status.Result{}, err
	}
	r.Dispatcher.Configure(built)
	return r.deliveries(key.String(), object), nil
}

func forbidden(secret types.NamespacedName) status.Result {
	return status.Result{Reason: v1alpha1.ReasonSecretForbidden, Message: fmt.Sprintf("the operator may not read Secret %s: "+
		"ask an administrator of namespace %s to bind the ClusterRole bongsu-receiver-secrets to the operator there", secret, secret.Namespace)}
}

// deliveries returns the result of the last deliveries. After a restart, a receiver that failed fails
// until it accepts a message.
func (r *Reconciler) deliveries(key string, object Object) status.Result {
	result := status.Result{HandledDrop: r.Dispatcher.Dropped(key), SetAside: int64(r.Dispatcher.SetAside(key))}
	if failure := r.Dispatcher.Failure(key); failure != nil {
		result.Reason, result.Message, result.NextAttempt = failure.Reason, failure.Explain(), r.Dispatcher.NextAttempt(key)
	} else if result.SetAside > 0 {
		result.Reason = v1alpha1.ReasonMessageSetAside
		result.Message = fmt.Sprintf("the receiver accepts other messages, but not %d: "+
			"correct the receiver, or drop these with the annotation %s=all", result.SetAside, v1alpha1.AnnotationDrop)
	} else if before := meta.FindStatusCondition(*object.CommonStatus().Conditions, v1alpha1.ConditionReady); before != nil &&
		before.Reason == v1alpha1.ReasonDeliveryFailing && before.ObservedGeneration == object.GetGeneration() && r.Dispatcher.IsUntried(key) {
		result.Reason, result.Message = before.Reason, before.Message
	}
	return result
}

// delivery returns what is known about the last message and the last test.
func (r *Reconciler) delivery(key string, object Object) *status.Delivery {
	failure, made := r.Dispatcher.LastAttempt(key)
	d := &status.Delivery{Attempted: made, Wanted: receiver.TestValue(object)}
	if failure != nil {
		d.Reason, d.Message = failure.Reason, failure.Explain()
	}
	if test := r.Dispatcher.LastTest(key); test.Value != "" {
		d.Test, d.TestedAt = test.Value, test.At
		if test.Failure != nil {
			d.TestFailure = test.Failure.Explain()
		}
	}
	return d
}

func (r *Reconciler) disable(key kube.Key, object Object) {
	r.Dispatcher.Disable(alarm.ReceiverID(key.String(), string(object.GetUID())))
}
