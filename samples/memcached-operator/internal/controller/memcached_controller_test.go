package controller

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/pkg/localcluster"

	cachev1alpha1 "github.com/bongsu-io/bongsu/samples/memcached-operator/api/v1alpha1"
)

func runMemcached(t *testing.T) (stop func()) {
	return startManager(t, func(mgr ctrl.Manager) error {
		return (&MemcachedReconciler{Client: mgr.GetClient(), Scheme: mgr.GetScheme()}).SetupWithManager(mgr)
	})
}

// newMemcached creates an object whose namespace is its own, and waits until it is ready.
func newMemcached(t *testing.T, g *WithT) *cachev1alpha1.Memcached {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	g.Expect(k8sClient.Create(t.Context(), namespace)).To(Succeed())
	t.Cleanup(func() { _ = k8sClient.Delete(context.Background(), namespace) }) // the node has room for few pods
	object := &cachev1alpha1.Memcached{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "sample"}}
	object.Spec.Size = new(int32(2))
	g.Expect(k8sClient.Create(t.Context(), object)).To(Succeed())
	g.Eventually(readyMemcached(t, object)).Should(HaveField("Status", metav1.ConditionTrue))
	return object
}

func readyMemcached(t *testing.T, object *cachev1alpha1.Memcached) func() (metav1.Condition, error) {
	return func() (metav1.Condition, error) {
		err := k8sClient.Get(t.Context(), client.ObjectKeyFromObject(object), object)
		ready := meta.FindStatusCondition(object.Status.Conditions, "Ready")
		return ptr.Deref(ready, metav1.Condition{}), err
	}
}

func TestMemcachedRunsADeploymentThatCanBeScaled(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(time.Minute)
	runMemcached(t)
	object := newMemcached(t, g)

	deployment := &appsv1.Deployment{}
	g.Expect(k8sClient.Get(t.Context(), client.ObjectKeyFromObject(object), deployment)).To(Succeed())
	g.Expect(deployment.Spec.Template.Spec.Containers[0].Image).To(Equal("memcached"))

	scale := client.MergeFrom(object.DeepCopy())
	object.Spec.Size = new(int32(3))
	g.Expect(k8sClient.Patch(t.Context(), object, scale)).To(Succeed())
	g.Eventually(func() (int32, error) {
		err := k8sClient.Get(t.Context(), client.ObjectKeyFromObject(object), object)
		return object.Status.Size, err
	}).Should(BeEquivalentTo(3))
	g.Eventually(func() (int, error) {
		err := k8sClient.Get(t.Context(), client.ObjectKeyFromObject(object), object)
		return len(object.Status.Pods), err
	}).Should(Equal(3), "each pod is probed")
}

func TestMemcachedReportsWhyAPodFails(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(time.Minute)
	runMemcached(t)
	object := newMemcached(t, g)

	pods := &corev1.PodList{}
	g.Expect(k8sClient.List(t.Context(), pods, client.InNamespace(object.Namespace))).To(Succeed())
	fail := client.RawPatch("application/merge-patch+json", []byte(`{"metadata": {"annotations": {"`+localcluster.Simulate+`": "`+localcluster.SimulateOOM+`"}}}`))
	g.Expect(k8sClient.Patch(t.Context(), &pods.Items[0], fail)).To(Succeed())

	g.Eventually(readyMemcached(t, object)).Should(HaveField("Reason", "OOMKilled"))
	g.Eventually(func() (int32, error) {
		err := k8sClient.Get(t.Context(), client.ObjectKeyFromObject(&pods.Items[0]), &pods.Items[0])
		return pods.Items[0].Status.ContainerStatuses[0].RestartCount, err
	}).Should(BeNumerically(">=", 2), "it is ready for a moment after each restart")
	g.Expect(warnings(t, object)()).To(Equal([]string{"OOMKilled"}))
}

func TestMemcachedReportsAPodThatIsNeverReady(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(time.Minute)
	runMemcached(t)
	object := newMemcached(t, g)

	pods := &corev1.PodList{}
	g.Expect(k8sClient.List(t.Context(), pods, client.InNamespace(object.Namespace))).To(Succeed())
	pod := &pods.Items[0]
	mine := client.RawPatch("application/merge-patch+json", []byte(`{"metadata": {"annotations": {"`+localcluster.Simulate+`": "`+localcluster.SimulateNone+`"}}}`))
	g.Expect(k8sClient.Patch(t.Context(), pod, mine)).To(Succeed())
	probe := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, FieldPath: "spec.containers{memcached}"},
		Type:           corev1.EventTypeWarning, Reason: "Unhealthy", Message: "Readiness probe failed: HTTP probe failed with statuscode: 503", LastTimestamp: metav1.Now(),
	}
	g.Expect(k8sClient.Create(t.Context(), probe)).To(Succeed())
	before := client.MergeFrom(pod.DeepCopy())
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
			c.Status, c.LastTransitionTime = corev1.ConditionFalse, metav1.NewTime(time.Now().Add(-time.Minute))
		}
	}
	pod.Status.ContainerStatuses[0].Ready = false
	g.Expect(k8sClient.Status().Patch(t.Context(), pod, before)).To(Succeed())

	g.Eventually(readyMemcached(t, object)).Should(HaveField("Message", ContainSubstring("its readiness probe returns HTTP status 503")))
	g.Eventually(warnings(t, object)).Should(Equal([]string{"Unhealthy"}))
}

func TestMemcachedReportsAFailureOnce(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(time.Minute)
	stop := runMemcached(t)
	object := newMemcached(t, g)

	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: "none"}}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	g.Expect(k8sClient.Create(t.Context(), quota)).To(Succeed())
	scale := client.MergeFrom(object.DeepCopy())
	object.Spec.Size = new(int32(3))
	g.Expect(k8sClient.Patch(t.Context(), object, scale)).To(Succeed())
	g.Eventually(warnings(t, object)).Should(Equal([]string{"FailedToCreatePod"}))
	g.Expect(notes(t, object, "FailedToCreatePod")()).To(ConsistOf(ContainSubstring(`"none" is exceeded`)))
	g.Expect(readyMemcached(t, object)()).To(HaveField("Reason", "QuotaExceeded"))

	stop()
	g.Eventually(time.Now).Should(BeTemporally(">", time.Now().Add(time.Second)), "Events know whole seconds")
	runMemcached(t)
	newMemcached(t, g) // now the other object was reconciled too
	g.Expect(warnings(t, object)()).To(Equal([]string{"FailedToCreatePod"}), "a restart repeats no Event")
}

func TestMemcachedReportsOneFailureAndOneRecovery(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(time.Minute)
	stop := runMemcached(t)
	object := newMemcached(t, g)
	normal := reasons(t, object, corev1.EventTypeNormal)
	g.Expect(normal()).To(Equal([]string{"CreatedPod", "CreatedPod"}))

	simulate := func(fault string) {
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name}}
		patch := `{"spec": {"template": {"metadata": {"annotations": {"` + localcluster.Simulate + `": ` + fault + `}}}}}`
		g.Expect(k8sClient.Patch(t.Context(), deployment, client.RawPatch("application/merge-patch+json", []byte(patch)))).To(Succeed())
	}
	simulate(`"` + localcluster.SimulateImagePull + `"`)
	g.Eventually(readyMemcached(t, object)).Should(HaveField("Reason", "ImagePullBackOff"), "after ErrImagePull")
	simulate("null")
	g.Eventually(normal).Should(ContainElement("Recovered"))

	stop()
	runMemcached(t)
	newMemcached(t, g) // now the other object was reconciled too
	g.Expect(warnings(t, object)()).To(Equal([]string{"ImagePullBackOff"}))
	g.Expect(normal()).To(ConsistOf("CreatedPod", "CreatedPod", "CreatedPod", "Recovered"))
}

func TestMemcachedIsBackedUpBeforeItIsDeleted(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(time.Minute)
	runMemcached(t)
	object := newMemcached(t, g)
	pods := podsOf(t, g, object)
	change(t, g, object, func() { object.Spec.BackupClaim = claimOfBackups })

	g.Expect(k8sClient.Delete(t.Context(), object, client.PropagationPolicy(metav1.DeletePropagationForeground))).To(Succeed())
	g.Eventually(notes(t, object, "BackupPending")).Should(ConsistOf(ContainSubstring(`claim "backups" that the pod mounts does not exist`)))
	g.Eventually(readyMemcached(t, object)).Should(HaveField("Reason", "Deleting"))
	deployment := &appsv1.Deployment{}
	g.Expect(k8sClient.Get(t.Context(), client.ObjectKeyFromObject(object), deployment)).To(Succeed())
	g.Expect(deployment.DeletionTimestamp).To(BeNil(), "the pods run until the backup has ended")
	newClaim(t, g, object.Namespace)
	jobs := &batchv1.JobList{}
	g.Eventually(func() ([]batchv1.Job, error) {
		err := k8sClient.List(t.Context(), jobs, client.InNamespace(object.Namespace))
		return jobs.Items, err
	}).Should(ConsistOf(HaveField("Status.Succeeded", BeEquivalentTo(1))))
	change(t, g, object, func() { object.Annotations = map[string]string{"example.com/reconcile": "now"} }) // and not in ten seconds
	g.Eventually(func() bool {
		return apierrors.IsNotFound(k8sClient.Get(t.Context(), client.ObjectKeyFromObject(object), object))
	}).Should(BeTrue())
	g.Expect(apierrors.IsNotFound(k8sClient.Get(t.Context(), client.ObjectKeyFromObject(object), deployment))).To(BeTrue())
	pod := jobs.Items[0].Spec.Template.Spec
	g.Expect(pod.Volumes).To(ConsistOf(HaveField("PersistentVolumeClaim.ClaimName", object.Spec.BackupClaim)))
	g.Expect(pod.Containers[0].VolumeMounts).To(ConsistOf(HaveField("MountPath", "/backup")))
	file := "/backup/sample-" + string(object.UID)
	g.Expect(pod.Containers[0].Command[4:]).To(ConsistOf(file, pods[0].Status.PodIP+"/11211", pods[1].Status.PodIP+"/11211"))
}
