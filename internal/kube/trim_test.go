package kube_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// A tenant can give large objects the label that the cache selects.
func TestALargeObjectIsKeptInPart(t *testing.T) {
	text := strings.Repeat("x", 4096)
	many := map[string]string{}
	for i := range 1000 {
		many[fmt.Sprintf("bongsu.io/%03d", i)] = "x"
		many[fmt.Sprintf("other/%03d", i)] = text
	}
	meta := metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: "1", Labels: many, Annotations: many, Finalizers: []string{text, text, text, text, text},
		OwnerReferences: []metav1.OwnerReference{{UID: "2", Name: text}, {UID: "3", Name: "web", Kind: "AppService", Controller: new(true)}},
	}
	meta.Annotations[kube.ChildNames.Applied()] = "digest"
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Args: []string{strings.Repeat("x", 1<<20)}}}}}
	selector := &metav1.LabelSelector{MatchLabels: many}
	for _, o := range []interface {
		client.Object
		Size() int
	}{
		&appsv1.Deployment{ObjectMeta: *meta.DeepCopy(), Spec: appsv1.DeploymentSpec{Replicas: new(int32(3)), Template: template, Selector: selector}, Status: appsv1.DeploymentStatus{Replicas: 2}},
		&appsv1.StatefulSet{ObjectMeta: *meta.DeepCopy(), Spec: appsv1.StatefulSetSpec{Template: template, Selector: selector, VolumeClaimTemplates: make([]corev1.PersistentVolumeClaim, 9000)}},
		&appsv1.ReplicaSet{ObjectMeta: *meta.DeepCopy(), Spec: appsv1.ReplicaSetSpec{Template: template, Selector: selector}},
		&batchv1.Job{ObjectMeta: *meta.DeepCopy(), Spec: batchv1.JobSpec{Template: template, Selector: selector}},
		&corev1.Service{ObjectMeta: *meta.DeepCopy(), Spec: corev1.ServiceSpec{Selector: many}},
		&corev1.PersistentVolumeClaim{ObjectMeta: *meta.DeepCopy(), Spec: corev1.PersistentVolumeClaimSpec{Selector: selector}},
		&networkingv1.Ingress{ObjectMeta: *meta.DeepCopy(), Spec: networkingv1.IngressSpec{Rules: make([]networkingv1.IngressRule, 20_000)}},
		&policyv1.PodDisruptionBudget{ObjectMeta: *meta.DeepCopy(), Spec: policyv1.PodDisruptionBudgetSpec{Selector: selector}},
	} {
		if _, err := kube.TrimApplied(o); err != nil {
			t.Fatal(err)
		}
		if size := o.Size(); size > 16<<10 {
			t.Errorf("%T: %d bytes are kept", o, size)
		}
		if !metav1.IsControlledBy(o, &metav1.ObjectMeta{UID: "3"}) || o.GetUID() != "1" {
			t.Errorf("%T: the owner or the UID is lost", o)
		}
		if d, ok := o.(*appsv1.Deployment); ok && (*d.Spec.Replicas != 3 || d.Status.Replicas != 2) {
			t.Errorf("the size is lost: %+v", d)
		}
	}
}
