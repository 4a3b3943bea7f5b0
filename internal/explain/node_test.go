package explain

import "testing"

func TestANodeIsExplainedByItsConditionsAndTaints(t *testing.T) {
	const onNode = "\n---\n" + readyPod
	checkExplained(t, "nodes", "node-0", map[string]tc{
		"it is ready": {objects: `
apiVersion: v1
kind: Node
metadata: {name: node-0}
status: {conditions: [{type: Ready, status: "True"}, {type: MemoryPressure, status: "False"}, {type: KernelDeadlock, status: "False", reason: KernelHasNoDeadlock, message: kernel has no deadlock}]}` + onNode,
			want: `
Node node-0 shows no problem: it has 1 pod

Conditions:
  KernelDeadlock False: KernelHasNoDeadlock: kernel has no deadlock`},
		"it does not respond": {objects: `
apiVersion: v1
kind: Node
metadata: {name: node-0}
spec: {taints: [{key: node.kubernetes.io/unreachable, effect: NoExecute}]}
status: {conditions: [{type: Ready, status: Unknown, reason: NodeStatusUnknown, message: Kubelet stopped posting node status., lastTransitionTime: "2026-03-01T08:00:00Z"}]}` + onNode,
			want: `
Node node-0 has a problem: it has 1 pod

Cause: NodeLost in Node node-0 (last 60m ago)
  node "node-0" does not respond: Kubelet stopped posting node status.
  Advice: check the machine, its network and its kubelet`},
		"it is not ready and low on disk space": {objects: `
apiVersion: v1
kind: Node
metadata: {name: node-0}
status:
  conditions:
  - {type: DiskPressure, status: "True", reason: KubeletHasDiskPressure, message: kubelet has disk pressure}
  - {type: Ready, status: "False", reason: KubeletNotReady, message: "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady"}`,
			want: `
Node node-0 has a problem: it has 0 pods

Cause: KubeletHasDiskPressure in Node node-0
  the node is low on disk space, and evicts pods: kubelet has disk pressure
  Advice: free disk space on the node: remove images, logs or pods

Also: KubeletNotReady in Node node-0
  the kubelet reports that the node is not ready: container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady
  Advice: check the kubelet, the container runtime and the network plugin on the node`},
		"its kernel hangs": {objects: `
apiVersion: v1
kind: Node
metadata: {name: node-0}
status:
  conditions:
  - {type: KernelDeadlock, status: "True", reason: DockerHung, message: "task docker:1 blocked for more than 120 seconds"}
  - {type: ReadonlyFilesystem, status: "False", reason: FilesystemIsNotReadOnly}
  - {type: Ready, status: "True"}`,
			want: `
Node node-0 has a problem: it has 0 pods

Cause: DockerHung in Node node-0
  the kernel of the node hangs: task docker:1 blocked for more than 120 seconds
  Advice: drain the node, and restart it

Conditions:
  ReadonlyFilesystem False: FilesystemIsNotReadOnly`},
		"its drain waits for a budget": {objects: `
apiVersion: v1
kind: Node
metadata: {name: node-0}
spec: {unschedulable: true, taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule}]}
status: {conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: db-0, labels: {app: db}}
spec: {nodeName: node-0, containers: [{name: app}]}
status: {phase: Running}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {namespace: shop, name: db}
spec: {minAvailable: 1, selector: {matchLabels: {app: db}}}
status: {disruptionsAllowed: 0, currentHealthy: 1, desiredHealthy: 1, expectedPods: 1}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {namespace: other, name: db}
spec: {minAvailable: 1, selector: {matchLabels: {app: db}}}
status: {disruptionsAllowed: 0, currentHealthy: 1, desiredHealthy: 1, expectedPods: 1}`,
			want: `
Node node-0 has a problem: it has 1 pod; it is cordoned, so that it gets no new pods: kubectl uncordon node-0

Cause: InsufficientPods in PodDisruptionBudget db
  a drain cannot evict pod "db-0": PodDisruptionBudget "db" of namespace "shop" allows no eviction; 1 of 1 pod healthy, and 1 must be: PodDisruptionBudget "db", which protects it, has a problem: it allows no eviction while it covers 1 pod, so that a drain of their nodes does not end: minAvailable is 1, and 1 healthy pod must stay
  Advice: run more pods, or change the budget so that one pod may be unavailable
  By way of: PodDisruptionBudget shop/db`},
		"the budget of its pod allows an eviction": {objects: `
apiVersion: v1
kind: Node
metadata: {name: node-0}
spec: {unschedulable: true}
status: {conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: db-0, labels: {app: db}}
spec: {nodeName: node-0, containers: [{name: app}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {namespace: shop, name: db}
spec: {minAvailable: 1, selector: {matchLabels: {app: db}}}
status: {disruptionsAllowed: 1, currentHealthy: 2, desiredHealthy: 1, expectedPods: 2}`,
			want: `Node node-0 shows no problem: it has 1 pod; it is cordoned, so that it gets no new pods: kubectl uncordon node-0`},
		"it is cordoned and tainted": {forbidden: []string{"Pod"}, objects: `
apiVersion: v1
kind: Node
metadata: {name: node-0}
spec: {unschedulable: true, taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule}, {key: gpu, value: "yes", effect: NoSchedule}]}
status: {conditions: [{type: Ready, status: "True"}]}`,
			want: `
Node node-0 shows no problem: its pods are unknown; it is cordoned, so that it gets no new pods: kubectl uncordon node-0; only pods that tolerate its taints can run on it: gpu=yes:NoSchedule

could not read pods: you may not list them`},
	})
}
