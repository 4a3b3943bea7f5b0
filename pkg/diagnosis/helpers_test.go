package diagnosis

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// start is when the pods of these tests were made.
var start = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

func at(seconds int) time.Time       { return start.Add(time.Duration(seconds) * time.Second) }
func metaAt(seconds int) metav1.Time { return metav1.NewTime(at(seconds)) }

type change = func(*corev1.Pod)

// newPod is a scheduled pod nb-0 with a container notebook of which nothing is
// said yet.
func newPod(changes ...change) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "nb-0", UID: "pod", CreationTimestamp: metaAt(0)},
		Spec: corev1.PodSpec{
			NodeName: "node-a", RestartPolicy: corev1.RestartPolicyAlways,
			Containers: []corev1.Container{{Name: "notebook", Image: "jupyter:1"}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodPending,
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metaAt(0)},
				{Type: corev1.ContainersReady, Status: corev1.ConditionFalse, LastTransitionTime: metaAt(1)},
				{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metaAt(1)},
			},
		},
	}
	for _, f := range changes {
		f(p)
	}
	return p
}

func named(name string, uid types.UID) change {
	return func(p *corev1.Pod) { p.Name, p.UID = name, uid }
}

func created(seconds int) change {
	return func(p *corev1.Pod) { p.CreationTimestamp = metaAt(seconds) }
}

func setCondition(kind corev1.PodConditionType, status corev1.ConditionStatus, seconds int) change {
	return func(p *corev1.Pod) {
		c := condition(p, kind)
		if c == nil {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind})
			c = &p.Status.Conditions[len(p.Status.Conditions)-1]
		}
		c.Status, c.LastTransitionTime = status, metaAt(seconds)
	}
}

func ready(p *corev1.Pod) {
	setCondition(corev1.ContainersReady, corev1.ConditionTrue, 5)(p)
	setCondition(corev1.PodReady, corev1.ConditionTrue, 5)(p)
	p.Status.Phase = corev1.PodRunning
	p.Status.ContainerStatuses = nil
	for _, c := range p.Spec.Containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Ready: true, State: runningSince(2)})
	}
}

func deleted(p *corev1.Pod) { t := metaAt(100); p.DeletionTimestamp = &t }

// unscheduled is a pod that the scheduler says this of.
func unscheduled(message string) change {
	return func(p *corev1.Pod) {
		p.Spec.NodeName = ""
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: message, LastTransitionTime: metaAt(1),
		}}
	}
}

func asking(cpu, memory string) change {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
		}
	}
}

func mounting(claim string) change {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "v-" + claim, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
}

// status adds the status of a container, and the container if it is another.
func status(s corev1.ContainerStatus) change {
	return func(p *corev1.Pod) {
		if s.Name == "" {
			s.Name = "notebook"
		}
		if s.Name != "notebook" {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: s.Name, Image: s.Name + ":1"})
		}
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, s)
	}
}

func initStatus(s corev1.ContainerStatus, sidecar bool) change {
	return func(p *corev1.Pod) {
		c := corev1.Container{Name: s.Name, Image: s.Name + ":1"}
		if always := corev1.ContainerRestartPolicyAlways; sidecar {
			c.RestartPolicy = &always
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, s)
	}
}

func waiting(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func runningSince(seconds int) corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metaAt(seconds)}}
}

func ended(reason string, code int32, seconds int) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code, FinishedAt: metaAt(seconds)}}
}

// crashLooping is a container that waits to be restarted after an end.
func crashLooping(last corev1.ContainerState, restarts int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		RestartCount: restarts, LastTerminationState: last,
		State: waiting("CrashLoopBackOff", "back-off 5m0s restarting failed container=notebook pod=nb-0_shop(3f1c9d7e-5a0b-4c38-9d5e-0d9c1f2b3a4e)"),
	}
}

// podEvent is an Event of the pod nb-0; of a container of it, if one is given.
func podEvent(seconds int, container, reason, note string) Event {
	e := Event{Type: "Warning", Reason: reason, Note: note, Regarding: Object{"Pod", "nb-0"}, UID: "pod", LastSeen: at(seconds), Count: 1}
	if container != "" {
		e.FieldPath = fmt.Sprintf("spec.containers{%s}", container)
	}
	return e
}

func claimEvent(seconds int, reason, note string) Event {
	return Event{Type: "Warning", Reason: reason, Note: note, Regarding: Object{"PersistentVolumeClaim", "home"}, UID: "claim", LastSeen: at(seconds), Count: 1}
}

func setEvent(seconds int, note string) Event {
	return Event{Type: "Warning", Reason: "FailedCreate", Note: note, Regarding: Object{"StatefulSet", "nb"}, LastSeen: at(seconds), Count: 1}
}

func timeless(e Event) Event { e.LastSeen = time.Time{}; return e }

func claim(phase corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "home", UID: "claim", CreationTimestamp: metaAt(0)},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: phase},
	}
}

func quota(name, pods, used string) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.ResourceQuotaStatus{
			Hard: corev1.ResourceList{"pods": resource.MustParse(pods)}, Used: corev1.ResourceList{"pods": resource.MustParse(used)},
		},
	}
}

func nodes(total int, cpu, memory string) *Nodes {
	return &Nodes{Total: total, CPU: resource.MustParse(cpu), Memory: resource.MustParse(memory)}
}

func pods(p ...*corev1.Pod) []*corev1.Pod { return p }
