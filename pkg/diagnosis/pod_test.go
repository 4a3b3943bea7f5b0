package diagnosis

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestCausesOfAPodWithManyContainersAreLimited(t *testing.T) {
	const containers = 20000
	p := newPod()
	for i := range containers {
		name := fmt.Sprintf("c%d", i)
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: name, Image: name})
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: name, State: waiting("ErrImagePull", textNotFound)})
	}
	if found := len(causesOf(Diagnose(Workload{Pods: pods(p)}))); found == 0 || found > 64 {
		t.Errorf("%d causes", found)
	}
}

func TestEvictedPodsAndLostNodes(t *testing.T) {
	failed := func(reason, message string) []*corev1.Pod {
		return pods(newPod(func(p *corev1.Pod) {
			p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: reason, Message: message}
		}))
	}
	notReady := newPod(ready, setCondition(corev1.PodReady, corev1.ConditionFalse, 50))
	unready := newPod(ready, setCondition(corev1.PodReady, corev1.ConditionFalse, 5000), func(p *corev1.Pod) { condition(p, corev1.PodReady).Reason = "ContainersNotReady" })
	lost := newPod(ready, setCondition(corev1.PodReady, corev1.ConditionFalse, 50), deleted)
	byTaint := func(p *corev1.Pod) {
		setCondition(corev1.DisruptionTarget, corev1.ConditionTrue, 100)(p)
		condition(p, corev1.DisruptionTarget).Reason = "DeletionByTaintManager"
	}
	tainted := newPod(deleted, byTaint, status(corev1.ContainerStatus{State: waiting("ContainerCreating", "")}))
	ends := newPod(deleted, byTaint, status(corev1.ContainerStatus{State: ended("Error", 143, 110)}))
	sentenceLost := wantCause{reason: "NodeLost", transient: true, sentence: `node "node-a" of the pod is not ready or does not respond: wait until the node is back or the pod is recreated on another node; if the problem persists, ask the cluster's administrator`}
	run(t, map[string]diagnoseCase{
		"memory": {Workload{Pods: failed("Evicted", "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. Container notebook was using 2Gi, request is 1Gi, has larger consumption of memory. ")},
			wantCause{reason: "Evicted", transient: true, sentence: "the node ran low on memory and evicted the pod: request enough memory, so that the pod is not evicted first"}},
		"disk": {Workload{Pods: failed("Evicted", "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ")},
			wantCause{reason: "Evicted", sentence: "the pod used more local disk space than its limit of 1Gi: raise resources.limits.ephemeral-storage, or write to a volume"}},
		"full emptyDir": {Workload{Pods: failed("Evicted", `Usage of EmptyDir volume "tmp" exceeds the limit "1Gi". `)},
			wantCause{reason: "Evicted", sentence: `volume "tmp" of the pod exceeded its size limit of 1Gi: raise the volume's sizeLimit, or write less to the volume`}},
		"rejected by the node": {Workload{Pods: failed("OutOfcpu", "Pod was rejected: Node didn't have enough resource: cpu, requested: 4000, used: 1000, capacity: 4000")},
			wantCause{reason: "PodRejected", transient: true, sentence: "the node has too little cpu left for the pod: wait until the pod is recreated on another node"}},
		"deadline exceeded": {Workload{Pods: failed("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")},
			wantCause{reason: "Error", sentence: "the pod ran longer than its activeDeadlineSeconds: raise activeDeadlineSeconds, or make the work shorter"}},
		"node does not respond": {Workload{Pods: pods(notReady), Events: []Event{podEvent(50, "", "NodeNotReady", "Node is not ready")}},
			sentenceLost},
		"the Event has expired":                     {Workload{Pods: pods(notReady)}, sentenceLost},
		"node has responded since":                  {Workload{Pods: pods(unready), Events: []Event{podEvent(50, "", "NodeNotReady", "Node is not ready")}}, wantCause{}},
		"deleted pod on a lost node":                {Workload{Pods: pods(lost), Events: []Event{podEvent(50, "", "NodeNotReady", "Node is not ready")}}, sentenceLost},
		"deleted by a taint":                        {Workload{Pods: pods(tainted)}, sentenceLost},
		"deleted by a taint, and the node responds": {Workload{Pods: pods(ends)}, wantCause{}},
		"deleted by a taint, and the node is known to respond": {
			Workload{Pods: pods(tainted), NodeStates: map[string]NodeState{"node-a": {}}}, wantCause{}},
		"deleted pod on a node that is known to be lost": {
			Workload{Pods: pods(lost), NodeStates: map[string]NodeState{"node-a": {Lost: true}}},
			wantCause{reason: "NodeLost", transient: true, sentence: `the pod cannot be deleted while node "node-a" does not respond: repair the node; if it is off for good, an administrator adds the taint node.kubernetes.io/out-of-service=nodeshutdown:NoExecute, or deletes the node`}},
		"deleted ready pod on a lost node": {Workload{Pods: pods(newPod(ready, deleted)), Events: []Event{podEvent(50, "", "NodeNotReady", "Node is not ready")}}, wantCause{}},
		"replaced pod on a lost node": {
			Workload{Pods: pods(lost, newPod(ready, named("nb-1", "b"), created(400))), Events: []Event{podEvent(50, "", "NodeNotReady", "Node is not ready")}}, wantCause{},
		},
	})
}

func TestCausesFromEventsOfDeletedPods(t *testing.T) {
	former := func(e Event) Event { e.UID = "former"; return e }
	pulls := podEvent(10, "notebook", "Failed", `Failed to pull image "jupyter:1": `+textNotFound)
	run(t, map[string]diagnoseCase{
		"pull": {Workload{Events: []Event{pulls}}, imageCause("ErrImagePull", sentenceNotFound, false)},
		"pull, a claim waits for the next pod": {
			Workload{Events: []Event{pulls}, Claims: []*corev1.PersistentVolumeClaim{claim(corev1.ClaimPending)}}, imageCause("ErrImagePull", sentenceNotFound, false),
		},
		"eviction": {Workload{Events: []Event{podEvent(20, "", "Evicted", "The node was low on resource: memory. "), pulls}},
			wantCause{reason: "Evicted", transient: true, sentence: "the node ran low on memory and evicted the pod: request enough memory, so that the pod is not evicted first"}},
		"crash": {Workload{Events: []Event{podEvent(20, "notebook", "BackOff", "Back-off restarting failed container notebook in pod nb-0_shop(3f1c9d7e-5a0b-4c38-9d5e-0d9c1f2b3a4e)")}},
			wantCause{reason: "CrashLoopBackOff", container: "notebook", sentence: `container "notebook" keeps ending: the pod and its log no longer exist`}},
		"no node": {Workload{Events: []Event{podEvent(20, "", "FailedScheduling", "0/1 nodes are available: 1 Too many pods.")}},
			wantCause{reason: "FailedScheduling", transient: true, sentence: "no node can take the pod: 1 Too many pods: wait until other pods end"}},
		"mount": {Workload{Events: []Event{podEvent(20, "", "FailedMount", `MountVolume.SetUp failed for volume "conf" : secret "s" not found`)}},
			wantCause{reason: "FailedMount", sentence: `volume "conf" cannot be mounted: Secret "s" does not exist: create it, or correct its name; if a controller creates it, find out why it has not`}},
		"probe": {Workload{Events: []Event{podEvent(20, "notebook", "Unhealthy", `Readiness probe failed: HTTP probe failed with statuscode: 500`)}},
			wantCause{reason: "Unhealthy", container: "notebook", transient: true, sentence: `container "notebook" is not ready: its readiness probe returns HTTP status 500: check the probe's path and the container's log`}},
		"last pod of the name": {
			Workload{Events: []Event{former(podEvent(5, "", "FailedScheduling", "0/1 nodes are available: 1 Too many pods.")), pulls}}, imageCause("ErrImagePull", sentenceNotFound, false),
		},
		"earlier pod of the name": {Workload{Pods: pods(newPod()), Events: []Event{former(pulls)}}, wantCause{}},
		"no failure":              {Workload{Events: []Event{podEvent(20, "notebook", "Started", "Started container notebook")}}, wantCause{}},
	})
}

func TestTheCauseOfAPodOnALostNodeNamesTheNode(t *testing.T) {
	node := func(name string, status corev1.ConditionStatus) corev1.Node {
		return corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: metaAt(40)}}},
		}
	}
	states := NodeStates([]corev1.Node{node("node-a", corev1.ConditionUnknown), node("node-b", corev1.ConditionFalse), node("node-c", corev1.ConditionTrue)})
	on := func(name string) change { return func(p *corev1.Pod) { p.Spec.NodeName = name } }
	notReady := setCondition(corev1.PodReady, corev1.ConditionFalse, 50)
	for name, tc := range map[string]struct {
		pod *corev1.Pod
		// message is the begin of the cause, or empty for none.
		message string
	}{
		"not ready, its Event has expired": {newPod(ready, notReady), `node "node-a" of the pod does not respond`},
		"still ready":                      {newPod(ready), ""},
		"on a node that is not ready":      {newPod(ready, notReady, on("node-b")), `node "node-b" of the pod is not ready`},
		"with a failing container there":   {newPod(notReady, on("node-b")), ""},
		"on a node that is ready":          {newPod(ready, notReady, on("node-c")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := Diagnose(Workload{Pods: pods(tc.pod), NodeStates: states})
			switch {
			case tc.message == "" && d.Cause != nil:
				t.Errorf("got %s", d.Cause.Sentence())
			case tc.message != "" && (d.Cause == nil || d.Cause.Reason != ReasonNodeLost || d.Cause.Message != tc.message || d.Cause.Node != tc.pod.Spec.NodeName || !d.Cause.Time.Equal(at(40))):
				t.Errorf("got %v", d.Cause)
			}
		})
	}
}
