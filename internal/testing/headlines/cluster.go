package headlines

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega" //nolint:staticcheck // reads as in the tests
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/kubelet"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

// ofCluster are states that the control plane causes.
func ofCluster() map[string]Row {
	return map[string]Row{
		"the priority class does not exist": {
			PodSpec: "priorityClassName: nowhere",
			Sentence: Sentence{diagnosis.ReasonFailedCreate,
				`the pod cannot be created: PriorityClass "nowhere" does not exist: …`}, // the classes of other tests can exist
		},
		"what creates its Secret fails": {
			PodSpec: "containers: [{name: CONTAINER, envFrom: [{secretRef: {name: db}}]}]",
			Prepare: failingExternalSecret,
			Happen:  waiting("CreateContainerConfigError", `secret "db" not found`),
			Sentence: Sentence{diagnosis.ReasonCreateContainerConfigError, `container "CONTAINER" cannot be started: Secret "db" does not exist: ` +
				`ExternalSecret "db", which creates it, has a problem: condition Ready is False: the token has expired`},
		},
		"no node has the label": {
			PodSpec: "nodeSelector: {no: such}",
			Sentence: Sentence{diagnosis.ReasonFailedScheduling,
				`no node can take the pod: …didn't match Pod's node affinity/selector…: …correct nodeSelector and affinity, or ask the cluster's administrator for the labels of the nodes`},
		},
		"no node is large enough": {
			PodSpec: "containers: [{name: CONTAINER, resources: {requests: {cpu: '640'}}}]",
			Sentence: Sentence{diagnosis.ReasonFailedScheduling,
				`no node can take the pod: …Insufficient cpu… (…the pod requests 640…): request less CPU, or ask the cluster's administrator for larger nodes`},
		},
		"every suitable node is tainted": {
			PodSpec: "nodeSelector: {kubernetes.io/hostname: tainted-NAMESPACE}",
			Prepare: taintedNode,
			Sentence: Sentence{diagnosis.ReasonFailedScheduling,
				`no node can take the pod: …untolerated taint(s) (taints: …only=others on …): …`},
		},
		"the storage class of a claim does not exist": {
			PodSpec:  "volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]",
			Prepare:  claimWithoutClass,
			Sentence: Sentence{diagnosis.ReasonProvisioningFailed, `no volume can be provisioned for claim "data": StorageClass "nowhere" does not exist: use one of simulated`},
		},
		"the volume of a claim is in another zone": {
			PodSpec: "volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]",
			Prepare: func(t testing.TB, c *cluster.Cluster, namespace string) { c.ClaimElsewhere(t, namespace, "data") },
			Sentence: Sentence{diagnosis.ReasonFailedScheduling,
				`no node can take the pod: …claim "data" has volume …in zone zone-gone, where the cluster has no node…): ask the cluster's administrator for a node there, or restore the data to another volume`},
		},
		"the volume of a claim is gone": {
			PodSpec: "volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]",
			Prepare: func(t testing.TB, c *cluster.Cluster, namespace string) { LostClaim(t, c.Client, namespace) },
			Sentence: Sentence{diagnosis.ReasonClaimLost,
				`the volume of claim "data" no longer exists: ask the cluster's administrator to restore the volume under the same name, or delete the claim and start again`},
		},
		"no device is free": {
			PodSpec: "resourceClaims: [{name: gpu, resourceClaimName: one-gpu}]",
			Prepare: claimWithoutDevice,
			Sentence: Sentence{diagnosis.ReasonFailedScheduling,
				`no node can take the pod: …cannot allocate all claims…(no free device matches ResourceClaim "one-gpu"…): ` +
					`…check the device classes and selectors of its ResourceClaims, or wait until a device is free…`},
		},
		"an init container runs": {
			PodSpec: "initContainers: [{name: fetch, image: 'example.org/fetch:1'}]",
			Happen:  func(t testing.TB, k kubelet.Kubelet, pod *corev1.Pod) { k.Initializing(t, pod) },
			Waits:   true,
			Sentence: Sentence{diagnosis.ReasonPodInitializing,
				`init container "fetch" has been running since … UTC, and the other containers wait for its end: check its log (kubectl logs -n NAMESPACE POD -c fetch)`},
		},
		"the node does not respond": {
			Node:   &Node{dies: true},
			Happen: func(t testing.TB, k kubelet.Kubelet, pod *corev1.Pod) { k.Running(t, pod, true) },
			Sentence: Sentence{diagnosis.ReasonNodeLost,
				`node "NODE" of the pod does not respond: wait until the node is back or the pod is recreated on another node; if the problem persists, ask the cluster's administrator`},
		},
		"a taint of the node deletes the pod": {
			Node: &Node{},
			Happen: func(t testing.TB, k kubelet.Kubelet, pod *corev1.Pod) {
				k.Running(t, pod, false)
				taint(t, k.Client, pod.Spec.NodeName)
			},
			Before: []Sentence{{diagnosis.ReasonTaintManagerEviction,
				"the pod was deleted because its node has a taint that the pod does not tolerate: " +
					"wait until the pod is recreated on another node; a node that does not respond has such a taint too"}},
			Sentence: Sentence{diagnosis.ReasonFailedScheduling,
				`no node can take the pod: …untolerated taint…: …`},
		},
		"a pod of a higher priority needs the node": {
			PodSpec: "containers: [{name: CONTAINER, resources: {requests: {cpu: '1'}}}]",
			Node:    &Node{},
			Happen: func(t testing.TB, k kubelet.Kubelet, pod *corev1.Pod) {
				k.Running(t, pod, false)
				preempt(t, k.Client, pod)
			},
			Before: []Sentence{{diagnosis.ReasonPreempted,
				"the pod was removed to make room for a pod of a higher priority: wait for free capacity, or use a higher priority"}},
			Sentence: Sentence{diagnosis.ReasonFailedScheduling, `no node can take the pod: …Insufficient cpu…: …`},
		},
	}
}

// ownTaint keeps the pods of other tests away from a node.
const ownTaint = "only-for-a-test"

// Node is a node that KWOK leaves alone. It has one CPU.
type Node struct {
	// dies means that its kubelet stops at once.
	dies bool
}

// create creates the node, and acts as its kubelet until the test ends.
func (n *Node) create(t testing.TB, c client.Client, name string) {
	t.Helper()
	g := NewWithT(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		corev1.LabelHostname: name, corev1.LabelTopologyZone: "local-a", localcluster.Simulate: localcluster.SimulateNone,
	}}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: ownTaint, Effect: corev1.TaintEffectNoSchedule}}}}
	g.Expect(c.Create(t.Context(), node)).To(Succeed())
	t.Cleanup(func() { _ = c.Delete(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}) })
	now := metav1.Now()
	size := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("10")}
	ready := client.MergeFrom(node.DeepCopy())
	node.Status.Capacity, node.Status.Allocatable = size, size
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status",
		LastHeartbeatTime: now, LastTransitionTime: now,
	}}
	g.Expect(c.Status().Patch(t.Context(), node, ready)).To(Succeed())
	if !n.dies {
		go heartbeat(t.Context(), c, name)
	}
	g.Eventually(func() []corev1.Taint { // a new node has another one
		_ = c.Get(t.Context(), client.ObjectKey{Name: name}, node)
		return node.Spec.Taints
	}).Should(HaveExactElements(HaveField("Key", ownTaint)))
}

// heartbeat renews the lease of a node, as a kubelet does.
func heartbeat(ctx context.Context, c client.Client, name string) {
	const every = 10 * time.Second
	tick := time.NewTicker(every)
	defer tick.Stop()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name}}
	for ctx.Err() == nil {
		lease.Spec.RenewTime = new(metav1.NowMicro())
		lease.Spec.HolderIdentity = &name
		if c.Update(ctx, lease) != nil {
			lease.ResourceVersion = ""
			_ = c.Create(ctx, lease)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// taint adds a taint that pods do not tolerate.
func taint(t testing.TB, c client.Client, name string) {
	t.Helper()
	NewWithT(t).Eventually(func() error {
		var node corev1.Node
		if err := c.Get(t.Context(), client.ObjectKey{Name: name}, &node); err != nil {
			return err
		}
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "only", Value: "others", Effect: corev1.TaintEffectNoExecute})
		return c.Update(t.Context(), &node)
	}).Should(Succeed())
}

// preempt creates a pod that needs the CPU of another pod, and has a higher priority.
func preempt(t testing.TB, c client.Client, victim *corev1.Pod) {
	t.Helper()
	g := NewWithT(t)
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "above-" + victim.Namespace}, Value: 1000}
	g.Expect(c.Create(t.Context(), class)).To(Succeed())
	t.Cleanup(func() { _ = c.Delete(context.Background(), class) })
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: victim.Namespace, Name: "important"}}
	pod.Spec = corev1.PodSpec{
		PriorityClassName: class.Name, NodeSelector: map[string]string{corev1.LabelHostname: victim.Spec.NodeName},
		Tolerations: []corev1.Toleration{{Key: ownTaint, Operator: corev1.TolerationOpExists}},
		Containers: []corev1.Container{{
			Name: "c", Image: "example.org/important:1",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
		}},
	}
	// The API server admits the pod when its cache of classes contains the new one.
	g.Eventually(func() error { return c.Create(t.Context(), pod) }).WithTimeout(patience).Should(Succeed())
}

// failingExternalSecret creates the ExternalSecret "db", and its type if no other test has. Nothing else of
// external-secrets.io is there.
func failingExternalSecret(t testing.TB, c *cluster.Cluster, namespace string) {
	t.Helper()
	const group, version, kind = "external-secrets.io", "v1", "ExternalSecret"
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "externalsecrets." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "externalsecrets", Singular: "externalsecret", Kind: kind, ListKind: kind + "List"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}},
			}},
		},
	}
	g := NewWithT(t)
	if err := c.Client.Create(t.Context(), crd); !apierrors.IsAlreadyExists(err) {
		g.Expect(err).NotTo(HaveOccurred())
	}
	secret := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/" + version, "kind": kind, "metadata": map[string]any{"name": "db", "namespace": namespace},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "False", "reason": "SecretSyncedError", "message": "the token has expired"}}},
	}}
	g.Eventually(func() error { return c.Client.Create(t.Context(), secret) }).WithTimeout(time.Minute).Should(Succeed())
}

// taintedNode creates a node that no pod tolerates.
func taintedNode(t testing.TB, c *cluster.Cluster, namespace string) {
	t.Helper()
	name := "tainted-" + namespace
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: "local-a"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "only", Value: "others", Effect: corev1.TaintEffectNoSchedule}}},
	}
	NewWithT(t).Expect(c.Client.Create(t.Context(), node)).To(Succeed())
	t.Cleanup(func() { _ = c.Client.Delete(context.Background(), node) })
}

// claimWithoutClass creates the claim "data", whose storage class does not exist.
func claimWithoutClass(t testing.TB, c *cluster.Cluster, namespace string) {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "data"}}
	claim.Spec = corev1.PersistentVolumeClaimSpec{
		StorageClassName: new("nowhere"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Resources: oneGi(),
	}
	NewWithT(t).Expect(c.Client.Create(t.Context(), claim)).To(Succeed())
}

func oneGi() corev1.VolumeResourceRequirements {
	return corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}
}

// LostClaim creates the claim "data", whose volume an administrator has deleted.
func LostClaim(t testing.TB, c client.Client, namespace string) {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "data", Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"},
	}}
	claim.Spec = corev1.PersistentVolumeClaimSpec{
		StorageClassName: new(""), VolumeName: "gone-" + namespace, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: oneGi(),
	}
	g := NewWithT(t)
	g.Expect(c.Create(t.Context(), claim)).To(Succeed())
	g.Eventually(func() corev1.PersistentVolumeClaimPhase {
		_ = c.Get(t.Context(), client.ObjectKeyFromObject(claim), claim)
		return claim.Status.Phase
	}).Should(Equal(corev1.ClaimLost))
}

// claimWithoutDevice creates the ResourceClaim "one-gpu". No node has such a device.
func claimWithoutDevice(t testing.TB, c *cluster.Cluster, namespace string) {
	t.Helper()
	g := NewWithT(t)
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu-" + namespace}}
	g.Expect(c.Client.Create(t.Context(), class)).To(Succeed())
	t.Cleanup(func() { _ = c.Client.Delete(context.Background(), class) })
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "one-gpu"}}
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class.Name}}}
	g.Expect(c.Client.Create(t.Context(), claim)).To(Succeed())
	awaitScheduler(t, c.Client, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "first"},
		Spec: corev1.PodSpec{
			ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim.Name}}, Containers: []corev1.Container{{Name: "c", Image: "example.org/first:1"}},
		},
	}, "cannot allocate all claims")
}

// awaitScheduler creates a pod, and waits until the scheduler says the text about it. Then the scheduler
// has seen what was created before.
func awaitScheduler(t testing.TB, c client.Client, pod *corev1.Pod, text string) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(c.Create(t.Context(), pod)).To(Succeed())
	g.Eventually(func() string {
		_ = c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)
		if scheduled := kube.PodCondition(pod, corev1.PodScheduled); scheduled != nil {
			return scheduled.Message
		}
		return ""
	}).WithTimeout(patience).Should(ContainSubstring(text))
	g.Expect(c.Delete(t.Context(), pod)).To(Succeed())
}
