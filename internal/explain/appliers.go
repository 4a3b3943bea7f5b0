package explain

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// appliersOf returns the Kustomizations and Applications that should create a Secret or ConfigMap of this name, or
// what makes it, as they list it: kustomize.toolkit.fluxcd.io/v1, ResourceInventory, and
// argoproj.io/v1alpha1, ResourceStatus.
func (q *inquiry) appliersOf(namespace, name string) []reference {
	creates := func(kind string) bool {
		return kind == kindSecret || kind == kindConfigMap || slices.ContainsFunc(makers, func(m maker) bool { return m.kind.Kind == kind })
	}
	var all []reference
	for _, o := range q.listIn("", kustomization) {
		entries, _, _ := unstructured.NestedSlice(contentOf(o), "status", "inventory", "entries")
		for _, entry := range entries {
			if r, ok := fromInventory(entry); ok && r.namespace == namespace && r.name == name && creates(r.kind.Kind) {
				all = append(all, newReference(kustomization, o.GetNamespace(), o.GetName(), ", which applies it,"))
			}
		}
	}
	for _, o := range q.listIn("", application) {
		resources, _, _ := unstructured.NestedSlice(contentOf(o), "status", "resources")
		for _, resource := range resources {
			fields, _ := resource.(map[string]any)
			kind, _ := fields["kind"].(string)
			if fields["namespace"] == namespace && fields["name"] == name && creates(kind) {
				all = append(all, newReference(application, o.GetNamespace(), o.GetName(), ", which applies it,"))
			}
		}
	}
	return all[:min(len(all), maxReferences)]
}
