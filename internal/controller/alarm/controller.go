// Package alarm puts Alarms and ClusterAlarms into force. It compiles them, resolves their
// receivers, gives both to the pipeline, and reports problems in the status. It sends
// nothing itself.
package alarm

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/controller/status"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// Object is an Alarm or a ClusterAlarm.
type Object interface {
	status.AlarmObject
	match.Object
	ReceiverReferences() []v1alpha1.ReceiverReference
}

// Alarms contains the compiled alarms that are in force.
type Alarms interface {
	Has(key, version string) bool
	Set(key, version string, compiled *match.Alarm)
	Delete(key string)
}

// workers limits how many statuses are written at the same time.
const workers = 4

// Reconciler puts the alarms of one kind into force.
type Reconciler struct {
	kind     string
	newEmpty func() Object
	newList  func() client.ObjectList

	// priming is held by Prime, which works on a list. Otherwise Prime could replace a newer
	// state that Reconcile has read.
	priming sync.RWMutex

	client   client.Client
	compiler *match.Compiler
	alarms   Alarms
	recorder *status.Recorder
}

// Dependencies of the reconcilers of both kinds.
type Dependencies struct {
	Client   client.Client
	Compiler *match.Compiler
	Alarms   Alarms
	// Recorder returns the recorder of a kind.
	Recorder func(kind string) *status.Recorder
}

// NewAlarm returns the Reconciler of Alarms.
func NewAlarm(d Dependencies) *Reconciler {
	return newReconciler(alarm.KindAlarm, d,
		func() Object { return &v1alpha1.Alarm{} },
		func() client.ObjectList { return &v1alpha1.AlarmList{} })
}

// NewClusterAlarm returns the Reconciler of ClusterAlarms.
func NewClusterAlarm(d Dependencies) *Reconciler {
	return newReconciler(alarm.KindClusterAlarm, d,
		func() Object { return &v1alpha1.ClusterAlarm{} },
		func() client.ObjectList { return &v1alpha1.ClusterAlarmList{} })
}

func newReconciler(kind string, d Dependencies, newEmpty func() Object, newList func() client.ObjectList) *Reconciler {
	return &Reconciler{
		kind: kind, newEmpty: newEmpty, newList: newList,
		client: d.Client, compiler: d.Compiler, alarms: d.Alarms, recorder: d.Recorder(kind),
	}
}

// SetUp registers the reconciler. changed receives the alarms whose counts changed.
func (r *Reconciler) SetUp(mgr ctrl.Manager, changed <-chan event.GenericEvent) error {
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), r.newEmpty(), receiversField, receiverKeysOf); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named(r.kind).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		For(r.newEmpty(), builder.WithPredicates(kube.SpecChanged)).
		Watches(&v1alpha1.AlarmReceiver{}, handler.EnqueueRequestsFromMapFunc(r.usersOf(v1alpha1.KindAlarmReceiver)),
			builder.WithPredicates(receiverChanged)).
		Watches(&v1alpha1.ClusterAlarmReceiver{}, handler.EnqueueRequestsFromMapFunc(r.usersOf(v1alpha1.KindClusterAlarmReceiver)),
			builder.WithPredicates(receiverChanged)).
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.inNamespace),
			builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WatchesRawSource(source.Channel(changed, &handler.EnqueueRequestForObject{})).
		Complete(r)
}

// Alarms are compiled and put into force.
// +kubebuilder:rbac:groups=bongsu.io,resources=alarms,verbs=get;list;watch
// +kubebuilder:rbac:groups=bongsu.io,resources=clusteralarms,verbs=get;list;watch
//
// The status shows problems and counts.
// +kubebuilder:rbac:groups=bongsu.io,resources=alarms/status,verbs=update
// +kubebuilder:rbac:groups=bongsu.io,resources=clusteralarms/status,verbs=update
//
// The labels of namespaces decide which alarms and receivers apply to them. The UID of
// kube-system identifies the cluster.
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch

// Reconcile puts one alarm into force, or removes it.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	r.priming.RLock()
	defer r.priming.RUnlock()
	object := r.newEmpty()
	key := kube.Key{Kind: r.kind, Namespace: req.Namespace, Name: req.Name}
	return r.recorder.Reconcile(ctx, key, object, r.alarms.Delete,
		func(ctx context.Context, key string) (status.Result, error) {
			return r.apply(ctx, object, key)
		})
}

// Prime puts all existing alarms into force without writing a status. None may be missing
// when the first Event is handled.
func (r *Reconciler) Prime(ctx context.Context) error {
	r.priming.Lock()
	defer r.priming.Unlock()
	list := r.newList()
	if err := r.client.List(ctx, list); err != nil {
		return err
	}
	for _, object := range objectsOf(list) {
		key := kube.Key{Kind: r.kind, Namespace: object.GetNamespace(), Name: object.GetName()}
		if _, err := r.apply(ctx, object, key.String()); err != nil {
			return err
		}
	}
	return nil
}

// objectsOf returns the items of a list without copying them.
func objectsOf(list client.ObjectList) []Object {
	var objects []Object
	switch l := list.(type) {
	case *v1alpha1.AlarmList:
		for i := range l.Items {
			objects = append(objects, &l.Items[i])
		}
	case *v1alpha1.ClusterAlarmList:
		for i := range l.Items {
			objects = append(objects, &l.Items[i])
		}
	}
	return objects
}

// apply gives the compiled alarm to the pipeline, or removes it from there if it cannot
// be used. The result contains what the user must correct. An error comes from the API
// server.
func (r *Reconciler) apply(ctx context.Context, object Object, key string) (status.Result, error) {
	if object.AlarmSpec().Suspend {
		r.alarms.Delete(key)
		return status.Result{Reason: v1alpha1.ReasonSuspended, Message: "suspended: spec.suspend is true"}, nil
	}
	receivers, err := r.resolveReceivers(ctx, object)
	if err != nil {
		return status.Result{}, err
	}
	version := fmt.Sprint(object.GetUID(), object.GetGeneration(), receivers.keys)
	if r.alarms.Has(key, version) {
		return receivers.result, nil
	}
	compiled, err := r.compiler.Compile(match.NewDefinition(r.kind, object, receivers.keys))
	if invalid, ok := errors.AsType[*match.CompileError](err); ok {
		r.alarms.Delete(key)
		return status.Result{Reason: invalid.Reason, Message: invalid.Error()}, nil
	}
	if err != nil {
		return status.Result{}, err
	}
	r.alarms.Set(key, version, compiled)
	return receivers.result, nil
}
