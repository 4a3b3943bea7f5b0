package workload

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// Marks of what is made for a Jupyter.
const (
	// LabelManagedBy, LabelName and LabelInstance are Kubernetes' own.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	LabelName      = "app.kubernetes.io/name"
	LabelInstance  = "app.kubernetes.io/instance"
	// ManagedBy and NameJupyter are the values of the first two of Kubernetes' labels.
	ManagedBy   = "bongsu"
	NameJupyter = "jupyter"
)

// Selector is what selects a Jupyter's pods, in the form of a Service: by this label
// alone.
func Selector(j *v1alpha1.Jupyter) map[string]string {
	return map[string]string{v1alpha1.LabelJupyter: j.Name}
}

// Labels are on everything that is made for a Jupyter.
func Labels(j *v1alpha1.Jupyter) map[string]string {
	labels := Selector(j)
	maps.Copy(labels, map[string]string{LabelManagedBy: ManagedBy, LabelName: NameJupyter, LabelInstance: j.Name})
	return labels
}

// childMeta is the metadata of what goes with its Jupyter.
func childMeta(j *v1alpha1.Jupyter, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: j.Namespace, Name: name, Labels: Labels(j),
		OwnerReferences: []metav1.OwnerReference{OwnerReference(j)},
	}
}

// OwnerReference makes an object go with its Jupyter. It holds nobody's deletion up.
func OwnerReference(j *v1alpha1.Jupyter) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.KindJupyter, Name: j.Name, UID: j.UID,
		Controller: new(true), BlockOwnerDeletion: new(false),
	}
}
