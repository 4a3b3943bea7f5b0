package kube_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// The controllers diagnose pods of the cache.
func TestATrimmedPodHasTheSameCause(t *testing.T) {
	scarce := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Gi")}
	unscheduled := func(message string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: message}}
		}
	}
	nodes := &diagnosis.Nodes{Total: 1, Largest: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("4Gi")}, Taints: map[corev1.Taint]int{
		{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}: 1, {Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}: 1,
	}}
	for name, change := range map[string]func(*corev1.Pod){
		"an unknown scheduler": func(p *corev1.Pod) { p.Spec.SchedulerName = "volcano" },
		"taints": func(p *corev1.Pod) {
			unscheduled("0/1 nodes are available: 1 node(s) had untolerated taint(s).")(p)
			p.Spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
		},
		"requests of the whole pod": func(p *corev1.Pod) {
			unscheduled("0/1 nodes are available: 1 Insufficient memory.")(p)
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: scarce}
		},
		"a ResourceClaim": func(p *corev1.Pod) {
			unscheduled("0/1 nodes are available: 1 cannot allocate all claims.")(p)
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("one-gpu")}}
		},
		"a subPath that cannot be mounted": func(p *corev1.Pod) {
			p.Spec.NodeName = "node-a"
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "settings", MountPath: "/etc/web", SubPath: "web.json"}}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				Reason: "StartError", ExitCode: 128, Message: `error mounting "/a" to rootfs at "/etc/web": not a directory: unknown`,
			}}}}
		},
		"a scheduling gate": func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated}}
			p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/approval"}}
		},
		"a readiness gate": func(p *corev1.Pod) {
			p.Spec.NodeName, p.Spec.ReadinessGates = "node-a", []corev1.PodReadinessGate{{ConditionType: "example.com/gate"}}
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		},
		"a memory limit of the whole pod": func(p *corev1.Pod) {
			p.Spec.NodeName, p.Spec.Resources = "node-a", &corev1.ResourceRequirements{Limits: scarce}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137},
			}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "web:1"}}}}
			change(pod)
			trimmed, err := kube.TrimPod(pod)
			if err != nil {
				t.Fatal(err)
			}
			diagnose := func(p *corev1.Pod) *diagnosis.Cause {
				return diagnosis.Diagnose(diagnosis.Workload{Pods: []*corev1.Pod{p}, Nodes: nodes}).Cause
			}
			want := diagnose(pod)
			if want == nil {
				t.Fatal("no cause")
			}
			if diff := cmp.Diff(want, diagnose(trimmed.(*corev1.Pod))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The kubelet stopped the container within the grace period of the deletion.
func TestATrimmedPodHasTheSameLastCrash(t *testing.T) {
	deleted := metav1.Now()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-0", DeletionTimestamp: &deleted, DeletionGracePeriodSeconds: new(int64(30))},
		Spec:       corev1.PodSpec{NodeName: "node-a", Containers: []corev1.Container{{Name: "app"}}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 143, FinishedAt: metav1.NewTime(deleted.Add(-20 * time.Second))},
		}}}},
	}
	trimmed, err := kube.TrimPod(pod)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*corev1.Pod{pod, trimmed.(*corev1.Pod)} {
		if crash := diagnosis.LastCrash([]*corev1.Pod{p}); crash != nil {
			t.Errorf("got %s", crash.Sentence())
		}
	}
}
