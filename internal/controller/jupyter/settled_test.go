package jupyter_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/kstatus"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// settled is longer than the retry interval of a recent failure. The test waits for real
// time.
const settled = 12 * time.Second

// A lasting failure causes one Event and no further writes.
func TestALastingFailureIsReportedOnce(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spec    string
		prepare func(*scene)
		reason  string
	}{
		"a quota without room": {
			prepare: func(s *scene) { s.quota("none", corev1.ResourcePods, "0") },
			reason:  diagnosis.ReasonQuotaExceeded,
		},
		"a pod of another owner with its name": {
			prepare: func(s *scene) {
				s.make(&corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Name: "nb-0"},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "image"}}},
				})
			},
			reason: diagnosis.ReasonResourceConflict,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			if tc.prepare != nil {
				tc.prepare(s)
			}
			s.create(tc.spec)
			s.await(v1alpha1.ConditionStalled, metav1.ConditionTrue, tc.reason)
			s.g.Eventually(s.warnings).Should(Equal(map[string]int{tc.reason: 1}))
			version := s.now().ResourceVersion
			s.g.Consistently(func() string { return s.now().ResourceVersion }).WithTimeout(settled).Should(Equal(version))
			s.g.Expect(s.warnings()).To(Equal(map[string]int{tc.reason: 1}))
		})
	}
}

func TestASuspendedNotebookReportsItsProblemsWhenItIsResumed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spec    string
		prepare func(*scene)
		reason  string
	}{
		"a refused template": {
			spec: "{suspend: true, template: {spec: {hostNetwork: true}}}", reason: diagnosis.ReasonInvalidSpec,
		},
		"a name that is taken": {
			spec: "{suspend: true}", reason: diagnosis.ReasonResourceConflict,
			prepare: func(s *scene) {
				s.make(&corev1.Service{
					ObjectMeta: metav1.ObjectMeta{Name: "nb"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
				})
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			if tc.prepare != nil {
				tc.prepare(s)
			}
			s.create(tc.spec)
			s.ExpectSuspended(t, s.now(), v1alpha1.StateSuspended)
			version := s.now().ResourceVersion
			s.g.Consistently(func() string { return s.now().ResourceVersion }).WithTimeout(settled).Should(Equal(version))
			s.g.Expect(s.events()).To(BeEmpty())
			s.change(func(j *v1alpha1.Jupyter) { j.Spec.Suspend = false })
			s.await(v1alpha1.ConditionStalled, metav1.ConditionTrue, tc.reason)
			s.g.Eventually(s.warnings).Should(Equal(map[string]int{tc.reason: 1}))
			s.g.Expect(kstatus.Compute(t, s.now())).To(BeEquivalentTo("Failed"))
		})
	}
}

// Nearly every start has a probe that fails first: it says nothing of the end.
func TestAPodThatIsRemovedIsNoFailure(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create(byHand)
	first := s.pod()
	s.kubelet.Running(t, first, false)
	s.kubelet.Event(t, first, "Unhealthy", "spec.containers{notebook}", `Startup probe failed: Get "http://10.0.0.9:8888/api": dial tcp 10.0.0.9:8888: connect: connection refused`)
	s.kubelet.Running(t, first, true)
	s.awaitReady()
	release := s.hold(first)
	s.g.Expect(s.Client.Delete(t.Context(), first.DeepCopy())).To(Succeed())
	var ending *v1alpha1.Jupyter
	s.g.Eventually(func() metav1.ConditionStatus {
		ending = s.now()
		return conditionOf(ending, v1alpha1.ConditionReady).Status
	}).Should(Equal(metav1.ConditionFalse))
	s.g.Expect(conditionOf(ending, v1alpha1.ConditionReady).Reason).To(Equal(v1alpha1.ReasonStarting))
	release()
	// KWOK deletes pods by name only, so it can delete the next one too.
	s.g.Eventually(func() metav1.ConditionStatus {
		if next := s.pod(); next.UID != first.UID {
			s.kubelet.Running(t, next, true)
		}
		return conditionOf(s.now(), v1alpha1.ConditionReady).Status
	}).Should(Equal(metav1.ConditionTrue))
	s.g.Expect(s.warnings()).To(BeEmpty())
}

// hold keeps the pod, when it is deleted, from being gone before anyone has looked at
// it, until it is released.
func (s *scene) hold(pod *corev1.Pod) (release func()) {
	s.t.Helper()
	set := func(finalizers string) {
		patch := []byte(`{"metadata": {"finalizers": ` + finalizers + `}}`)
		s.g.Expect(s.Client.Patch(s.t.Context(), pod.DeepCopy(), client.RawPatch(types.MergePatchType, patch))).To(Succeed())
	}
	set(`["example.org/hold"]`)
	return func() { set("null") }
}

func TestEventsOfAFormerRunDoNotExplainTheNext(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("image: example.org/nb:nope\n" + byHand)
	pod := s.pod()
	s.kubelet.Event(t, pod, "Failed", "spec.containers{notebook}", `Failed to pull image "example.org/nb:nope": not found`)
	s.kubelet.Waiting(t, pod, "ImagePullBackOff", `Back-off pulling image "example.org/nb:nope"`)
	s.g.Eventually(s.warnings).Should(HaveKey(diagnosis.ReasonImagePullBackOff)) // again if the Event is seen later
	s.change(func(j *v1alpha1.Jupyter) { j.Spec.Suspend = true })
	s.g.Eventually(func() string { return s.now().Status.PodName }).Should(BeEmpty())
	s.await(v1alpha1.ConditionStalled, metav1.ConditionFalse, v1alpha1.ReasonNotStalled)
	before := s.warnings()
	time.Sleep(time.Second) // the API server keeps no fractions
	s.change(func(j *v1alpha1.Jupyter) { j.Spec.Suspend, j.Spec.Image, j.Spec.Template = false, "", nil })
	s.awaitReady()
	s.g.Expect(s.warnings()).To(Equal(before))
}

func TestAClaimWithAWrongClassIsRecreatedWhenItIsDeleted(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create(impatient + "storage: {size: 1Gi, storageClassName: nowhere}")
	s.await(v1alpha1.ConditionReady, metav1.ConditionFalse, diagnosis.ReasonProvisioningFailed)
	s.change(func(j *v1alpha1.Jupyter) { j.Spec.Storage.StorageClassName = nil })
	s.change(func(j *v1alpha1.Jupyter) { j.Spec.Storage.StorageClassName = new("simulated") })
	c := s.await(v1alpha1.ConditionReady, metav1.ConditionFalse, diagnosis.ReasonInvalidSpec)
	s.g.Expect(c.Message).To(ContainSubstring("delete the claim"))
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "nb"}}
	s.g.Expect(s.Client.Delete(t.Context(), claim)).To(Succeed())
	// Its protection waits for the pod that mounts it, which waits for the claim.
	s.g.Eventually(func() error { return s.Client.Delete(t.Context(), s.podNow()) }).Should(Succeed())
	s.awaitReady()
}

// podNow returns the notebook's pod, wherever it is.
func (s *scene) podNow() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "nb-0"}}
}
