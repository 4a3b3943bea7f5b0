package jupyter_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// The storage driver of these tests resizes nothing by itself.
func TestAClaimThatDoesNotGrowIsReportedWhileTheNotebookRuns(t *testing.T) {
	t.Parallel()
	const refusal = `rpc error: code = OutOfRange desc = the largest volume has 1Gi`
	for name, fail := range map[string]func(*scene, *corev1.PersistentVolumeClaim){
		"by a condition of the claim": func(s *scene, claim *corev1.PersistentVolumeClaim) {
			claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{
				Type: corev1.PersistentVolumeClaimControllerResizeError, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(), Message: refusal,
			}}
			s.g.Expect(s.Client.Status().Update(s.t.Context(), claim)).To(Succeed())
		},
		"by an Event, as before Kubernetes 1.32": func(s *scene, claim *corev1.PersistentVolumeClaim) {
			s.make(&corev1.Event{
				ObjectMeta:     metav1.ObjectMeta{GenerateName: "nb."},
				InvolvedObject: corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: s.namespace, Name: claim.Name, UID: claim.UID, APIVersion: "v1"},
				Reason:         diagnosis.ReasonVolumeResizeFailed, Message: `resize volume "pvc-1" by resizer "csi.example.com" failed: ` + refusal,
				Type: corev1.EventTypeWarning, FirstTimestamp: metav1.Now(), LastTimestamp: metav1.Now(), Count: 1,
				Source: corev1.EventSource{Component: "external-resizer csi.example.com"},
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.growingVolume()
			s.create("storage: {size: 1Gi, storageClassName: " + s.namespace + "}")
			s.awaitReady()
			s.change(func(j *v1alpha1.Jupyter) { j.Spec.Storage.Size = new(resource.MustParse("2Gi")) })
			s.g.Eventually(func() string { return s.condition(v1alpha1.ConditionStorageReady).Message }).WithTimeout(patience).
				Should(Equal("claim nb is bound, and is not yet resized from 1Gi to 2Gi"))

			claim := &corev1.PersistentVolumeClaim{}
			s.g.Expect(s.Client.Get(t.Context(), keyOf(s.namespace, "nb"), claim)).To(Succeed())
			fail(s, claim)
			s.g.Eventually(s.describer()).WithTimeout(patience).
				Should(describesFailure(diagnosis.ReasonVolumeResizeFailed, `claim "nb" cannot be resized from 1Gi to 2Gi: the storage backend does not support this size: the largest volume has 1Gi`))
			s.g.Expect(s.condition(v1alpha1.ConditionStorageReady)).To(And(HaveField("Status", metav1.ConditionFalse), HaveField("Reason", diagnosis.ReasonVolumeResizeFailed)))
			s.g.Expect(s.condition(v1alpha1.ConditionReady).Status).To(Equal(metav1.ConditionTrue), "it runs")
			s.g.Expect(s.now().Status.State).To(Equal(v1alpha1.StateDegraded))

			s.g.Expect(s.Client.Get(t.Context(), keyOf(s.namespace, "nb"), claim)).To(Succeed())
			claim.Status.Capacity, claim.Status.Conditions = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}, nil
			s.g.Expect(s.Client.Status().Update(t.Context(), claim)).To(Succeed())
			s.await(v1alpha1.ConditionStalled, metav1.ConditionFalse, v1alpha1.ReasonNotStalled)
			s.await(v1alpha1.ConditionStorageReady, metav1.ConditionTrue, v1alpha1.ReasonBound)
			s.g.Expect(s.warnings()).To(Equal(map[string]int{diagnosis.ReasonVolumeResizeFailed: 1}))
		})
	}
}

// growingVolume creates a volume of 1Gi for the claim of the notebook, and a class with the name of the
// namespace whose volumes can grow.
func (s *scene) growingVolume() {
	s.t.Helper()
	s.make(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}, Provisioner: "csi.example.com", AllowVolumeExpansion: new(true)})
	s.make(&corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace + "-nb"},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: s.namespace, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			ClaimRef:               &corev1.ObjectReference{Namespace: s.namespace, Name: "nb"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/simulated"}},
		},
	})
}
