package appservice_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/headlines"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// The states of pods are those that other kinds share.
func TestTheOwnerOfAnAppReadsWhyItsPodDoesNotRun(t *testing.T) {
	t.Parallel()
	for name, row := range headlines.Rows() {
		t.Run(name, func(t *testing.T) {
			if row.Happen != nil {
				t.Parallel()
			}
			s := newScene(t)
			s.create("size: 1\ntemplate: " + row.Setup(t, s.Cluster, s.namespace, v1alpha1.AppContainer))
			if row.Happen == nil {
				t.Parallel() // apps that wait for the scheduler all wait at the same time
			}
			a := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web"}}
			touches := int32(0)
			row.Check(t, headlines.Subject{
				Cluster: s.Cluster, Object: a, Controller: "appservice-controller", Container: v1alpha1.AppContainer,
				Pod: s.runnablePod, Describe: s.describer(),
				Touch: func() {
					touches++
					s.change(func(a *v1alpha1.AppService) {
						a.Spec.DisruptionBudget = &v1alpha1.DisruptionBudget{MaxUnavailable: new(intstr.FromInt32(touches))}
					})
				},
			})
		})
	}
}

// runnablePod waits until the app has one pod that has not ended, with a node.
func (s *scene) runnablePod() *corev1.Pod {
	s.t.Helper()
	var pod *corev1.Pod
	s.g.Eventually(func() bool {
		pod = nil
		for _, p := range s.pods("web") {
			if p.Spec.NodeName != "" && p.Status.Phase != corev1.PodFailed {
				pod = p
			}
		}
		return pod != nil
	}).WithTimeout(patience).Should(BeTrue())
	return pod
}

// A pod without a grace period is gone before a reconcile can see that it was preempted.
func TestAPodThatWasPreemptedAndIsGoneIsReported(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("size: 1\n" + byHand)
	pod := s.runnablePod()
	s.kubelet.Running(t, pod, true)
	s.awaitReady()
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler, LastTransitionTime: metav1.Now(),
	})
	s.g.Expect(s.Client.Status().Update(t.Context(), pod)).To(Succeed())
	s.g.Expect(s.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0))).To(Succeed())
	next := s.runnablePod()
	s.kubelet.Running(t, next, true)
	s.awaitReady()
	s.g.Eventually(s.eventCount(diagnosis.ReasonPreempted)).WithTimeout(patience).Should(Equal(1))
	s.g.Eventually(s.now).WithTimeout(patience).Should(HaveField("Status.LastFailure", HaveValue(HaveField("Reason", diagnosis.ReasonPreempted))), "the Event comes first")
}

// A ReplicaSet keeps pods that have ended.
func TestAnEvictedPodThatWasReplacedNoLongerCounts(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("size: 1\nminReadySeconds: 300\n" + byHand)
	evicted := s.runnablePod()
	s.kubelet.Failed(t, evicted, "Evicted", "The node was low on resource: inodes. ")
	next := s.runnablePod()
	s.g.Expect(next.UID).NotTo(Equal(evicted.UID))
	s.kubelet.Running(t, next, true)
	s.g.Eventually(func() string { return conditionOf(s.now(), v1alpha1.ConditionReady).Message }).WithTimeout(patience).
		Should(Equal("1 of 1 pods are ready, 0 of them for 300 s"))
	s.await(v1alpha1.ConditionStalled, metav1.ConditionFalse, v1alpha1.ReasonNotStalled)
	s.g.Expect(s.now().Status.State).To(Equal(v1alpha1.StateStarting))
	s.g.Eventually(s.eventCount(diagnosis.ReasonEvicted)).WithTimeout(patience).Should(Equal(1))
	s.g.Eventually(s.now).WithTimeout(patience).Should(HaveField("Status.LastFailure", HaveValue(HaveField("Reason", diagnosis.ReasonEvicted))), "the Event comes first")
	s.g.Expect(s.now().Status.Nodes).To(ConsistOf(next.Name))

	s.change(func(a *v1alpha1.AppService) { a.Spec.Suspend = true })
	s.ExpectSuspended(t, s.now(), v1alpha1.StateSuspended)
	s.g.Expect(s.Client.Get(t.Context(), s.key(evicted.Name), evicted)).To(Succeed(), "the ReplicaSet keeps it")
}
