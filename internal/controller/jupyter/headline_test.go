package jupyter_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/headlines"
	"github.com/bongsu-io/bongsu/internal/testing/kubelet"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// impatient reports a failed scheduling at once.
const impatient = "schedulingGracePeriodSeconds: 0\n"

// A user who may only read Jupyters and Events of one namespace finds out why a notebook
// does not run.
func TestKubectlDescribeShowsEveryCauseToTheOwner(t *testing.T) {
	for name, tc := range map[string]struct {
		spec    string
		prepare func(*scene)
		// happen is what befalls the pod; nil if it needs none.
		happen func(*scene, *corev1.Pod)
		reason string
		words  []string
	}{
		"no node has the label": {
			spec: impatient + "template: {spec: {nodeSelector: {no: such}}}", reason: diagnosis.ReasonFailedScheduling,
		},
		"no node is large enough": {
			spec: impatient + "resources: {requests: {cpu: '640'}}", reason: diagnosis.ReasonFailedScheduling, words: []string{"640"},
		},
		"every node is tainted": {
			spec:    impatient + "template: {spec: {nodeSelector: {kubernetes.io/hostname: tainted}}}",
			prepare: (*scene).taintedNode, reason: diagnosis.ReasonFailedScheduling, words: []string{"taint"},
		},
		"the quota has no room": {
			prepare: func(s *scene) { s.quota("none", corev1.ResourcePods, "0") },
			reason:  diagnosis.ReasonQuotaExceeded, words: []string{"none"},
		},
		"the quota has no room for the claim": {
			spec:    "storage: {size: 10Gi}",
			prepare: func(s *scene) { s.quota("small", corev1.ResourceRequestsStorage, "1Gi") },
			reason:  diagnosis.ReasonQuotaExceeded, words: []string{"small"},
		},
		"another pod uses the quota": {
			spec: "resources: {requests: {memory: 2Gi}}",
			prepare: func(s *scene) {
				s.quota("team", corev1.ResourceRequestsMemory, "4Gi")
				s.podWith("etl", corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("3Gi")})
			},
			reason: diagnosis.ReasonQuotaExceeded, words: []string{"pods that use most: etl (3Gi): request less"},
		},
		"the request exceeds a LimitRange": {
			spec: "resources: {requests: {cpu: '4'}, limits: {cpu: '4'}}",
			prepare: func(s *scene) {
				s.limits(corev1.LimitRangeItem{Max: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}})
			},
			reason: diagnosis.ReasonAdmissionDenied, words: []string{`LimitRange "sizes" of the namespace forbids it: maximum cpu usage per Container is 2, but limit is 4`},
		},
		"an admission policy denies the pod": {
			prepare: func(s *scene) { s.Deny(s.t, s.namespace, "pods", "'no pods today'", admissionregistrationv1.Create) },
			reason:  diagnosis.ReasonAdmissionDenied, words: []string{"no pods today"},
		},
		"an admission policy denies the pod with a long text": {
			prepare: func(s *scene) {
				s.Deny(s.t, s.namespace, "pods", "'"+strings.Repeat("no pods today, ", 200)+"nor tomorrow'", admissionregistrationv1.Create)
			},
			reason: diagnosis.ReasonAdmissionDenied, words: []string{"no pods today, no pods today"},
		},
		"the storage class does not exist": {
			spec: impatient + "storage: {size: 1Gi, storageClassName: nowhere}", reason: diagnosis.ReasonProvisioningFailed, words: []string{"nowhere"},
		},
		"the claim waits for a volume": {
			spec: impatient + "storage: {size: 1Gi, storageClassName: ''}", reason: diagnosis.ReasonClaimPending, words: []string{"nb"},
		},
		"the claim does not exist": {
			spec: impatient + "storage: {existingClaim: lost}", reason: diagnosis.ReasonClaimNotFound, words: []string{"lost"},
		},
		"a volume cannot be mounted": {
			happen: func(s *scene, pod *corev1.Pod) {
				s.kubelet.Waiting(s.t, pod, "ContainerCreating", "")
				s.kubelet.Event(s.t, pod, "FailedMount", "", `MountVolume.SetUp failed for volume "extra" : configmap "settings" not found`)
			},
			reason: diagnosis.ReasonFailedMount, words: []string{"settings"},
		},
		"the image does not exist": {
			happen: func(s *scene, pod *corev1.Pod) {
				s.kubelet.Waiting(s.t, pod, "ErrImagePull", `rpc error: code = NotFound desc = failed to pull and unpack image "example.org/nb:nope": failed to resolve reference "example.org/nb:nope": example.org/nb:nope: not found`)
			},
			reason: diagnosis.ReasonErrImagePull, words: []string{"no such image"},
		},
		"the image may not be pulled": {
			happen: func(s *scene, pod *corev1.Pod) {
				s.kubelet.Waiting(s.t, pod, "ImagePullBackOff", `Back-off pulling image "example.org/private:1": ErrImagePull: failed to pull and unpack image "example.org/private:1": pull access denied, repository does not exist or may require authorization: authorization failed: no basic auth credentials`)
			},
			reason: diagnosis.ReasonImagePullBackOff, words: []string{"imagePullSecrets"},
		},
		"a key of a ConfigMap is missing": {
			happen: func(s *scene, pod *corev1.Pod) {
				s.kubelet.Waiting(s.t, pod, "CreateContainerConfigError", "couldn't find key theme in ConfigMap "+pod.Namespace+"/settings")
			},
			reason: diagnosis.ReasonCreateContainerConfigError, words: []string{"theme", "settings"},
		},
		"the server crashes": {
			happen: func(s *scene, pod *corev1.Pod) { s.kubelet.Crashed(s.t, pod, "Error", 3) },
			reason: diagnosis.ReasonCrashLoopBackOff, words: []string{"exit code 3"},
		},
		"the server runs out of memory": {
			happen: func(s *scene, pod *corev1.Pod) { s.kubelet.Crashed(s.t, pod, "OOMKilled", 137) },
			reason: diagnosis.ReasonOOMKilled, words: []string{"memory"},
		},
		"the server fails its liveness probe": {
			happen: func(s *scene, pod *corev1.Pod) {
				s.kubelet.Event(s.t, pod, "Unhealthy", "spec.containers{notebook}", `Liveness probe failed: Get "http://10.0.0.9:8888/api": context deadline exceeded`)
				s.kubelet.Event(s.t, pod, "Killing", "spec.containers{notebook}", "Container notebook failed liveness probe, will be restarted")
				s.kubelet.Crashed(s.t, pod, "Completed", 0)
				s.kubelet.Crashed(s.t, pod, "Error", 143)
			},
			reason: diagnosis.ReasonCrashLoopBackOff, words: []string{"liveness probe failed"},
		},
		"the image is for another architecture": {
			happen: func(s *scene, pod *corev1.Pod) {
				s.kubelet.Waiting(s.t, pod, "RunContainerError", `failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: exec: "/lab": exec format error: unknown`)
			},
			reason: diagnosis.ReasonRunContainerError, words: []string{"CPU architecture"},
		},
		"the node has no network": {
			happen: func(s *scene, pod *corev1.Pod) {
				s.kubelet.Waiting(s.t, pod, "ContainerCreating", "")
				s.kubelet.Event(s.t, pod, "FailedCreatePodSandBox", "", `Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "5a": plugin type="bridge" failed (add): failed to allocate for range 0: no IP addresses available in range set: 10.244.1.1-10.244.1.254`)
			},
			reason: diagnosis.ReasonFailedCreatePodSandBox, words: []string{"no free IP address"},
		},
		"another node has the volume": {
			happen: func(s *scene, pod *corev1.Pod) {
				s.kubelet.Waiting(s.t, pod, "ContainerCreating", "")
				s.kubelet.Event(s.t, pod, "FailedAttachVolume", "", `Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) web-0, web-1`)
			},
			reason: diagnosis.ReasonFailedAttachVolume, words: []string{"web-0, web-1"},
		},
		"a Secret with the credentials does not exist": {
			happen: func(s *scene, pod *corev1.Pod) {
				s.kubelet.Event(s.t, pod, "FailedToRetrieveImagePullSecret", "", "Unable to retrieve some image pull secrets (login); attempting to pull the image may not succeed.")
				s.kubelet.Waiting(s.t, pod, "ErrImagePull", `failed to pull and unpack image "example.org/private:1": pull access denied, repository does not exist or may require authorization`)
			},
			reason: diagnosis.ReasonErrImagePull, words: []string{`the node cannot read the Secret "login" in imagePullSecrets`, "check that it exists in this namespace"},
		},
		"another claim has no volume": {
			spec: impatient + "template: {spec: {volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]}}",
			prepare: func(s *scene) {
				s.make(&corev1.PersistentVolumeClaim{
					ObjectMeta: metav1.ObjectMeta{Name: "data"},
					Spec: corev1.PersistentVolumeClaimSpec{
						StorageClassName: new("nowhere"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
						Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
					},
				})
			},
			reason: diagnosis.ReasonProvisioningFailed, words: []string{"nowhere", "data"},
		},
		"the volume is in another zone": {
			spec:    impatient + "storage: {existingClaim: home}",
			prepare: func(s *scene) { s.ClaimElsewhere(s.t, s.namespace, "home") },
			reason:  diagnosis.ReasonFailedScheduling, words: []string{`claim "home" has volume`, "in zone zone-gone, where the cluster has no node"},
		},
		"an init container does not end": {
			spec:   "progressDeadlineSeconds: 1\ntemplate: {metadata: {annotations: {bongsu-local/simulate: none}}, spec: {initContainers: [{name: fetch, image: 'example.org/fetch:1'}]}}\n",
			happen: func(s *scene, pod *corev1.Pod) { s.kubelet.Initializing(s.t, pod) },
			reason: diagnosis.ReasonPodInitializing, words: []string{`init container "fetch" has been running since`},
		},
		"finalizers hold the pod": {
			happen: func(s *scene, pod *corev1.Pod) {
				s.kubelet.Running(s.t, pod, false)
				s.hold(pod)
				s.g.Expect(s.Client.Delete(s.t.Context(), pod.DeepCopy(), client.GracePeriodSeconds(1))).To(Succeed())
			},
			reason: diagnosis.ReasonFinalizersRemaining, words: []string{"example.org/hold", "check that the controller that removes them runs"},
		},
		"the existing claim has lost its volume": {
			spec:    "storage: {existingClaim: data}",
			prepare: func(s *scene) { headlines.LostClaim(s.t, s.Client, s.namespace) },
			reason:  diagnosis.ReasonClaimLost, words: []string{`the volume of claim "data" no longer exists`},
		},
		"a probe fails": {
			spec: "progressDeadlineSeconds: 1\n",
			happen: func(s *scene, pod *corev1.Pod) {
				s.kubelet.Running(s.t, pod, false)
				s.kubelet.Event(s.t, pod, "Unhealthy", "spec.containers{notebook}", `Readiness probe failed: Get "http://10.0.0.9:8888/api": context deadline exceeded`)
			},
			reason: diagnosis.ReasonUnhealthy, words: []string{"readiness probe"},
		},
		"a readiness gate is not true": {
			spec:   "progressDeadlineSeconds: 1\ntemplate: {metadata: {annotations: {bongsu-local/simulate: none}}, spec: {readinessGates: [{conditionType: target-health.example.com/web}]}}\n",
			happen: func(s *scene, pod *corev1.Pod) { s.kubelet.Running(s.t, pod, true) },
			reason: diagnosis.ReasonReadinessGatesNotReady, words: []string{"target-health.example.com/web"},
		},
		"the template breaks the rules": {
			spec: "template: {spec: {hostNetwork: true}}", reason: diagnosis.ReasonInvalidSpec, words: []string{"spec.template.spec.hostNetwork"},
		},
		"the name is taken": {
			prepare: func(s *scene) {
				s.make(&corev1.Service{
					ObjectMeta: metav1.ObjectMeta{Name: "nb"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
				})
			},
			reason: diagnosis.ReasonResourceConflict, words: []string{"Service nb"},
		},
		"the token's Secret does not exist": {
			spec: "auth: {tokenSecretRef: {name: mine, key: token}}", reason: v1alpha1.ReasonSecretNotFound, words: []string{"mine"},
		},
		"the token is empty": {
			spec: "auth: {tokenSecretRef: {name: mine, key: token}}",
			prepare: func(s *scene) {
				s.make(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Data: map[string][]byte{"token": nil}})
			},
			reason: v1alpha1.ReasonInvalidSecret, words: []string{"mine"},
		},
		"nothing says why": {
			spec:   "progressDeadlineSeconds: 1\n",
			happen: func(s *scene, pod *corev1.Pod) { s.kubelet.Running(s.t, pod, false) },
			reason: diagnosis.ReasonProgressDeadlineExceeded,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			describe := s.describer()
			if tc.prepare != nil {
				tc.prepare(s)
			}
			if tc.happen != nil && !strings.Contains(tc.spec, "template:") {
				tc.spec += byHand
			}
			s.create(tc.spec)
			if tc.happen != nil {
				tc.happen(s, s.pod())
			}
			s.g.Eventually(describe).WithPolling(patience / 60).WithTimeout(patience).Should(describesFailure(tc.reason, tc.words...))
			s.g.Expect(s.now().Status.LastFailure).To(HaveField("Reason", tc.reason))
		})
	}
}

func (s *scene) taintedNode() {
	s.t.Helper()
	err := s.Client.Create(s.t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "tainted", Labels: map[string]string{corev1.LabelHostname: "tainted", corev1.LabelTopologyZone: "local-a"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "only", Value: "others", Effect: corev1.TaintEffectNoSchedule}}},
	})
	s.g.Expect(err).NotTo(HaveOccurred())
}

// The user does not find this limit in the Jupyter.
func TestALimitThatALimitRangeSetsIsExplained(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.limits(corev1.LimitRangeItem{Default: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}})
	s.create("resources: {requests: {cpu: '4'}}")
	const want = `must be less than or equal to cpu limit of 2; this is the limit that LimitRange "sizes" sets if a container has none: set a limit of cpu, or request less`
	s.g.Eventually(s.describer()).WithTimeout(patience).Should(WithTransform(oneLine, And(
		ContainSubstring("Message: the pod cannot be created: "), ContainSubstring("Warning FailedToCreatePod"), ContainSubstring(want))))
}

// podWith creates a pod of another owner in the namespace.
func (s *scene) podWith(name string, requests corev1.ResourceList) {
	s.t.Helper()
	s.make(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.org/etl:1", Resources: corev1.ResourceRequirements{Requests: requests}}}},
	})
}

// limits creates a LimitRange for the containers of the namespace, which is in force at once.
func (s *scene) limits(item corev1.LimitRangeItem) {
	s.t.Helper()
	item.Type = corev1.LimitTypeContainer
	s.make(&corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "sizes"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{item}}})
}

// quota bounds the namespace, and returns when it is in force.
func (s *scene) quota(name string, of corev1.ResourceName, amount string) {
	s.t.Helper()
	s.make(&corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{of: resource.MustParse(amount)}},
	})
	s.g.Eventually(func() (corev1.ResourceList, error) {
		var quota corev1.ResourceQuota
		err := s.Client.Get(s.t.Context(), keyOf(s.namespace, name), &quota)
		return quota.Status.Hard, err
	}).ShouldNot(BeEmpty())
}

// The states of pods are those that other kinds share.
func TestTheOwnerOfANotebookReadsWhyItsPodDoesNotRun(t *testing.T) {
	rows := headlines.Rows()
	rows["the node does not end the pod"] = headlines.Row{ // it counts as stuck a minute after its grace period
		Node: &headlines.Node{},
		Happen: func(t testing.TB, k kubelet.Kubelet, pod *corev1.Pod) {
			k.Running(t, pod, false)
			if err := k.Client.Delete(t.Context(), pod.DeepCopy(), client.GracePeriodSeconds(1)); err != nil {
				t.Fatal(err)
			}
		},
		Sentence: headlines.Sentence{
			Reason: diagnosis.ReasonTerminating,
			Says: `the pod is still being deleted: node "NODE" has not confirmed that its containers ended and its volumes are unmounted: ` +
				`wait; if the problem persists, ask the cluster's administrator`,
		},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			j := s.create(impatient + "template: " + row.Setup(t, s.Cluster, s.namespace, v1alpha1.NotebookContainer))
			row.Check(t, headlines.Subject{
				Cluster: s.Cluster, Object: j, Controller: "jupyter-controller", Container: v1alpha1.NotebookContainer,
				EventReasons: map[string]string{diagnosis.ReasonFailedCreate: "FailedToCreatePod"},
				Pod:          s.pod, Describe: s.describer(),
				Touch: func() {
					s.change(func(j *v1alpha1.Jupyter) { *j.Spec.SchedulingGracePeriodSeconds++ })
				},
			})
		})
	}
}
