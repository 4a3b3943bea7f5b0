package explain

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// membersOf returns the objects that an object of a delivery tool has applied, as its status or their
// labels say. Those that cannot be why it has a problem are left out.
func (q *inquiry) membersOf(u *unstructured.Unstructured) []reference {
	all := q.inventoryOf(u)
	all = append(all, q.degradedOf(u)...)
	if u.GroupVersionKind().GroupKind() == helmRelease {
		all = append(all, q.releasedBy(u)...)
	}
	return append(all, q.dependencies(u)...)
}

// problemText is what the target says about itself.
func (q *inquiry) problemText() string {
	text := q.explanation.Summary
	if c := q.explanation.Cause; c != nil {
		text += " " + c.Message
	}
	return text
}

// inventoryOf returns the objects in the inventory of a Kustomization of Flux that the text of its problem
// names: kustomize.toolkit.fluxcd.io/v1, ResourceInventory. An ID is NAMESPACE_NAME_GROUP_KIND.
func (q *inquiry) inventoryOf(u *unstructured.Unstructured) []reference {
	entries, _, _ := unstructured.NestedSlice(u.Object, "status", "inventory", "entries")
	text := q.problemText()
	var all []reference
	for _, entry := range entries {
		fields, _ := entry.(map[string]any)
		id, _ := fields["id"].(string)
		parts := strings.Split(id, "_")
		if len(parts) != 4 || len(all) >= maxReferences {
			continue
		}
		r := reference{schema.GroupKind{Group: parts[2], Kind: parts[3]}, parts[0], parts[1], ", which it applies,"}
		if strings.Contains(text, r.kind.Kind+"/"+r.namespace+"/"+r.name) || r.namespace == "" && strings.Contains(text, r.kind.Kind+"/"+r.name) {
			all = append(all, r)
		}
	}
	return all
}

// degradedOf returns the objects of an Application of Argo CD that are not healthy:
// argoproj.io/v1alpha1, ResourceStatus.
func (q *inquiry) degradedOf(u *unstructured.Unstructured) []reference {
	if u.GroupVersionKind().GroupKind() != (schema.GroupKind{Group: "argoproj.io", Kind: "Application"}) {
		return nil
	}
	resources, _, _ := unstructured.NestedSlice(u.Object, "status", "resources")
	var all []reference
	for _, resource := range resources {
		fields, _ := resource.(map[string]any)
		health, _, _ := unstructured.NestedString(fields, "health", "status")
		if health != "Degraded" && health != "Progressing" || len(all) >= maxReferences {
			continue
		}
		text := func(field string) string { s, _ := fields[field].(string); return s }
		all = append(all, reference{schema.GroupKind{Group: text("group"), Kind: text("kind")}, text("namespace"), text("name"), ", which it applies,"})
	}
	return all
}

// helmRelease is a release of Helm that Flux installs.
var helmRelease = schema.GroupKind{Group: "helm.toolkit.fluxcd.io", Kind: "HelmRelease"}

// releasedBy returns the workloads of a HelmRelease, by the labels that the controller adds.
func (q *inquiry) releasedBy(u *unstructured.Unstructured) []reference {
	namespace, _, _ := unstructured.NestedString(u.Object, "spec", "targetNamespace")
	if namespace == "" {
		namespace = q.namespace
	}
	var all []reference
	for _, kind := range workloads {
		for _, o := range q.listIn(namespace, kind) {
			labels := o.GetLabels()
			ours := labels[helmRelease.Group+"/name"] == u.GetName() && labels[helmRelease.Group+"/namespace"] == u.GetNamespace()
			if ours && len(all) < maxReferences {
				all = append(all, reference{kind, namespace, o.GetName(), ", which it installs,"})
			}
		}
	}
	return all
}

// dependsOn is the relation to an object that must be ready first. A cycle of these never ends.
const dependsOn = ", on which it depends,"

// dependencies returns the objects in spec.dependsOn of an object of Flux that the text of its problem
// names.
func (q *inquiry) dependencies(u *unstructured.Unstructured) []reference {
	items, _, _ := unstructured.NestedSlice(u.Object, "spec", "dependsOn")
	text := q.problemText()
	var all []reference
	for _, item := range items[:min(len(items), maxReferences)] {
		fields, _ := item.(map[string]any)
		name, _ := fields["name"].(string)
		namespace, _ := fields["namespace"].(string)
		if namespace == "" {
			namespace = u.GetNamespace()
		}
		if name != "" && slices.Contains(strings.FieldsFunc(text, notInName), namespace+"/"+name) {
			all = append(all, reference{u.GroupVersionKind().GroupKind(), namespace, name, dependsOn})
		}
	}
	return all
}

// notInName reports whether a character cannot be part of NAMESPACE/NAME.
func notInName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.' && r != '/'
}
