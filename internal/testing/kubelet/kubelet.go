// Package kubelet acts like a kubelet on the pods of a simulated cluster: it writes their
// status and creates Events. A pod needs the annotation bongsu-local/simulate: none.
// Otherwise the simulated kubelet changes it as well.
//
// Reasons and messages are those of k8s.io/kubernetes/pkg/kubelet (events, kuberuntime,
// images, container/sync_result.go).
package kubelet

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Kubelet acts on the pods of a cluster.
type Kubelet struct {
	Client client.Client
}

// patience is the time limit for a pod to appear. The machine may be busy.
const patience = 2 * time.Minute

// Await waits until the pod is scheduled and returns it.
func (k Kubelet) Await(t testing.TB, namespace, name string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	err := wait.PollUntilContextTimeout(t.Context(), 25*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		err := k.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod)
		return err == nil && pod.Spec.NodeName != "", client.IgnoreNotFound(err)
	})
	if err != nil {
		t.Fatalf("pod %s/%s has no node: %v", namespace, name, err)
	}
	return pod
}

// Waiting sets the state of all containers to waiting.
func (k Kubelet) Waiting(t testing.TB, pod *corev1.Pod, reason, message string) {
	t.Helper()
	k.setContainers(t, pod, corev1.PodPending, func(status *corev1.ContainerStatus) {
		status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	})
}

// Running sets the state of all containers to running, ready or not.
func (k Kubelet) Running(t testing.TB, pod *corev1.Pod, ready bool) {
	t.Helper()
	k.setContainers(t, pod, corev1.PodRunning, func(status *corev1.ContainerStatus) {
		if status.State.Running == nil {
			status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
		}
		status.Ready, status.Started = ready, new(true)
	})
}

// Restarted sets the state of all containers to running and ready after a termination.
func (k Kubelet) Restarted(t testing.TB, pod *corev1.Pod, reason string, exitCode int32) {
	t.Helper()
	k.setContainers(t, pod, corev1.PodRunning, func(status *corev1.ContainerStatus) {
		end(status, reason, exitCode)
		status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
		status.Ready, status.Started = true, new(true)
	})
}

// Crashed sets the state of all containers to CrashLoopBackOff after a termination.
func (k Kubelet) Crashed(t testing.TB, pod *corev1.Pod, reason string, exitCode int32) {
	t.Helper()
	k.setContainers(t, pod, corev1.PodRunning, func(status *corev1.ContainerStatus) {
		end(status, reason, exitCode)
		status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
			Reason: "CrashLoopBackOff",
			Message: fmt.Sprintf("back-off %v restarting failed container=%s pod=%s_%s(%s)",
				10*time.Second<<(min(status.RestartCount, 5)-1), status.Name, pod.Name, pod.Namespace, pod.UID),
		}}
	})
	name := pod.Spec.Containers[0].Name
	k.Event(t, pod, "BackOff", "spec.containers{"+name+"}",
		fmt.Sprintf("Back-off restarting failed container %s in pod %s_%s(%s)", name, pod.Name, pod.Namespace, pod.UID))
}

// Initializing sets the state of the first init container to running. The others wait for it.
func (k Kubelet) Initializing(t testing.TB, pod *corev1.Pod) {
	t.Helper()
	k.setContainers(t, pod, corev1.PodPending, func(status *corev1.ContainerStatus) {
		status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}
	})
	before := pod.DeepCopy()
	setCondition(pod, corev1.PodInitialized, corev1.ConditionFalse)
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{
		Name: pod.Spec.InitContainers[0].Name, Image: pod.Spec.InitContainers[0].Image, Started: new(true),
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
	}}
	if err := k.Client.Status().Patch(t.Context(), pod, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// Deleted waits until the pod is deleted, and confirms its end.
func (k Kubelet) Deleted(t testing.TB, pod *corev1.Pod) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 25*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		var now corev1.Pod
		err := k.Client.Get(ctx, client.ObjectKeyFromObject(pod), &now)
		return err != nil || now.UID != pod.UID || now.DeletionTimestamp != nil, client.IgnoreNotFound(err)
	})
	if err == nil {
		err = k.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
	}
	// It is a conflict if the next pod of the name exists: KWOK or a kubelet was faster.
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		t.Fatal(err)
	}
}

// Ended sets the state of all containers to terminated, before the first restart.
func (k Kubelet) Ended(t testing.TB, pod *corev1.Pod, reason string, exitCode int32) {
	t.Helper()
	now := metav1.Now()
	k.setContainers(t, pod, corev1.PodRunning, func(status *corev1.ContainerStatus) {
		status.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Reason: reason, ExitCode: exitCode, StartedAt: now, FinishedAt: now,
		}}
	})
}

// Failed ends the pod, as a kubelet that evicts or rejects it does.
func (k Kubelet) Failed(t testing.TB, pod *corev1.Pod, reason, message string) {
	t.Helper()
	before := pod.DeepCopy()
	pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodFailed, reason, message
	setCondition(pod, corev1.PodReady, corev1.ConditionFalse)
	// The controller of the pod can delete it at once.
	if err := k.Client.Status().Patch(t.Context(), pod, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
}

// end records a termination of a container. Each is a second later than the one before,
// because the API server stores no fractions of seconds.
func end(status *corev1.ContainerStatus, reason string, exitCode int32) {
	status.RestartCount++
	at := metav1.NewTime(time.Now().Add(-time.Minute + time.Duration(status.RestartCount)*time.Second))
	status.LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		Reason: reason, ExitCode: exitCode, StartedAt: at, FinishedAt: at,
	}}
}

// setContainers changes the status of all containers and updates the conditions of the
// pod.
func (k Kubelet) setContainers(t testing.TB, pod *corev1.Pod, phase corev1.PodPhase, change func(*corev1.ContainerStatus)) {
	t.Helper()
	err := k.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)
	if apierrors.IsNotFound(err) { // see below
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	before := pod.DeepCopy()
	pod.Status.Phase = phase
	if pod.Status.StartTime == nil {
		pod.Status.StartTime = new(metav1.Now())
	}
	if len(pod.Status.ContainerStatuses) == 0 {
		for _, c := range pod.Spec.Containers {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image})
		}
	}
	ready := corev1.ConditionTrue
	for i := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[i]
		status.Ready, status.Started = false, new(false)
		change(status)
		if !status.Ready {
			ready = corev1.ConditionFalse
		}
	}
	setCondition(pod, corev1.PodInitialized, corev1.ConditionTrue)
	setCondition(pod, corev1.ContainersReady, ready)
	gated := slices.ContainsFunc(pod.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool { return !isTrue(pod, g.ConditionType) })
	if ready == corev1.ConditionTrue && gated {
		ready = corev1.ConditionFalse
	}
	setCondition(pod, corev1.PodReady, ready)
	// A pod that was deleted meanwhile has no state. The caller sets that of the next one.
	if err := k.Client.Status().Patch(t.Context(), pod, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
}

func isTrue(pod *corev1.Pod, kind corev1.PodConditionType) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind && c.Status == corev1.ConditionTrue })
}

func setCondition(pod *corev1.Pod, kind corev1.PodConditionType, status corev1.ConditionStatus) {
	c := corev1.PodCondition{Type: kind, Status: status, LastTransitionTime: metav1.Now()}
	if status == corev1.ConditionFalse {
		c.Reason, c.Message = "ContainersNotReady", "containers with unready status: ["+pod.Spec.Containers[0].Name+"]"
	}
	for i := range pod.Status.Conditions {
		if old := &pod.Status.Conditions[i]; old.Type == kind {
			if old.Status == status {
				c.LastTransitionTime = old.LastTransitionTime
			}
			*old = c
			return
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, c)
}

// Event creates a Warning as a kubelet's recorder does: through core/v1, with its count and
// timestamps.
func (k Kubelet) Event(t testing.TB, pod *corev1.Pod, reason, fieldPath, message string) {
	t.Helper()
	now := metav1.Now()
	err := k.Client.Create(t.Context(), &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, GenerateName: pod.Name + "."},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
			ResourceVersion: pod.ResourceVersion, FieldPath: fieldPath,
		},
		Type: corev1.EventTypeWarning, Reason: reason, Message: message, Count: 1,
		FirstTimestamp: now, LastTimestamp: now,
		Source: corev1.EventSource{Component: "kubelet", Host: pod.Spec.NodeName}, ReportingController: "kubelet", ReportingInstance: pod.Spec.NodeName,
	})
	if err != nil {
		t.Fatal(err)
	}
}
