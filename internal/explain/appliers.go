package explain

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// appliersOf returns the Kustomizations and Applications that list a Secret or ConfigMap of this name, or what makes
// it. See kustomize.toolkit.fluxcd.io/v1, ResourceInventory, and argoproj.io/v1alpha1, ResourceStatus.
func (q *inquiry) appliersOf(namespace, name string) []reference {
	var all []reference
	for _, o := range q.listIn("", kustomization) {
		if inInventory(o, namespace, name) || failsWith(o, namespace, name) {
			all = append(all, newReference(kustomization, o.GetNamespace(), o.GetName(), ", which applies it,"))
		}
	}
	for _, o := range q.listIn("", application) {
		if inResources(o, namespace, name) {
			all = append(all, newReference(application, o.GetNamespace(), o.GetName(), ", which applies it,"))
		}
	}
	return all[:min(len(all), maxReferences)]
}

// creates reports whether an object of a kind is a Secret or a ConfigMap, or makes one.
func creates(kind string) bool {
	return kind == kindSecret || kind == kindConfigMap || slices.ContainsFunc(makers, func(m maker) bool { return m.kind.Kind == kind })
}

// inInventory reports whether a Kustomization has applied the object.
func inInventory(o client.Object, namespace, name string) bool {
	entries, _, _ := unstructured.NestedSlice(contentOf(o), "status", "inventory", "entries")
	return slices.ContainsFunc(entries, func(entry any) bool {
		r, ok := fromInventory(entry)
		return ok && r.namespace == namespace && r.name == name && creates(r.kind.Kind)
	})
}

// failsWith reports whether a Kustomization says that it cannot apply the object.
func failsWith(o client.Object, namespace, name string) bool {
	return slices.ContainsFunc(conditionsOf(&unstructured.Unstructured{Object: contentOf(o)}), func(c metav1.Condition) bool {
		return isBad(c) && slices.ContainsFunc([]string{kindSecret, kindConfigMap}, func(kind string) bool {
			return strings.Contains(c.Message+" ", kind+"/"+namespace+"/"+name+" ")
		})
	})
}

// inResources reports whether an Application contains the object.
func inResources(o client.Object, namespace, name string) bool {
	resources, _, _ := unstructured.NestedSlice(contentOf(o), "status", "resources")
	return slices.ContainsFunc(resources, func(resource any) bool {
		fields, _ := resource.(map[string]any)
		kind, _ := fields["kind"].(string)
		return fields["namespace"] == namespace && fields["name"] == name && creates(kind)
	})
}
