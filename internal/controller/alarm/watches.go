package alarm

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/controller/status"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// receiversField indexes alarms by the keys of their receivers.
const receiversField = "spec.receivers"

func receiverKeysOf(o client.Object) []string {
	object, ok := o.(Object)
	if !ok {
		return nil
	}
	var keys []string
	for _, ref := range object.ReceiverReferences() {
		keys = append(keys, referenceKey(ref, object.GetNamespace()).String())
	}
	return keys
}

// receiverChanged lets through what an alarm's condition depends on, which the
// counts in a receiver's status are not.
var receiverChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
			readiness(e.ObjectOld) != readiness(e.ObjectNew)
	},
}

type readinessOf struct{ status, reason, message string }

func readiness(o client.Object) readinessOf {
	object, ok := o.(status.AlarmObject)
	if !ok {
		return readinessOf{}
	}
	c := meta.FindStatusCondition(object.AlarmStatus().Conditions, v1alpha1.ConditionReady)
	if c == nil {
		return readinessOf{}
	}
	return readinessOf{string(c.Status), c.Reason, c.Message}
}

// usersOf maps a receiver to the alarms that name it.
func (r *Reconciler) usersOf(kind string) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		key := kube.Key{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}
		return r.requests(ctx, client.MatchingFields{receiversField: key.String()})
	}
}

// inNamespace maps a namespace to its Alarms, which receivers of the cluster may
// allow by its labels.
func (r *Reconciler) inNamespace(ctx context.Context, o client.Object) []reconcile.Request {
	if r.kind != alarm.KindAlarm {
		return nil // ClusterAlarms look labels up with each Event
	}
	return r.requests(ctx, client.InNamespace(o.GetName()))
}

func (r *Reconciler) requests(ctx context.Context, opts ...client.ListOption) []reconcile.Request {
	list := r.newList()
	if err := r.client.List(ctx, list, opts...); err != nil {
		return nil // only if the cache was stopped
	}
	var requests []reconcile.Request
	for _, object := range objectsOf(list) {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{
			Namespace: object.GetNamespace(), Name: object.GetName(),
		}})
	}
	return requests
}
