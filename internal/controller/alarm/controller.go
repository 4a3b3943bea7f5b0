// Package alarm brings Alarms and ClusterAlarms into force: it compiles them,
// resolves their receivers, hands both to the pipeline, and tells the owner what
// is wrong. It sends nothing itself.
package alarm

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	AlarmSpec() *v1alpha1.AlarmSpec
	NamespaceSelector() *metav1.LabelSelector
	ReceiverReferences() []v1alpha1.ReceiverReference
}

// Alarms is where compiled alarms come into force.
type Alarms interface {
	Has(key, version string) bool
	Set(key, version string, compiled *match.Alarm)
	Delete(key string)
}

// workers bounds the status writes under way.
const workers = 4

// Reconciler brings the alarms of one kind into force.
type Reconciler struct {
	kind     string
	newEmpty func() Object
	newList  func() client.ObjectList

	// priming keeps Prime, which works on a list, from putting a former state of an
	// alarm in the place of what Reconcile has read since.
	priming sync.RWMutex

	client   client.Client
	compiler *match.Compiler
	alarms   Alarms
	reporter *status.Recorder
}

// Dependencies are what both kinds' reconcilers need.
type Dependencies struct {
	Client   client.Client
	Compiler *match.Compiler
	Alarms   Alarms
	// Reporter makes that of a kind.
	Reporter func(kind string) *status.Recorder
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
		client: d.Client, compiler: d.Compiler, alarms: d.Alarms, reporter: d.Reporter(kind),
	}
}

// SetUp registers the reconciler. changed brings the alarms whose counts changed.
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

// Alarms are compiled and brought into force.
// +kubebuilder:rbac:groups=bongsu.io,resources=alarms,verbs=get;list;watch
// +kubebuilder:rbac:groups=bongsu.io,resources=clusteralarms,verbs=get;list;watch
//
// The status tells their owners what is wrong, and how much matched.
// +kubebuilder:rbac:groups=bongsu.io,resources=alarms/status,verbs=update
// +kubebuilder:rbac:groups=bongsu.io,resources=clusteralarms/status,verbs=update
//
// The labels of namespaces decide which of them an alarm and a receiver are for; the UID
// of kube-system names the cluster.
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch

// Reconcile brings one alarm into force, or takes it out.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	r.priming.RLock()
	defer r.priming.RUnlock()
	object := r.newEmpty()
	key := kube.Key{Kind: r.kind, Namespace: req.Namespace, Name: req.Name}
	return r.reporter.Reconcile(ctx, key, object, r.alarms.Delete,
		func(ctx context.Context, key string) (status.Result, error) {
			return r.bringIntoForce(ctx, object, key)
		})
}

// Prime brings all alarms that exist into force, without telling of it: before
// the first Event is consumed, none may be missing.
func (r *Reconciler) Prime(ctx context.Context) error {
	r.priming.Lock()
	defer r.priming.Unlock()
	list := r.newList()
	if err := r.client.List(ctx, list); err != nil {
		return err
	}
	for _, object := range objectsOf(list) {
		key := kube.Key{Kind: r.kind, Namespace: object.GetNamespace(), Name: object.GetName()}
		if _, err := r.bringIntoForce(ctx, object, key.String()); err != nil {
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
