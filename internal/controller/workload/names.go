package workload

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// Labels of children.
const (
	// LabelManagedBy, LabelName and LabelInstance are recommended by Kubernetes.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	LabelName      = "app.kubernetes.io/name"
	LabelInstance  = "app.kubernetes.io/instance"
	// ManagedBy is the value of LabelManagedBy.
	ManagedBy = "bongsu"
)

// family is a kind with children, and their labels.
type family struct{ kind, label, name string }

var (
	notebooks = family{v1alpha1.KindJupyter, v1alpha1.LabelJupyter, "jupyter"}
	apps      = family{v1alpha1.KindAppService, v1alpha1.LabelAppService, "appservice"}
)

func familyOf(owner metav1.Object) family {
	if _, isApp := owner.(*v1alpha1.AppService); isApp {
		return apps
	}
	return notebooks
}

// Selector selects the pods of a Jupyter or an AppService by one label.
func Selector(owner metav1.Object) map[string]string {
	return map[string]string{familyOf(owner).label: owner.GetName()}
}

// Labels are on every child of a Jupyter or an AppService.
func Labels(owner metav1.Object) map[string]string {
	labels := Selector(owner)
	maps.Copy(labels, map[string]string{LabelManagedBy: ManagedBy, LabelName: familyOf(owner).name, LabelInstance: owner.GetName()})
	return labels
}

// childMeta is the metadata of a child that is deleted with its owner. The annotation shows
// whose child it is if a user removes the owner reference.
func childMeta(owner metav1.Object, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: owner.GetNamespace(), Name: name, Labels: Labels(owner),
		OwnerReferences: []metav1.OwnerReference{ownerReference(owner)},
		Annotations:     map[string]string{v1alpha1.AnnotationOwnerUID: string(owner.GetUID())},
	}
}

// ownerReference is the reference to the owner. It does not block the owner's deletion.
func ownerReference(owner metav1.Object) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: familyOf(owner).kind, Name: owner.GetName(), UID: owner.GetUID(),
		Controller: new(true), BlockOwnerDeletion: new(false),
	}
}

// ChildName is the name of the owner's child of a kind; empty if the owner has no such child.
func ChildName(owner metav1.Object, kind string) string {
	switch owner := owner.(type) {
	case *v1alpha1.AppService:
		switch kind {
		case "Deployment", "Service", "PodDisruptionBudget":
			return owner.Name
		case "Job":
			return BackupJobName(owner)
		}
	case *v1alpha1.Jupyter:
		switch kind {
		case "StatefulSet", "Service", "Ingress", "PersistentVolumeClaim":
			return owner.Name
		case "Secret":
			return tokenName(owner)
		}
	}
	return ""
}
