package jupyter

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/children"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// findPod reads the notebook's pod: the one that its StatefulSet controls. The cache
// holds it by its labels, which anyone who may change pods can take off; the
// StatefulSet then knows of one more pod than the cache.
func (r *Reconciler) findPod(ctx context.Context, n *notebook) error {
	var pod corev1.Pod
	err := r.Client.Get(ctx, podKey(n.Jupyter), &pod)
	if apierrors.IsNotFound(err) && n.set.Status.Replicas > 0 {
		err = r.Live.Get(ctx, podKey(n.Jupyter), &pod)
	}
	if err == nil && n.set.UID != "" && metav1.IsControlledBy(&pod, &n.set) {
		n.pod = &pod
	}
	return client.IgnoreNotFound(err)
}

// podAwaited is how long a pod is waited for before somebody looks what is in its
// place: a StatefulSet's controller says nothing of a pod of that name.
const podAwaited = 5 * time.Second

// findIntruder returns the conflict with a pod of somebody else's in the notebook's
// place, if there is one.
func (r *Reconciler) findIntruder(ctx context.Context, n *notebook) (*diagnosis.Cause, error) {
	if n.pod != nil || n.set.UID == "" || n.Stop {
		return nil, nil
	}
	if left := podAwaited - r.Clock.Since(r.StartedAt(n.State)); left > 0 && n.StalledBefore() == nil {
		n.RequeueAfter(left)
		return nil, nil
	}
	var pod corev1.Pod
	err := r.Live.Get(ctx, podKey(n.Jupyter), &pod)
	if err != nil || metav1.IsControlledBy(&pod, &n.set) {
		return nil, client.IgnoreNotFound(err)
	}
	n.RequeueAfter(r.RetryRefused(n.State)) // no watch tells of it
	return new(n.Conflict(children.NewConflict("Pod", &pod))), nil
}

func podKey(j *v1alpha1.Jupyter) types.NamespacedName {
	return types.NamespacedName{Namespace: j.Namespace, Name: podName(j)}
}

func podName(j *v1alpha1.Jupyter) string { return j.Name + "-0" }

// update replaces a pod that is older than what is asked for: at once if the user
// wants that, and otherwise only if nothing runs in it that could be lost.
func (r *Reconciler) update(ctx context.Context, n *notebook) error {
	pending := func(status metav1.ConditionStatus, reason, message string) {
		n.updatePending = n.Condition(v1alpha1.ConditionUpdatePending, status, reason, message)
	}
	switch {
	case n.Spec.Suspend || !isOutdated(n):
		pending(metav1.ConditionFalse, v1alpha1.ReasonUpToDate, "the pod is what is asked for")
		return nil
	case n.Spec.UpdateStrategy.Type != v1alpha1.JupyterUpdateRecreate && isRunning(n.pod):
		pending(metav1.ConditionTrue, v1alpha1.ReasonRestartNeeded,
			"the notebook runs as it was asked for earlier: restart it for the change, by suspending and resuming it for example")
		return nil
	}
	pending(metav1.ConditionTrue, v1alpha1.ReasonReplacing, "the pod is being replaced")
	if !n.pod.DeletionTimestamp.IsZero() {
		return nil
	}
	// Before the pod is deleted: afterwards, a retry could not tell who did it.
	if err := r.Recorder.Emit(ctx, n.Jupyter, replacedPod(n)); err != nil {
		return err
	}
	err := r.Client.Delete(ctx, n.pod, client.Preconditions{UID: &n.pod.UID, ResourceVersion: &n.pod.ResourceVersion})
	return client.IgnoreNotFound(err)
}

// isOutdated tells whether the pod was made of an earlier template. The StatefulSet's
// controller says so, as soon as it has seen the latest.
func isOutdated(n *notebook) bool {
	if n.pod == nil || n.set.Status.ObservedGeneration != n.set.Generation || n.set.Status.UpdateRevision == "" {
		return false
	}
	return n.pod.Labels[appsv1.ControllerRevisionHashLabelKey] != n.set.Status.UpdateRevision
}

// serverOf returns what is known of the notebook's container; nil if nothing is.
func serverOf(pod *corev1.Pod) *corev1.ContainerStatus {
	if pod == nil {
		return nil
	}
	for i := range pod.Status.ContainerStatuses {
		if status := &pod.Status.ContainerStatuses[i]; status.Name == v1alpha1.NotebookContainer {
			return status
		}
	}
	return nil
}

// isRunning tells whether there is a process that a user may have work in.
func isRunning(pod *corev1.Pod) bool {
	server := serverOf(pod)
	return server != nil && server.State.Running != nil
}

// hasStarted tells whether the server has passed its startup probe.
func hasStarted(pod *corev1.Pod) bool {
	server := serverOf(pod)
	return server != nil && server.Started != nil && *server.Started
}
