package diagnosis

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestSchedulingCauses(t *testing.T) {
	unschedulable := func(sentence string) wantCause {
		return wantCause{reason: "FailedScheduling", transient: true, sentence: sentence}
	}
	const text = "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
	const message = "no node can take the pod: 2 Insufficient cpu, 1 node(s) had untolerated taint(s)"
	const advice = ": request less cpu in resources, or wait until more is available; add tolerations for the nodes' taints, or let the pod run on other nodes"
	run(t, map[string]diagnoseCase{
		"resources and taints": {Workload{Pods: pods(newPod(unscheduled(text)))}, unschedulable(message + advice)},
		"more than any node has": {Workload{Pods: pods(newPod(unscheduled(text), asking("64", "1Gi"))), Nodes: nodes(3, "4", "16Gi")},
			unschedulable(message + " (the largest node has 4 CPU; the pod requests 64)" + advice)},
		"less than a node has": {Workload{Pods: pods(newPod(unscheduled(text), asking("3500m", "1Gi"))), Nodes: nodes(3, "4", "16Gi")}, unschedulable(message + advice)},
		"memory": {Workload{Pods: pods(newPod(unscheduled("0/1 nodes are available: 1 Insufficient memory."), asking("1", "96Gi"))), Nodes: nodes(1, "4", "16384256Ki")},
			unschedulable("no node can take the pod: 1 Insufficient memory (the largest node has 15.625Gi of memory; the pod requests 96Gi): request less memory in resources, or wait until more is available")},
		"node selector": {Workload{Pods: pods(newPod(unscheduled("0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.")))},
			unschedulable("no node can take the pod: 2 node(s) didn't match Pod's node affinity/selector: check nodeSelector and affinity against the labels of the nodes")},
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
		"gated": {Workload{Pods: pods(newPod(unscheduled("Scheduling is blocked due to non-empty scheduling gates"), func(p *corev1.Pod) { p.Status.Conditions[0].Reason = "SchedulingGated" }))},
			unschedulable("the pod's schedulingGates prevent its scheduling: wait until the component that set them removes them")},
		"not considered by the scheduler yet": {Workload{Pods: pods(newPod(func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Conditions = "", nil }))}, wantCause{}},
	})
}

func TestCommaWithinASchedulerReasonIsKept(t *testing.T) {
	d := Diagnose(Workload{Pods: pods(newPod(unscheduled("0/3 nodes are available: 1 node(s) had a taint {key: a, b}, 2 Insufficient cpu.")))})
	if want := "no node can take the pod: 2 Insufficient cpu, 1 node(s) had a taint {key: a, b}"; d.Cause.Message != want {
		t.Errorf("got %q", d.Cause.Message)
	}
}
