// Package alarms puts Alarms and ClusterAlarms into force. It compiles them, resolves their
// receivers, gives both to the pipeline, and reports problems in the status. It sends
// nothing itself.
package alarms

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/fields"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/objects"
	"github.com/bongsu-io/bongsu/internal/controller/reconciler"
	"github.com/bongsu-io/bongsu/internal/controller/status"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/policies"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// Object is an Alarm or a ClusterAlarm.
type Object interface {
	status.AlarmObject
	match.Object
	ReceiverReferences() []v1alpha1.ReceiverReference
	ReceiverChoice() *v1alpha1.ReceiversFrom
}

// Alarms contains the compiled alarms that are in force.
type Alarms interface {
	Has(key, version string) bool
	NeedsOf(key string) map[alarm.Resource]fields.Shape
	Set(key, version string, compiled *match.Alarm)
	Deactivate(key, uid string)
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
	primed  bool

	client   client.Client
	compiler *match.Compiler
	alarms   Alarms
	memory   *reconciler.Memory
	pace     *pace
	reporter *status.Reporter
	changes  Changes
	// policies is nil for ClusterAlarms, which only administrators write.
	policies *policies.Gate
	begun    func() bool
}

// Dependencies of the reconcilers of both kinds.
type Dependencies struct {
	Client   client.Client
	Compiler *match.Compiler
	Alarms   Alarms
	Changes  Changes
	// Metrics registers the metrics. It can be nil.
	Metrics prometheus.Registerer
	// Reporter returns the reporter of a kind.
	Reporter func(kind string) *status.Reporter
	// Policies reports whether Alarms can be in force.
	Policies *policies.Gate
	// Begun reports whether a position is stored, after which no Event is lost. No alarm is Ready
	// before.
	Begun func() bool
	Clock clock.PassiveClock
}

// beginPause is the pause before an alarm that waits for a position is reconciled again.
const beginPause = 100 * time.Millisecond

// NewAlarm returns the Reconciler of Alarms.
func NewAlarm(d Dependencies) *Reconciler {
	r := newReconciler(alarm.KindAlarm, d,
		func() Object { return &v1alpha1.Alarm{} },
		func() client.ObjectList { return &v1alpha1.AlarmList{} })
	r.policies = d.Policies
	return r
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
		client: d.Client, compiler: d.Compiler, alarms: d.Alarms, reporter: d.Reporter(kind), changes: d.Changes,
		pace:   newPace(d.Clock),
		begun:  d.Begun,
		memory: newMemory(kind, d.Metrics, func(key kube.Key) { d.Alarms.Deactivate(key.String(), "") }),
	}
}

// Enqueue enqueues an alarm whose counts have changed.
func (r *Reconciler) Enqueue(name types.NamespacedName) { r.memory.Enqueue(name) }

// SetUp registers the reconciler.
func (r *Reconciler) SetUp(mgr ctrl.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), r.newEmpty(), receiversField, receiverKeysOf); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named(r.kind).
		WithOptions(reconciler.Workers(workers)).
		For(r.newEmpty(), builder.WithPredicates(kube.SpecChanged)).
		Watches(&v1alpha1.AlarmReceiver{}, handler.EnqueueRequestsFromMapFunc(r.usersOf(v1alpha1.KindAlarmReceiver)),
			builder.WithPredicates(receiverChanged)).
		Watches(&v1alpha1.ClusterAlarmReceiver{}, handler.EnqueueRequestsFromMapFunc(r.usersOf(v1alpha1.KindClusterAlarmReceiver)),
			builder.WithPredicates(receiverChanged)).
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.inNamespace),
			builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WatchesRawSource(source.Func(r.memory.SetQueue)).
		WatchesRawSource(r.changesSource()).
		WatchesRawSource(r.policies.Source(r.client, r.newList)).
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
	return r.reporter.Reconcile(ctx, key, object,
		func(string) { r.release(key) },
		func(ctx context.Context, _ string) (status.Result, error) {
			result, err := r.apply(ctx, object, key)
			if err == nil && result.Ready() && !result.Unchanged {
				result = r.checkWords(ctx, object)
			}
			if err == nil && result.Ready() && !r.begun() {
				return status.Result{Unchanged: true, RequeueAfter: beginPause}, nil
			}
			result.ResumedAt = resumedAt(object)
			result.MuteFrom, result.MuteUntil = object.AlarmSpec().MuteTimes()
			result.Acknowledgements = object.AlarmSpec().Acknowledgements
			object.SetManagedFields(nil) // the cache has only a part of them: see TrimManagedFields
			return result, err
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
	objects := objectsOf(list)
	keyOf := func(o Object) kube.Key { return kube.Key{Kind: r.kind, Namespace: o.GetNamespace(), Name: o.GetName()} }
	for _, object := range objects { // so that no alarm is compiled that another one displaces
		if !object.AlarmSpec().Suspend {
			r.claim(keyOf(object), object)
		}
	}
	for _, object := range objects {
		if _, err := r.apply(ctx, object, keyOf(object)); err != nil {
			return err
		}
	}
	r.primed = true
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
func (r *Reconciler) apply(ctx context.Context, object Object, key kube.Key) (status.Result, error) {
	if object.AlarmSpec().Suspend {
		r.release(key)
		return status.Result{Reason: v1alpha1.ReasonSuspended, Message: "suspended: spec.suspend is true"}, nil
	}
	blocked, err := r.policies.CheckObject(ctx, object)
	if err != nil {
		return status.Result{}, err
	}
	if blocked.Blocked {
		if !blocked.InGrace() {
			r.deactivate(key, object)
			r.memory.Release(key)
		}
		return status.Blocked(blocked), nil
	}
	receivers, err := r.resolveReceivers(ctx, object)
	if err != nil {
		return status.Result{}, err
	}
	if !receivers.any() {
		r.deactivate(key, object)
	}
	version := fmt.Sprint(object.GetUID(), object.GetGeneration(), receivers.keys, receivers.route.Version())
	if refused := r.claim(key, object); !refused.Ready() {
		r.deactivate(key, object)
		return refused, nil
	}
	if !r.alarms.Has(key.String(), version) {
		if result, err := r.compile(object, key, version, &receivers); err != nil || result.Unchanged || !result.Ready() {
			return result, err
		}
	}
	if !receivers.result.Ready() {
		return receivers.result, nil
	}
	return r.resourcesProblem(object, key), nil
}

// maxHints limits the hints in the condition of an alarm, in bytes.
const maxHints = 1024

// checkWords returns the first kind in spec.match that the alarm never matches, or hints about
// words that probably match nothing. The alarm is in force all the same.
func (r *Reconciler) checkWords(ctx context.Context, object Object) status.Result {
	var known objects.Served
	if kinds := match.KindsOf(object); len(kinds) > 0 {
		known = r.changes.Kinds(ctx, kinds)
	}
	if problems := match.CheckKinds(r.kind, object, known); len(problems) > 0 {
		return status.Result{Reason: problems[0].Reason, Message: problems[0].Error()}
	}
	hints := slices.Concat(match.MisspeltKinds(object, known), match.UnreadKinds(object, r.reads(object)), match.Hints(object))
	return status.Result{Hint: plaintext.Cut(strings.Join(hints, "; "), maxHints)}
}

// deactivate removes an alarm that must be corrected from the pipeline, which keeps its states.
func (r *Reconciler) deactivate(key kube.Key, object Object) {
	r.alarms.Deactivate(key.String(), string(object.GetUID()))
}

// wait returns how long it takes until the alarm may be compiled. At the start, and for ClusterAlarms,
// only the memory is limited.
func (r *Reconciler) wait(key kube.Key, object Object) time.Duration {
	if !r.primed || key.Namespace == "" {
		return 0
	}
	return r.pace.wait(key.Namespace, match.EstimateMemory(object))
}

// compile puts an alarm into force, if it has a receiver. The result contains what is wrong with it, or
// that it must wait.
func (r *Reconciler) compile(object Object, key kube.Key, version string, to *receivers) (status.Result, error) {
	if wait := r.wait(key, object); wait > 0 {
		return status.Result{Unchanged: true, RequeueAfter: wait}, nil
	}
	definition := match.NewDefinition(r.kind, object, to.keys)
	definition.Route = to.route
	definition.ResumedAt, definition.OpenGroups = resumedAt(object), object.AlarmStatus().OpenGroups
	compiled, err := r.compiler.Compile(definition)
	if invalid, ok := errors.AsType[*match.CompileError](err); ok {
		r.deactivate(key, object)
		return status.Result{Reason: invalid.Reason, Message: invalid.Error()}, nil
	}
	if err != nil {
		return status.Result{}, err
	}
	if !to.any() {
		return to.result, nil
	}
	r.alarms.Set(key.String(), version, compiled)
	return status.Result{}, nil
}
