package workload

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// NotebookStatefulSet is the set of the one pod. A change of the pod reaches it when
// it is next made, not before: that is for the controller to decide (OnDelete).
func NotebookStatefulSet(j *v1alpha1.Jupyter, pod corev1.PodTemplateSpec) *appsv1.StatefulSet {
	replicas := int32(1)
	if j.Spec.Suspend {
		replicas = 0
	}
	return &appsv1.StatefulSet{
		ObjectMeta: childMeta(j, j.Name),
		Spec: appsv1.StatefulSetSpec{
			Replicas:            &replicas,
			ServiceName:         j.Name,
			PodManagementPolicy: appsv1.ParallelPodManagement,
			UpdateStrategy:      appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
			Selector:            &metav1.LabelSelector{MatchLabels: Selector(j)},
			Template:            *pod.DeepCopy(),
		},
	}
}
