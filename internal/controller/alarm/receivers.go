package alarm

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/status"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// receivers are those that an alarm may send to, and what is wrong with the first
// that is not as it should be.
type receivers struct {
	keys    []string
	verdict status.Result
}

// resolveReceivers finds what spec.receivers names. A receiver that does not
// exist is sent to all the same, since it may come: but not one of the cluster
// that has not allowed the namespace.
func (r *Reconciler) resolveReceivers(ctx context.Context, object Object) (receivers, error) {
	var out receivers
	for _, ref := range object.ReceiverReferences() {
		key := referenceKey(ref, object.GetNamespace())
		allowed, verdict, err := r.resolve(ctx, key, object.GetNamespace())
		if err != nil {
			return receivers{}, err
		}
		if allowed && !slices.Contains(out.keys, key.String()) {
			out.keys = append(out.keys, key.String())
		}
		if out.verdict.Ready() {
			out.verdict = verdict
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

// resolve says whether the alarm, of a namespace or of the cluster, may use the
// receiver, and what is wrong with it.
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
		if err != nil || !allowed {
			return false, NotAllowed(key, namespace), err
		}
	}
	return true, unready(key, object.AlarmStatus()), nil
}

// allows says whether the receiver lets the Alarms of a namespace use it.
func (r *Reconciler) allows(ctx context.Context, receiver *v1alpha1.ClusterAlarmReceiver, namespace string) (bool, error) {
	if receiver.Spec.AllowedNamespaces == nil {
		return false, nil
	}
	ns := &metav1.PartialObjectMetadata{}
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := r.client.Get(ctx, client.ObjectKey{Name: namespace}, ns); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return Allows(receiver, ns.Labels), nil
}

// Allows says whether the receiver lets the Alarms of a namespace with these labels use
// it. By a selector that is invalid, which is told of on the receiver, it allows none.
func Allows(receiver *v1alpha1.ClusterAlarmReceiver, namespace map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(receiver.Spec.AllowedNamespaces)
	return err == nil && selector.Matches(labels.Set(namespace))
}

// NotAllowed says that a receiver does not let the Alarms of a namespace use it.
func NotAllowed(key kube.Key, namespace string) status.Result {
	return status.Result{
		Reason: v1alpha1.ReasonNotAllowed,
		Message: fmt.Sprintf("ClusterAlarmReceiver %s does not allow Alarms of namespace %s: "+
			"ask an administrator to select the namespace in its spec.allowedNamespaces, or use an AlarmReceiver",
			key.Name, namespace),
	}
}

// unready passes on that a receiver is not Ready. Of one of the cluster only the
// reason: its message is for administrators.
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
