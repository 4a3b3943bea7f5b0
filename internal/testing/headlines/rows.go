// Package headlines has states of pods in which a workload does not run, with the sentence that its
// owner must read. The tests of all kinds whose controllers diagnose pods share them.
//
// The texts are those of the real components; see pkg/diagnosis/testdata/corpus.
package headlines

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/kubelet"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// Row is one state of a pod.
type Row struct {
	// PodSpec is the part of the pod's spec that the owner sets, in YAML. It can contain CONTAINER
	// and NAMESPACE.
	PodSpec string
	// Prepare is called before the object is created. It can be nil.
	Prepare func(t testing.TB, c *cluster.Cluster, namespace string)
	// Node is the pod's own node, if it has one.
	Node *Node
	// Happen changes the pod, as a kubelet does. If it is nil, the test does not wait for a pod that
	// has a node.
	Happen func(t testing.TB, k kubelet.Kubelet, pod *corev1.Pod)
	// Before are Warnings that come before the one that stays, because a component deletes the pod. The
	// node confirms its end afterwards: real containers need some time to stop.
	Before []Sentence
	// Sentence is what the owner reads.
	Sentence
	// Waits means that the state is normal for some time: it is no failure yet.
	Waits bool
	// Replaced means that the pod has ended, and that its controller creates another one.
	Replaced bool
}

// Sentence is a reason and the whole sentence. Says can contain NAMESPACE, POD, CONTAINER and NODE.
// It can contain … for a part that depends on the cluster.
type Sentence struct{ Reason, Says string }

// image is an image that the rows set.
const image = "containers: [{name: CONTAINER, image: 'example.org/work:1'}]"

// Rows returns the states by name.
func Rows() map[string]Row {
	rows := map[string]Row{}
	maps.Copy(rows, ofImages())
	maps.Copy(rows, ofContainers())
	maps.Copy(rows, ofSetUp())
	maps.Copy(rows, ofLimits())
	maps.Copy(rows, ofCluster())
	for name, row := range ended() {
		row.Replaced = true
		rows[name] = row
	}
	return rows
}

// ended are states in which the pod has ended.
func ended() map[string]Row {
	return map[string]Row{
		"the node ran low on memory": {
			Happen:   failed("Evicted", "The node was low on resource: memory. Threshold quantity: 100Mi, available: 90Mi. Container CONTAINER was using 2Gi, request is 0, has larger consumption of memory. "),
			Sentence: Sentence{diagnosis.ReasonEvicted, "the node ran low on memory and evicted the pod: request enough memory, so that the pod is not evicted first"},
		},
		"a critical pod needs the node": {
			Happen: failed("Preempting", "Preempted in order to admit critical pod"), Sentence: Sentence{diagnosis.ReasonPreempted, "the pod was preempted by a pod of a higher priority: wait for free capacity, or use a higher priority"},
		},
		"the node was shut down": {
			Happen: failed("Terminated", "Pod was terminated in response to imminent node shutdown."), Sentence: Sentence{diagnosis.ReasonNodeShutdown, "its node was shut down: wait until the pod is recreated on another node"},
		},
		"the node has no device left": {
			Happen: failed("UnexpectedAdmissionError",
				"Pod was rejected: Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 1, Available: 0, which is unexpected"),
			Sentence: Sentence{diagnosis.ReasonUnexpectedAdmissionError, "the node cannot allocate what the pod requests: requested number of devices unavailable for nvidia.com/gpu. Requested: 1, Available: 0: " +
				"wait until the pod is recreated; if the problem persists, ask the cluster's administrator"},
		},
		"the node has no CPU left": {
			Happen:   failed("OutOfcpu", "Pod was rejected: Node didn't have enough resource: cpu, requested: 4000, used: 1000, capacity: 4000"),
			Sentence: Sentence{diagnosis.ReasonPodRejected, "the node has too little cpu left for the pod: wait until the pod is recreated on another node"},
		},
	}
}

func waiting(reason, message string) func(testing.TB, kubelet.Kubelet, *corev1.Pod) {
	return func(t testing.TB, k kubelet.Kubelet, pod *corev1.Pod) { k.Waiting(t, pod, reason, message) }
}

// event is the Event of a kubelet about a pod whose containers have not started.
func event(reason, message string) func(testing.TB, kubelet.Kubelet, *corev1.Pod) {
	return func(t testing.TB, k kubelet.Kubelet, pod *corev1.Pod) {
		k.Waiting(t, pod, "ContainerCreating", "")
		k.Event(t, pod, reason, "", message)
	}
}

func failed(reason, message string) func(testing.TB, kubelet.Kubelet, *corev1.Pod) {
	return func(t testing.TB, k kubelet.Kubelet, pod *corev1.Pod) { k.Failed(t, pod, reason, message) }
}
