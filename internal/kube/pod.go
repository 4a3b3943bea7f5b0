package kube

import corev1 "k8s.io/api/core/v1"

// IsPodReady tells whether a pod takes requests: one that is being deleted does not,
// nor does one that is not there (nil).
func IsPodReady(pod *corev1.Pod) bool {
	if pod == nil || !pod.DeletionTimestamp.IsZero() {
		return false
	}
	c := PodCondition(pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// PodCondition returns the pod's condition of a type; nil if it has none.
func PodCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
