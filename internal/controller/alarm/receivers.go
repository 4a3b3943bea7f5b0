package alarm

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/receiver"
	"github.com/bongsu-io/bongsu/internal/controller/status"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// receivers are those to which an alarm may send.
type receivers struct {
	keys []string
	// result is the problem of the first receiver that has one.
	result status.Result
}

// resolveReceivers finds the receivers in spec.receivers. Messages wait for a receiver
// that does not exist, but not for a ClusterAlarmReceiver that has not allowed the
// namespace.
func (r *Reconciler) resolveReceivers(ctx context.Context, object Object) (receivers, error) {
	var out receivers
	for _, ref := range object.ReceiverReferences() {
		key := referenceKey(ref, object.GetNamespace())
		allowed, result, err := r.resolve(ctx, key, object.GetNamespace())
		if err != nil {
			return receivers{}, err
		}
		if allowed && !slices.Contains(out.keys, key.String()) {
			out.keys = append(out.keys, key.String())
		}
		if out.result.Ready() {
			out.result = result
		}
	}
	return out, nil
}

func referenceKey(ref v1alpha1.ReceiverReference, namespace string) kube.Key {
	if ref.Kind == v1alpha1.KindClusterAlarmReceiver {
		namespace = ""
	}
	return kube.Key{Kind: ref.Kind, Namespace: namespace, Name: ref.Name}
}

// resolve returns whether an alarm of the namespace may use the receiver, and the problem
// of the receiver. The namespace of a ClusterAlarm is empty.
func (r *Reconciler) resolve(ctx context.Context, key kube.Key, namespace string) (bool, status.Result, error) {
	cluster := key.Kind == v1alpha1.KindClusterAlarmReceiver
	var object status.AlarmObject = &v1alpha1.AlarmReceiver{}
	if cluster {
		object = &v1alpha1.ClusterAlarmReceiver{}
	}
	err := r.client.Get(ctx, key.NamespacedName(), object)
	if apierrors.IsNotFound(err) {
		return !cluster || namespace == "", status.Result{
			Reason:  v1alpha1.ReasonReceiverNotFound,
			Message: fmt.Sprintf("%s %s does not exist: create it, or correct spec.receivers", key.Kind, key.Name),
		}, nil
	}
	if err != nil {
		return false, status.Result{}, err
	}
	if cluster && namespace != "" {
		allowed, err := r.allows(ctx, object.(*v1alpha1.ClusterAlarmReceiver), namespace)
		if err != nil {
			return false, status.Result{}, err
		}
		if !allowed {
			problem := receiver.NotAllowed(key.Name, namespace)
			return false, status.Result{Reason: problem.Reason, Message: problem.Message}, nil
		}
	}
	return true, unready(key, object.AlarmStatus()), nil
}

// allows reports whether the Alarms of a namespace may use the receiver.
func (r *Reconciler) allows(ctx context.Context, object *v1alpha1.ClusterAlarmReceiver, namespace string) (bool, error) {
	if object.Spec.AllowedNamespaces == nil {
		return false, nil
	}
	ns := &metav1.PartialObjectMetadata{}
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := r.client.Get(ctx, client.ObjectKey{Name: namespace}, ns); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return receiver.Allows(object, ns.Labels), nil
}

// unready is the result for a receiver that is not Ready. It leaves out the message of a
// ClusterAlarmReceiver, which is for administrators.
func unready(key kube.Key, st *v1alpha1.AlarmStatus) status.Result {
	ready := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status == metav1.ConditionTrue {
		return status.Result{}
	}
	message := fmt.Sprintf("%s %s is not ready (%s)", key.Kind, key.Name, ready.Reason)
	if key.Kind == v1alpha1.KindAlarmReceiver {
		message += ": " + ready.Message
	}
	return status.Result{Reason: v1alpha1.ReasonReceiverNotReady, Message: message}
}

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

// receiverChanged admits changes on which the condition of an alarm depends. It leaves
// out the counts in a receiver's status.
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

// inNamespace maps a namespace to its Alarms: ClusterAlarmReceivers may allow them by its
// labels.
func (r *Reconciler) inNamespace(ctx context.Context, o client.Object) []reconcile.Request {
	if r.kind != alarm.KindAlarm {
		return nil // ClusterAlarms read the labels with each Event
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
