package jupyter_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
	t.Parallel()
	for name, tc := range map[string]struct {
		spec    string
		prepare func(*scene)
		// happen is what befalls the pod; nil if it needs none.
		happen func(*scene, *corev1.Pod)
		reason string
		words  []string
	}{
		"the quota has no room for the claim": {
			spec:    "storage: {size: 10Gi}",
			prepare: func(s *scene) { s.quota("small", corev1.ResourceRequestsStorage, "1Gi") },
			reason:  diagnosis.ReasonQuotaExceeded, words: []string{"small"},
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

// quota bounds the namespace, and returns when it is in force.
func (s *scene) quota(name string, of corev1.ResourceName, amount string) {
	s.t.Helper()
	headlines.Quota(s.t, s.Client, s.namespace, name, of, amount)
}

// The states of pods are those that other kinds share.
func TestTheOwnerOfANotebookReadsWhyItsPodDoesNotRun(t *testing.T) {
	t.Parallel()
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

// The scheduler's Event about a preemption can come after the pod has ended.
func TestAPreemptionIsReportedOnceAlthoughItsPodTakesTimeToEnd(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create(byHand)
	pod := s.pod()
	s.kubelet.Running(t, pod, true)
	s.awaitReady()
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler,
		LastTransitionTime: metav1.NewTime(time.Now().Add(-10 * time.Second)),
	})
	s.g.Expect(s.Client.Status().Update(t.Context(), pod)).To(Succeed())
	s.g.Expect(s.Client.Delete(t.Context(), pod)).To(Succeed())
	s.await(v1alpha1.ConditionStalled, metav1.ConditionTrue, diagnosis.ReasonPreempted)
	s.kubelet.Event(t, pod, "Preempted", "", "Preempted by pod 9d2f on node a")
	s.kubelet.Deleted(t, pod)
	s.g.Eventually(func() types.UID { return s.pod().UID }).WithTimeout(patience).ShouldNot(Equal(pod.UID))
	s.kubelet.Running(t, s.pod(), true)
	s.awaitReady()
	s.g.Expect(s.warnings()).To(Equal(map[string]int{diagnosis.ReasonPreempted: 1}))
}
