package kube

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TrimPod is the cache's transform for Pods: it keeps what tells whether and why a
// pod does not run, which is its status, whose it is, and a little of its spec.
func TrimPod(o any) (any, error) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil // a tombstone
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp,
			Labels: pod.Labels, OwnerReferences: pod.OwnerReferences,
		},
		Spec: corev1.PodSpec{
			NodeName:       pod.Spec.NodeName,
			RestartPolicy:  pod.Spec.RestartPolicy,
			Overhead:       pod.Spec.Overhead,
			InitContainers: trimContainers(pod.Spec.InitContainers),
			Containers:     trimContainers(pod.Spec.Containers),
			Volumes:        claimsOf(pod.Spec.Volumes),
		},
		Status: pod.Status,
	}, nil
}

// TrimApplied is the cache's transform for what is needed as it is, but for who wrote
// which field and for the copy that kubectl keeps in an annotation.
func TrimApplied(o any) (any, error) {
	object, err := meta.Accessor(o)
	if err != nil {
		return o, nil //nolint:nilerr // a tombstone
	}
	// An object that has been trimmed may be in use: it is not written again.
	if object.GetManagedFields() != nil {
		object.SetManagedFields(nil)
	}
	if _, found := object.GetAnnotations()[corev1.LastAppliedConfigAnnotation]; found { //nolint:staticcheck // deleting is a write, even of what is not there
		delete(object.GetAnnotations(), corev1.LastAppliedConfigAnnotation)
	}
	return o, nil
}

func trimContainers(containers []corev1.Container) []corev1.Container {
	trimmed := make([]corev1.Container, len(containers))
	for i := range containers {
		c := &containers[i]
		trimmed[i] = corev1.Container{Name: c.Name, Image: c.Image, Ports: c.Ports, Resources: c.Resources, RestartPolicy: c.RestartPolicy}
	}
	return trimmed
}

func claimsOf(volumes []corev1.Volume) []corev1.Volume {
	var claims []corev1.Volume
	for i := range volumes {
		source := corev1.VolumeSource{PersistentVolumeClaim: volumes[i].PersistentVolumeClaim}
		if volumes[i].Ephemeral != nil {
			source.Ephemeral = &corev1.EphemeralVolumeSource{} // its claim is named after it
		}
		if source != (corev1.VolumeSource{}) {
			claims = append(claims, corev1.Volume{Name: volumes[i].Name, VolumeSource: source})
		}
	}
	return claims
}
