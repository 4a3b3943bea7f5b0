package diagnosis

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSchedulingCauses(t *testing.T) {
	unschedulable := func(sentence string) wantCause {
		return wantCause{reason: "FailedScheduling", transient: true, sentence: sentence}
	}
	const text = "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
	const message = "no node can take the pod: 2 Insufficient cpu, 1 node(s) had untolerated taint(s)"
	const advice = ": request less cpu in resources, or wait until more is available; " +
		"if nodes are not ready or under pressure, wait; if a taint reserves them, ask the cluster's administrator whether the pod may run there"
	const tainted = "0/3 nodes are available: 3 node(s) had untolerated taint(s)."
	taints := func(taints map[corev1.Taint]int) *Nodes { return &Nodes{Total: 3, Taints: taints} }
	notReady := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
	dedicated := corev1.Taint{Key: "dedicated", Value: "gpu", Effect: corev1.TaintEffectNoSchedule}
	tolerating := func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
	}
	wholePod := func(p *corev1.Pod) {
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("48")}}
	}
	impossible := func(sentence string) wantCause {
		want := unschedulable(sentence)
		want.transient = false
		return want
	}
	gated := func(p *corev1.Pod) {
		p.Status.Conditions[0].Reason = "SchedulingGated"
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "kueue.x-k8s.io/admission"}, {Name: "example.com/approval"}}
	}
	const elsewhere = "0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
	placed := func(zone string, cordoned bool) *Nodes {
		return &Nodes{Total: 1, Places: []NodePlace{nodeIn(zone, cordoned)}}
	}
	gpus := func(n string) change {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(n)}
		}
	}
	ofDaemonSet := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
				{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{"node-b"}},
			}}},
		}}}
	}
	run(t, map[string]diagnoseCase{
		"a pod of a DaemonSet, whose node is full": {
			Workload{Pods: pods(newPod(unscheduled("0/3 nodes are available: 1 Insufficient memory, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]. preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."), ofDaemonSet))},
			unschedulable(`node "node-b" cannot take the pod: 1 Insufficient memory: request less memory in resources, or wait until more is available`)},
		"a pod of a DaemonSet, whose node runs as many pods as it can": {
			Workload{Pods: pods(newPod(unscheduled("0/3 nodes are available: 2 node(s) didn't match Pod's node affinity/selector, 1 Too many pods."), ofDaemonSet))},
			unschedulable(`node "node-b" cannot take the pod: 1 Too many pods: wait until other pods end`)},
		"a pod of a DaemonSet, whose node is gone": {
			Workload{Pods: pods(newPod(unscheduled("0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity]."), ofDaemonSet))},
			unschedulable(`node "node-b" cannot take the pod: 3 node(s) didn't satisfy plugin(s) [NodeAffinity]: if the pod's spec is correct, ask the cluster's administrator`)},
		"resources and taints": {Workload{Pods: pods(newPod(unscheduled(text)))}, unschedulable(message + advice)},
		"more than any node has": {Workload{Pods: pods(newPod(unscheduled(text), asking("64", "1Gi"))), Nodes: nodes(3, "4", "16Gi")},
			impossible(message + " (the largest node has 4 CPU; the pod requests 64)" + ": request less CPU, or ask the cluster's administrator for larger nodes")},
		"less than a node has": {Workload{Pods: pods(newPod(unscheduled(text), asking("3500m", "1Gi"))), Nodes: nodes(3, "4", "16Gi")}, unschedulable(message + advice)},
		"taints of nodes that are not ready": {Workload{Pods: pods(newPod(unscheduled(tainted))), Nodes: taints(map[corev1.Taint]int{notReady: 3})},
			unschedulable("no node can take the pod: 3 node(s) had untolerated taint(s) (taints: node.kubernetes.io/not-ready on 3 nodes): wait until the nodes are ready and not under pressure, or ask the cluster's administrator to repair them")},
		"taints of reserved nodes": {Workload{Pods: pods(newPod(unscheduled(tainted))), Nodes: taints(map[corev1.Taint]int{dedicated: 3})},
			unschedulable("no node can take the pod: 3 node(s) had untolerated taint(s) (taints: dedicated=gpu on 3 nodes): add tolerations for the nodes' taints, or let the pod run on other nodes")},
		"taints that the pod tolerates": {Workload{Pods: pods(newPod(unscheduled(tainted), tolerating)), Nodes: taints(map[corev1.Taint]int{dedicated: 1, notReady: 2})},
			unschedulable("no node can take the pod: 3 node(s) had untolerated taint(s) (taints: node.kubernetes.io/not-ready on 2 nodes): wait until the nodes are ready and not under pressure, or ask the cluster's administrator to repair them")},
		"taints of the control plane, and full nodes": {
			Workload{Pods: pods(newPod(unscheduled("0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu."))), Nodes: &Nodes{Total: 3, Largest: nodes(3, "4", "16Gi").Largest, Taints: map[corev1.Taint]int{
				{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}: 1}}},
			unschedulable("no node can take the pod: 2 Insufficient cpu, 1 node(s) had untolerated taint(s) (taints: node-role.kubernetes.io/control-plane on 1 node): request less cpu in resources, or wait until more is available")},
		"more for the whole pod than any node has": {Workload{Pods: pods(newPod(unscheduled("0/3 nodes are available: 3 Insufficient cpu."), asking("1", "1Gi"), wholePod)), Nodes: nodes(3, "4", "16Gi")},
			impossible("no node can take the pod: 3 Insufficient cpu (the largest node has 4 CPU; the pod requests 48): request less CPU, or ask the cluster's administrator for larger nodes")},
		"two ResourceClaims, and too little CPU": {
			Workload{Pods: pods(newPod(unscheduled("0/2 nodes are available: 1 Insufficient cpu, 1 cannot allocate all claims. still not schedulable, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."), asking("64", "1Gi"), func(p *corev1.Pod) {
				p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: new("nb-0-gpu-x7k2p")}, {Name: "nic", ResourceClaimName: new("nb-0-nic-b2c4d")}}
			})), Nodes: nodes(2, "4", "16Gi")},
			impossible(`no node can take the pod: 1 Insufficient cpu, 1 cannot allocate all claims (the largest node has 4 CPU; the pod requests 64; no free devices match all of ResourceClaims "nb-0-gpu-x7k2p", "nb-0-nic-b2c4d"): request less CPU, or ask the cluster's administrator for larger nodes`)},
		"ResourceClaims that are no problem": {
			Workload{Pods: pods(newPod(unscheduled("0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."), asking("64", "1Gi"), func(p *corev1.Pod) {
				p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: new("nb-0-gpu-x7k2p")}}
			})), Nodes: nodes(2, "4", "16Gi")},
			impossible("no node can take the pod: 2 Insufficient cpu (the largest node has 4 CPU; the pod requests 64): request less CPU, or ask the cluster's administrator for larger nodes")},
		"memory": {Workload{Pods: pods(newPod(unscheduled("0/1 nodes are available: 1 Insufficient memory."), asking("1", "96Gi"))), Nodes: nodes(1, "4", "16384256Ki")},
			impossible("no node can take the pod: 1 Insufficient memory (the largest node has 15.625Gi of memory; the pod requests 96Gi): request less memory, or ask the cluster's administrator for larger nodes")},
		"node selector": {Workload{Pods: pods(newPod(unscheduled("0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.")))},
			unschedulable("no node can take the pod: 2 node(s) didn't match Pod's node affinity/selector: correct nodeSelector and affinity, or ask the cluster's administrator for the labels of the nodes")},
		"a volume in a zone without nodes": {
			Workload{Pods: pods(newPod(unscheduled(elsewhere), mounting("home"))), Volumes: volumesIn("zone-gone"), Nodes: placed("zone-a", false)},
			impossible(`no node can take the pod: 2 node(s) didn't match PersistentVolume's node affinity (claim "home" has volume "pv-1" in zone zone-gone, where the cluster has no node): ask the cluster's administrator for a node there, or restore the data to another volume`),
		},
		"a volume in the zone of a cordoned node": {
			Workload{Pods: pods(newPod(unscheduled(elsewhere), mounting("home"))), Volumes: volumesIn("zone-a"), Nodes: placed("zone-a", true)},
			unschedulable(`no node can take the pod: 2 node(s) didn't match PersistentVolume's node affinity (claim "home" has volume "pv-1" in zone zone-a, where the only node is "node-a", which is cordoned): wait until the node is uncordoned, or ask the cluster's administrator`),
		},
		"a volume in the zone of a full node": {
			Workload{Pods: pods(newPod(unscheduled(elsewhere), mounting("home"))), Volumes: volumesIn("zone-a"), Nodes: placed("zone-a", false)},
			unschedulable(`no node can take the pod: 2 node(s) didn't match PersistentVolume's node affinity (claim "home" has volume "pv-1" in zone zone-a, where node "node-a" cannot take the pod): no suitable node can use its volume; change the pod's placement, or use another volume`),
		},
		"a volume, and a node whose driver has not set its label": {
			Workload{Pods: pods(newPod(unscheduled(elsewhere), mounting("home"))), Volumes: volumesIn("zone-a"), Nodes: &Nodes{Total: 1, Places: []NodePlace{{Name: "node-a"}}}},
			unschedulable(`no node can take the pod: 2 node(s) didn't match PersistentVolume's node affinity (claim "home" has volume "pv-1" in zone zone-a): no suitable node can use its volume; change the pod's placement, or use another volume`),
		},
		"a volume in a zone, and the nodes are unknown": {
			Workload{Pods: pods(newPod(unscheduled(elsewhere), mounting("home"))), Volumes: volumesIn("zone-a")},
			unschedulable(`no node can take the pod: 2 node(s) didn't match PersistentVolume's node affinity (claim "home" has volume "pv-1" in zone zone-a): no suitable node can use its volume; change the pod's placement, or use another volume`),
		},
		"the volume of another claim": {
			Workload{Pods: pods(newPod(unscheduled(elsewhere), mounting("other"))), Volumes: volumesIn("zone-a")},
			unschedulable(`no node can take the pod: 2 node(s) didn't match PersistentVolume's node affinity: no suitable node can use its volume; change the pod's placement, or use another volume`),
		},
		"no nodes": {Workload{Pods: pods(newPod(unscheduled("no nodes available to schedule pods")))}, unschedulable("the cluster has no nodes: wait until it has nodes, or ask the cluster's administrator")},
		"Event only": {
			Workload{Pods: pods(newPod(unscheduled(""))), Events: []Event{podEvent(3, "", "FailedScheduling", "0/1 nodes are available: 1 Too many pods.")}},
			unschedulable("no node can take the pod: 1 Too many pods: wait until other pods end"),
		},
		"Event of an earlier pod of the name": {
			Workload{Pods: pods(newPod(unscheduled(""), named("nb-0", "another"))), Events: []Event{podEvent(3, "", "FailedScheduling", "0/1 nodes are available: 1 Too many pods.")}}, wantCause{},
		},
		"scheduled by now": {
			Workload{Pods: pods(newPod()), Events: []Event{podEvent(3, "", "FailedScheduling", "0/1 nodes are available: 1 Too many pods.")}}, wantCause{},
		},
		"gated": {Workload{Pods: pods(newPod(unscheduled("Scheduling is blocked due to non-empty scheduling gates"), gated))},
			unschedulable(`the pod's schedulingGates prevent its scheduling: "kueue.x-k8s.io/admission", "example.com/approval": wait until the component that set each gate removes it`)},
		"gated, in a queue": {
			Workload{Pods: pods(newPod(unscheduled("Scheduling is blocked due to non-empty scheduling gates"), gated, func(p *corev1.Pod) { p.Labels = map[string]string{"kueue.x-k8s.io/queue-name": "dev"} }))},
			unschedulable(`the pod's schedulingGates prevent its scheduling: "kueue.x-k8s.io/admission", "example.com/approval"; it waits in queue "dev" of Kueue: wait until the component that set each gate removes it`),
		},
		"more GPUs than any node has": {
			Workload{Pods: pods(newPod(unscheduled("0/2 nodes are available: 2 Insufficient nvidia.com/gpu."), gpus("8"))), Nodes: &Nodes{Total: 2, Largest: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}}},
			impossible("no node can take the pod: 2 Insufficient nvidia.com/gpu (the largest node has 1 nvidia.com/gpu; the pod requests 8): request less nvidia.com/gpu, or ask the cluster's administrator for larger nodes"),
		},
		"no node offers GPUs, and the cluster adds one": {
			Workload{Pods: pods(newPod(unscheduled("0/2 nodes are available: 2 Insufficient nvidia.com/gpu."), gpus("1"))), Nodes: nodes(2, "4", "16Gi"), Events: []Event{podEvent(3, "", "TriggeredScaleUp", "pod triggered scale-up: [{gpu 0->1 (max: 3)}]")}},
			unschedulable("no node can take the pod: 2 Insufficient nvidia.com/gpu (no node offers nvidia.com/gpu); the cluster adds a node for it: wait until the node is ready; if the problem persists, ask the cluster's administrator"),
		},
		"not considered by the scheduler yet": {Workload{Pods: pods(newPod(func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Conditions = "", nil }))}, wantCause{}},
	})
}

func TestCommaWithinASchedulerReasonIsKept(t *testing.T) {
	d := Diagnose(Workload{Pods: pods(newPod(unscheduled("0/3 nodes are available: 1 node(s) had a taint {key: a, b}, 2 Insufficient cpu.")))})
	if want := "no node can take the pod: 2 Insufficient cpu, 1 node(s) had a taint {key: a, b}"; d.Cause.Message != want {
		t.Errorf("got %q", d.Cause.Message)
	}
}

func TestTheSummaryOfNodesCountsTheTaintsThatExcludePods(t *testing.T) {
	now := metaAt(5)
	taint := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute}
	since := taint
	since.TimeAdded = &now
	prefer := corev1.Taint{Key: "slow", Effect: corev1.TaintEffectPreferNoSchedule}
	sum := SummarizeNodes([]corev1.Node{{Spec: corev1.NodeSpec{Taints: []corev1.Taint{since, prefer}}}, {Spec: corev1.NodeSpec{Taints: []corev1.Taint{taint}}}, {}})
	if diff := cmp.Diff(map[corev1.Taint]int{taint: 2}, sum.Taints); diff != "" || sum.Total != 3 {
		t.Errorf("of %d nodes: %s", sum.Total, diff)
	}
}
