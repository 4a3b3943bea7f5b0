package explain

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// shopObjects are a Deployment whose pod crashes, and what depends on the pod.
const shopObjects = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, uid: d}
spec: {replicas: 1, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}}
status: {replicas: 1, updatedReplicas: 1}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web-a, namespace: shop, uid: r, labels: {app: web}, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: d, controller: true}]}
spec: {replicas: 1, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, namespace: shop}
spec: {ingressClassName: nginx, tls: [{secretName: gone}], defaultBackend: {service: {name: web, port: {number: 80}}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: shop}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
status: {expectedPods: 2, currentHealthy: 1, desiredHealthy: 1}
---
apiVersion: v1
kind: Service
metadata: {name: old, namespace: shop}
spec: {selector: {app: old}, ports: [{port: 80}]}
---
`

func overviewOf(t *testing.T, e *fakeExplainer, namespace string) *Overview {
	t.Helper()
	o, err := e.Overview(t.Context(), namespace)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// linesOfOverview returns the reason and the objects of each problem.
func linesOfOverview(o *Overview) []string {
	var lines []string
	for _, p := range o.Problems {
		line := p.Cause.Reason + ":"
		for _, object := range p.Objects {
			line += " " + object.Kind + "/" + object.Name
		}
		lines = append(lines, line)
	}
	return lines
}

func TestTheOverviewGroupsWhatDependsOnAPodWithIt(t *testing.T) {
	pod := strings.Replace(crashedPod, "metadata: {", "metadata: {ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-a, uid: r, controller: true}], ", 1)
	e := fakeCluster(t, shopObjects+webService+"\n---\n"+pod, "IngressClass", "Node")
	o := overviewOf(t, e, "shop")
	want := []string{
		"OOMKilled: Deployment/web Ingress/web PodDisruptionBudget/web Service/web",
		"NoEndpoints: Service/old",
	}
	if diff := cmp.Diff(want, linesOfOverview(o)); diff != "" {
		t.Error(diff)
	}
	if o.Incomplete() != nil { // IngressClasses belong to no namespace
		t.Error(o.Incomplete())
	}
	for kind, n := range e.requests {
		if n > 1 {
			t.Errorf("%d requests for %s", n, kind)
		}
	}
	for _, kind := range []string{"SecretList", "Secret", "NodeList", "NamespaceList"} {
		if e.requests[kind] > 0 {
			t.Errorf("the overview reads %s", kind)
		}
	}
}

func TestTheOverviewOfAllNamespacesContainsNodesAndNamespaces(t *testing.T) {
	const objects = `
apiVersion: v1
kind: Node
metadata: {name: node-0}
status: {conditions: [{type: Ready, status: Unknown, message: Kubelet stopped posting node status.}]}
---
apiVersion: v1
kind: Node
metadata: {name: node-1}
status: {conditions: [{type: Ready, status: "True"}, {type: MemoryPressure, status: "True", reason: KubeletHasInsufficientMemory, message: low}]}
---
apiVersion: v1
kind: Namespace
metadata: {name: old, deletionTimestamp: "2026-03-01T08:00:00Z", finalizers: [x.example.com/y]}
status: {conditions: [{type: NamespaceContentRemaining, status: "True", reason: SomeResourcesRemain, message: "Some resources are remaining: pods. has 1 resource instances"}]}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: shop}
spec: {nodeName: node-0, containers: [{name: app, image: i}]}
status:
  phase: Running
  conditions: [{type: Ready, status: "False"}, {type: ContainersReady, status: "True"}]
  containerStatuses: [{name: app, ready: true, image: a, imageID: b, restartCount: 0, state: {running: {}}}]`
	e := fakeCluster(t, objects)
	o := overviewOf(t, e, "")
	want := []string{"NodeLost: Node/node-0 Pod/a", "KubeletHasInsufficientMemory: Node/node-1", "SomeResourcesRemain: Namespace/old"}
	got := linesOfOverview(o)
	slices.Sort(got[1:])
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := linesOfOverview(overviewOf(t, fakeCluster(t, objects), "old")); !slices.Equal(got, want[2:]) {
		t.Errorf("the namespace itself: %q", got)
	}
	if e.requests["PodList"] != 1 {
		t.Errorf("%v", e.requests)
	}
}

// noNetwork is a pod that its node cannot set up.
func noNetwork(namespace, node string) string {
	return `
---
apiVersion: v1
kind: Pod
metadata: {name: app-` + node + `, namespace: ` + namespace + `, uid: ` + namespace + node + `}
spec: {nodeName: ` + node + `, containers: [{name: app, image: i}]}
status:
  phase: Pending
  containerStatuses: [{name: app, ready: false, image: a, imageID: b, restartCount: 0, state: {waiting: {reason: ContainerCreating}}}]
---
apiVersion: v1
kind: Event
metadata: {name: ` + node + `, namespace: ` + namespace + `}
type: Warning
reason: FailedCreatePodSandBox
message: 'Failed to create pod sandbox: plugin type="calico" failed (add): error getting ClusterInformation for pod app in ` + namespace + `'
lastTimestamp: "2026-03-01T08:55:00Z"
involvedObject: {apiVersion: v1, kind: Pod, name: app-` + node + `, namespace: ` + namespace + `, uid: ` + namespace + node + `}`
}

// evicted is a pod that its node evicted.
func evicted(namespace, node, message string) string {
	return `
---
apiVersion: v1
kind: Pod
metadata: {name: evicted-` + node + `, namespace: ` + namespace + `}
spec: {nodeName: ` + node + `, containers: [{name: app, image: i}]}
status: {phase: Failed, reason: Evicted, message: '` + message + `'}`
}

func TestTheOverviewGroupsTheProblemsOfANodeAcrossNamespaces(t *testing.T) {
	const nodes = `
apiVersion: v1
kind: Node
metadata: {name: a}
status: {conditions: [{type: Ready, status: "True"}, {type: MemoryPressure, status: "True", reason: KubeletHasInsufficientMemory, message: low}]}
---
apiVersion: v1
kind: Node
metadata: {name: b}
status: {conditions: [{type: Ready, status: "True"}, {type: MemoryPressure, status: "True", reason: KubeletHasInsufficientMemory, message: low}]}`
	const low, tmp = "The node was low on resource: memory. ", `Usage of EmptyDir volume "tmp" exceeds the limit "1Gi". `
	e := fakeCluster(t, nodes+noNetwork("shop", "a")+noNetwork("lab", "a")+noNetwork("lab", "b")+
		evicted("shop", "a", low)+evicted("lab", "a", low)+evicted("shop", "b", tmp)+evicted("lab", "b", tmp))
	o := overviewOf(t, e, "")
	want := []string{
		"Evicted:" + strings.Repeat(" Pod/evicted-a", 2), "Evicted: Pod/evicted-b", "Evicted: Pod/evicted-b",
		"FailedCreatePodSandBox:" + strings.Repeat(" Pod/app-a", 2), "FailedCreatePodSandBox: Pod/app-b",
		"KubeletHasInsufficientMemory: Node/a", "KubeletHasInsufficientMemory: Node/b",
	}
	got := linesOfOverview(o)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	text := written(t, o)
	if want := "node a: the node cannot set up the pod: network plugin calico failed: error getting ClusterInformation for pod app in lab: wait"; !strings.Contains(text, want) {
		t.Errorf("%q is missing in:\n%s", want, text)
	}
	for range 10 {
		if again := written(t, overviewOf(t, e, "")); again != text {
			t.Fatalf("the same cluster gives\n%s\nand\n%s", text, again)
		}
	}
}

// bongsuObject is an object with conditions.
func bongsuObject(kind, metadata, conditions string) string {
	return "apiVersion: bongsu.io/v1alpha1\nkind: " + kind + "\nmetadata: {" + metadata + ", generation: 1}\nstatus: {observedGeneration: 1, conditions: [" + conditions + "]}\n---\n"
}

func TestTheOverviewContainsAllKindsOfBongsu(t *testing.T) {
	const good = `{type: Ready, status: "True", reason: Ready}`
	objects := "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\n" +
		bongsuObject("Alarm", "name: a, namespace: shop", `{type: Ready, status: "False", reason: ReceiverNotFound, message: "AlarmReceiver \"team\" not found: create it"}`) +
		bongsuObject("Alarm", "name: b, namespace: shop", good) +
		bongsuObject("AlarmReceiver", "name: r, namespace: shop", good+`, {type: Degraded, status: "True", reason: DeliveryFailing, message: "HTTP 500: check the receiver"}`) +
		bongsuObject("SecretShare", "name: s, namespace: shop", good+`, {type: Stalled, status: "True", reason: KeyNotFound, message: "no key \"x\": correct it"}`) +
		bongsuObject("SecretShare", "name: t, namespace: shop", `{type: Ready, status: "False", reason: Copying, message: copies are being written}`) +
		bongsuObject("SecretShareGrant", "name: g, namespace: shop", `{type: Ready, status: "False", reason: OverBudget, message: "too many copies: delete some"}`) +
		bongsuObject("ClusterAlarm", "name: ca", `{type: Ready, status: "False", reason: InvalidMatch, message: "no such field: correct it"}`) +
		bongsuObject("ClusterAlarmReceiver", "name: cr", `{type: Ready, status: "False", reason: SecretNotFound, message: "no Secret: create it"}`) +
		bongsuObject("ClusterSecretShare", "name: cs", `{type: Ready, status: "False", reason: SourceNotFound, message: "no Secret: create it"}`)
	inShop := []string{"DeliveryFailing: AlarmReceiver/r", "KeyNotFound: SecretShare/s", "OverBudget: SecretShareGrant/g", "ReceiverNotFound: Alarm/a"}
	inCluster := append([]string{"InvalidMatch: ClusterAlarm/ca", "SecretNotFound: ClusterAlarmReceiver/cr", "SourceNotFound: ClusterSecretShare/cs"}, inShop...)
	slices.Sort(inCluster)
	for namespace, want := range map[string][]string{"shop": inShop, "": inCluster} {
		o := overviewOf(t, fakeCluster(t, objects), namespace)
		got := linesOfOverview(o)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(namespace, diff)
		}
		if text, want := written(t, o), `condition Ready is False: AlarmReceiver "team" not found: create it`; !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
	if o := overviewOf(t, fakeCluster(t, objects, "ClusterAlarm", "ClusterAlarmReceiver", "ClusterSecretShare"), ""); o.Incomplete() != nil {
		t.Error(o.Incomplete())
	}
}
