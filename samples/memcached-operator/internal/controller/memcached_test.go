package controller

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cachev1alpha1 "github.com/bongsu-io/bongsu/samples/memcached-operator/api/v1alpha1"
)

// notes returns the notes of an object's Events with a reason.
func notes(t *testing.T, object client.Object, reason string) func() ([]string, error) {
	return func() (notes []string, err error) {
		list := &eventsv1.EventList{}
		err = k8sClient.List(t.Context(), list, client.InNamespace(object.GetNamespace()))
		for _, e := range list.Items {
			if e.Regarding.UID == object.GetUID() && e.Reason == reason {
				notes = append(notes, e.Note)
			}
		}
		return notes, err
	}
}

// podsOf returns the pods in the namespace of an object.
func podsOf(t *testing.T, g *WithT, object client.Object) []corev1.Pod {
	pods := &corev1.PodList{}
	g.Expect(k8sClient.List(t.Context(), pods, client.InNamespace(object.GetNamespace()))).To(Succeed())
	return pods.Items
}

func TestMemcachedReportsEachPodOnce(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(time.Minute)
	stop := runMemcached(t)
	object := newMemcached(t, g)
	pods := podsOf(t, g, object)
	g.Expect(pods).To(HaveLen(2))
	nodes := func() ([]string, error) {
		err := k8sClient.Get(t.Context(), client.ObjectKeyFromObject(object), object)
		return object.Status.Nodes, err
	}
	g.Eventually(nodes).Should(ConsistOf(pods[0].Name, pods[1].Name))
	created := ConsistOf("created pod "+pods[0].Name, "created pod "+pods[1].Name)
	g.Expect(notes(t, object, "CreatedPod")()).To(created)

	stop()
	g.Eventually(time.Now).Should(BeTemporally(">", time.Now().Add(time.Second)), "Events know whole seconds")
	object.Status.Nodes = nil // as if the operator was killed before it wrote the status
	g.Expect(k8sClient.Status().Update(t.Context(), object)).To(Succeed())
	runMemcached(t)
	g.Eventually(nodes).Should(HaveLen(2))
	g.Expect(notes(t, object, "CreatedPod")()).To(created, "a restart repeats no Event")
}

// change changes the spec of an object.
func change(t *testing.T, g *WithT, object *cachev1alpha1.Memcached, edit func()) {
	before := client.MergeFrom(object.DeepCopy())
	edit()
	g.Expect(k8sClient.Patch(t.Context(), object, before)).To(Succeed())
}

func TestMemcachedCanUseMoreMemoryThanItsItemsNeed(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(time.Minute)
	runMemcached(t)
	object := newMemcached(t, g)
	container := func() (corev1.Container, error) {
		deployment := &appsv1.Deployment{}
		err := k8sClient.Get(t.Context(), client.ObjectKeyFromObject(object), deployment)
		return deployment.Spec.Template.Spec.Containers[0], err
	}
	g.Expect(container()).To(HaveField("Command", []string{"memcached", "-m", "64"}))
	change(t, g, object, func() { object.Spec.MemoryMegabytes = 100 })
	g.Eventually(container).Should(HaveField("Command", []string{"memcached", "-m", "100"}))
	limit, err := container()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(limit.Resources.Limits.Memory().String()).To(Equal("157Mi"))
}

func TestMemcachedWithoutAClaimIsDeletedWithoutABackup(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(time.Minute)
	runMemcached(t)
	object := newMemcached(t, g)
	g.Expect(k8sClient.Delete(t.Context(), object)).To(Succeed())
	g.Eventually(func() bool {
		return apierrors.IsNotFound(k8sClient.Get(t.Context(), client.ObjectKeyFromObject(object), object))
	}).WithTimeout(20*time.Second).Should(BeTrue(), "before a third attempt of a backup")
	jobs := &batchv1.JobList{}
	g.Expect(k8sClient.List(t.Context(), jobs, client.InNamespace(object.Namespace))).To(Succeed())
	g.Expect(jobs.Items).To(BeEmpty())
}

// Without a server, a Job could only make an empty file, which would pass for a backup.
func TestMemcachedWithoutAServerIsNotBackedUp(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(time.Minute)
	runMemcached(t)
	object := newMemcached(t, g)
	newClaim(t, g, object.Namespace)
	change(t, g, object, func() { object.Spec.BackupClaim, object.Spec.Size = claimOfBackups, new(int32(0)) })
	g.Eventually(func() []corev1.Pod { return podsOf(t, g, object) }).Should(BeEmpty())
	g.Expect(k8sClient.Delete(t.Context(), object)).To(Succeed())
	g.Eventually(notes(t, object, "BackupFailed")).Should(ConsistOf(ContainSubstring("no memcached server runs, so no items can be saved")))
	jobs := &batchv1.JobList{}
	g.Expect(k8sClient.List(t.Context(), jobs, client.InNamespace(object.Namespace))).To(Succeed())
	g.Expect(jobs.Items).To(BeEmpty())
}

// claimOfBackups is the name of the claim in which a backup is stored.
const claimOfBackups = "backups"

// newClaim creates the claim with a volume.
func newClaim(t *testing.T, g *WithT, namespace string) {
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Spec: corev1.PersistentVolumeSpec{
		Capacity: size, AccessModes: modes,
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/backups"}},
	}}
	g.Expect(k8sClient.Create(t.Context(), volume)).To(Succeed())
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: claimOfBackups}, Spec: corev1.PersistentVolumeClaimSpec{
		VolumeName: volume.Name, StorageClassName: new(""), AccessModes: modes,
		Resources: corev1.VolumeResourceRequirements{Requests: size},
	}}
	g.Expect(k8sClient.Create(t.Context(), claim)).To(Succeed())
}
