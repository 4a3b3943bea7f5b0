package jupyter

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/children"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
	"github.com/bongsu-io/bongsu/pkg/events"
	"github.com/bongsu-io/bongsu/pkg/step"
)

// findPod reads the pod that the StatefulSet controls. The cache selects pods by labels,
// which users can remove. The StatefulSet then counts a pod that the cache lacks.
func (r *Reconciler) findPod(ctx context.Context, n *notebook) (step.Result, error) {
	var pod corev1.Pod
	err := r.Client.Get(ctx, podKey(n.jupyter), &pod)
	if apierrors.IsNotFound(err) && n.set.Status.Replicas > 0 {
		err = r.Live.Get(ctx, podKey(n.jupyter), &pod)
	}
	if err == nil && n.controls(&pod) {
		n.pod, n.ready = &pod, kube.IsPodReady(&pod)
		if !n.suspend {
			n.running = runningSince(&pod)
		}
	}
	n.ended = r.ended.Of(n.name, n.controls)
	return step.Result{}, client.IgnoreNotFound(err)
}

// controls reports whether the StatefulSet controls a pod.
func (n *notebook) controls(pod *corev1.Pod) bool {
	return n.set.UID != "" && metav1.IsControlledBy(pod, &n.set)
}

// conflictAfter is how long a pod may be missing before its name is checked: the
// StatefulSet controller does not report that another pod has it.
const conflictAfter = 5 * time.Second

// findPodConflict returns the conflict with another pod that has the name of the
// notebook's; nil if there is none.
func (r *Reconciler) findPodConflict(ctx context.Context, n *notebook) (*diagnosis.Cause, time.Duration, error) {
	if n.pod != nil || n.set.UID == "" || n.blocked {
		return nil, 0, nil
	}
	stalled := meta.IsStatusConditionTrue(n.before.Status.Conditions, v1alpha1.ConditionStalled)
	if left := conflictAfter - r.Clock.Since(r.startedAt(n)); left > 0 && !stalled {
		return nil, left, nil
	}
	var pod corev1.Pod
	err := r.Live.Get(ctx, podKey(n.jupyter), &pod)
	if err != nil || metav1.IsControlledBy(&pod, &n.set) {
		return nil, 0, client.IgnoreNotFound(err)
	}
	// No watch shows the pod.
	return new(n.findings.Conflict(children.NewConflict("Pod", &pod))), r.RetryAfter(n.before), nil
}

func podKey(j *v1alpha1.Jupyter) types.NamespacedName {
	return types.NamespacedName{Namespace: j.Namespace, Name: workload.NotebookPodName(j)}
}

// replacePod deletes a pod with an older template. It does so at once if the user wants
// that, and otherwise only if nothing runs in it that could be lost.
func (r *Reconciler) replacePod(ctx context.Context, n *notebook) (step.Result, error) {
	pending := func(reason, message string) {
		n.updatePending = ofType(v1alpha1.ConditionUpdatePending)(metav1.ConditionTrue, reason, message)
	}
	switch {
	case !isOutdated(n):
		return step.Result{}, nil
	case n.jupyter.Spec.UpdateStrategy.Type != v1alpha1.JupyterUpdateRecreate && isRunning(n.pod):
		const message = "the notebook runs with an older template: to apply the change, restart it, for example by suspending and resuming it"
		pending(v1alpha1.ReasonRestartNeeded, message)
		return step.Result{}, r.Writer.Emit(ctx, n.jupyter, events.Event{
			Type: corev1.EventTypeNormal, Reason: v1alpha1.ReasonRestartNeeded, Action: "WaitForRestart",
			Note: message, Identity: string(n.pod.UID) + "/" + n.set.Status.UpdateRevision, Since: n.pod.CreationTimestamp.Time,
		})
	}
	pending(v1alpha1.ReasonReplacing, "the pod is being replaced")
	if !n.pod.DeletionTimestamp.IsZero() {
		return step.Result{}, nil
	}
	// Before the deletion: after it, a retry could not know who deleted the pod.
	if err := r.Writer.Emit(ctx, n.jupyter, replacedPod(n.pod)); err != nil {
		return step.Result{}, err
	}
	err := r.Client.Delete(ctx, n.pod, client.Preconditions{UID: &n.pod.UID, ResourceVersion: &n.pod.ResourceVersion})
	return step.Result{}, client.IgnoreNotFound(err)
}

// isOutdated reports whether the pod has an older template, as the StatefulSet
// controller says when it has seen the latest.
func isOutdated(n *notebook) bool {
	if n.pod == nil || n.set.Status.ObservedGeneration != n.set.Generation || n.set.Status.UpdateRevision == "" {
		return false
	}
	return n.pod.Labels[appsv1.ControllerRevisionHashLabelKey] != n.set.Status.UpdateRevision
}

// serverOf returns the status of the notebook's container; nil if there is none.
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

// runningSince is when the server of a pod was started; zero if it does not run, or ends.
func runningSince(pod *corev1.Pod) time.Time {
	if !pod.DeletionTimestamp.IsZero() || pod.Status.Phase != corev1.PodRunning || !isRunning(pod) {
		return time.Time{}
	}
	return serverOf(pod).State.Running.StartedAt.Time
}

// isRunning reports whether there is a process in which a user may have work.
func isRunning(pod *corev1.Pod) bool {
	server := serverOf(pod)
	return server != nil && server.State.Running != nil
}

// hasStarted reports whether the server has passed its startup probe.
func hasStarted(pod *corev1.Pod) bool {
	server := serverOf(pod)
	return server != nil && server.Started != nil && *server.Started
}

// reportFor is how long the creation of a pod or a culling is reported, in case the
// operator was restarted in between. It is shorter than the life of an Event, so that the
// API server refuses a second one.
const reportFor = 10 * time.Minute

func (r *Reconciler) emitCreatedPod(ctx context.Context, n *notebook) error {
	if n.pod == nil || r.Clock.Since(n.pod.CreationTimestamp.Time) > reportFor {
		return nil
	}
	return r.Writer.Emit(ctx, n.jupyter, events.Event{
		Type: corev1.EventTypeNormal, Reason: "CreatedPod", Action: "CreatePod",
		Note: fmt.Sprintf("Pod %s was created", n.pod.Name), Identity: string(n.pod.UID), Since: n.pod.CreationTimestamp.Time,
	})
}

func replacedPod(pod *corev1.Pod) events.Event {
	return events.Event{
		Type: corev1.EventTypeNormal, Reason: "ReplacedPod", Action: "DeletePod",
		Note:     fmt.Sprintf("Pod %s is deleted, to be recreated with the current template", pod.Name),
		Identity: string(pod.UID), Since: pod.CreationTimestamp.Time,
	}
}
