package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// inventory returns the objects in the inventory of a Kustomization of Flux that the text of its problem
// names: kustomize.toolkit.fluxcd.io/v1, ResourceInventory. An ID is NAMESPACE_NAME_GROUP_KIND.
func (q *inquiry) inventory() []reference {
	u := q.custom()
	entries, _, _ := unstructured.NestedSlice(u.Object, "status", "inventory", "entries")
	text := q.allText()
	var all []reference
	for _, entry := range entries {
		r, ok := fromInventory(entry)
		if !ok || len(all) >= maxReferences {
			continue
		}
		if strings.Contains(text, r.kind.Kind+"/"+r.namespace+"/"+r.name) || r.namespace == "" && strings.Contains(text, r.kind.Kind+"/"+r.name) {
			all = append(all, r)
		}
	}
	return all
}

// fromInventory returns the object of an entry in the inventory of a Kustomization.
func fromInventory(entry any) (reference, bool) {
	fields, _ := entry.(map[string]any)
	id, _ := fields["id"].(string)
	parts := strings.Split(id, "_")
	if len(parts) != 4 {
		return reference{}, false
	}
	return newReference(schema.GroupKind{Group: parts[2], Kind: parts[3]}, parts[0], parts[1], ", which it applies,"), true
}

// contentOf returns the content of an object of a type without rules of its own, or nil.
func contentOf(o client.Object) map[string]any {
	if u, ok := o.(*unstructured.Unstructured); ok {
		return u.Object
	}
	return nil
}

// applied returns the objects of an Application of Argo CD that failed: to be applied, as a hook, or later.
// See argoproj.io/v1alpha1, ResourceResult and ResourceStatus.
func (q *inquiry) applied() []reference {
	u := q.custom()
	results, _, _ := unstructured.NestedSlice(u.Object, "status", "operationState", "syncResult", "resources")
	var all []reference
	for _, result := range results {
		fields, _ := result.(map[string]any)
		status, _ := fields["status"].(string)
		hook, _ := fields["hookPhase"].(string)
		if status == "SyncFailed" || hook == "Failed" || hook == "Error" || hook == "Running" {
			all = appendApplied(all, fields)
		}
	}
	resources, _, _ := unstructured.NestedSlice(u.Object, "status", "resources")
	for _, resource := range resources {
		fields, _ := resource.(map[string]any)
		health, found, _ := unstructured.NestedString(fields, "health", "status")
		unknown := !found && fields["group"] == application.Group // an ApplicationSet, or an Application
		if unknown || health == "Degraded" || health == "Progressing" || health == "Missing" || health == "Unknown" {
			all = appendApplied(all, fields)
		}
	}
	return all
}

// syncFailures returns what an Application of Argo CD could not apply, and why.
func syncFailures(u *unstructured.Unstructured) string {
	if u.GroupVersionKind().GroupKind() != application {
		return ""
	}
	results, _, _ := unstructured.NestedSlice(u.Object, "status", "operationState", "syncResult", "resources")
	for _, result := range results {
		fields, _ := result.(map[string]any)
		message, _ := fields["message"].(string)
		if fields["status"] == "SyncFailed" && message != "" {
			return fmt.Sprintf("; %v %q cannot be applied: %s", fields["kind"], fields["name"], message)
		}
	}
	return ""
}

// decryption returns which Secret has the keys of a Kustomization that cannot decrypt a file:
// fluxcd.io/flux/components/kustomize/kustomizations/#decryption.
func decryption(u *unstructured.Unstructured) string {
	name, _, _ := unstructured.NestedString(u.Object, "spec", "decryption", "secretRef", "name")
	if name == "" || u.GroupVersionKind().GroupKind() != kustomization || !slices.ContainsFunc(conditionsOf(u), func(c metav1.Condition) bool { return isBad(c) && strings.Contains(c.Message, "decrypt") }) {
		return ""
	}
	return fmt.Sprintf("; its keys are those of Secret %q whose names end with .agekey or .asc", name)
}

func appendApplied(all []reference, resource map[string]any) []reference {
	if len(all) >= maxReferences {
		return all
	}
	text := func(field string) string { s, _ := resource[field].(string); return s }
	r := newReference(schema.GroupKind{Group: text("group"), Kind: text("kind")}, text("namespace"), text("name"), ", which it applies,")
	if slices.Contains(all, r) {
		return all
	}
	return append(all, r)
}

// failedHook is how Helm names the Job of a hook that failed.
var failedHook = regexp.MustCompile(`\bjob ([a-z0-9][a-z0-9.-]*) failed`)

// hooks returns the Jobs of hooks that failed, as the message of a HelmRelease says.
func (q *inquiry) hooks() []reference {
	var all []reference
	for _, m := range failedHook.FindAllStringSubmatch(q.allText(), maxReferences) {
		all = append(all, newReference(jobKind, q.releaseNamespace(), m[1], ", which it runs,"))
	}
	return all
}

// releaseNamespace returns the namespace that a HelmRelease installs into.
func (q *inquiry) releaseNamespace() string {
	u := q.custom()
	if namespace, _, _ := unstructured.NestedString(u.Object, "spec", "targetNamespace"); namespace != "" {
		return namespace
	}
	return q.namespace
}

// released returns the workloads of a HelmRelease, by the labels that the controller adds.
func (q *inquiry) released() []reference {
	u := q.custom()
	namespace := q.releaseNamespace()
	var all []reference
	for _, kind := range slices.Concat(workloads, []schema.GroupKind{serviceKind, claimKind}) {
		for _, o := range q.listIn(namespace, kind) {
			labels := o.GetLabels()
			if hasAddressOrVolume(o) {
				continue
			}
			ours := labels[helmRelease.Group+"/name"] == u.GetName() && labels[helmRelease.Group+"/namespace"] == u.GetNamespace()
			if ours && len(all) < maxReferences {
				all = append(all, newReference(kind, namespace, o.GetName(), ", which it installs,"))
			}
		}
	}
	return all
}

// hasAddressOrVolume reports whether an object is a Service or a claim for which nothing waits.
func hasAddressOrVolume(o client.Object) bool {
	switch o := o.(type) {
	case *corev1.Service:
		return o.Spec.Type != corev1.ServiceTypeLoadBalancer || len(o.Status.LoadBalancer.Ingress) > 0
	case *corev1.PersistentVolumeClaim:
		return o.Status.Phase == corev1.ClaimBound
	}
	return false
}

// generated returns the Applications of an ApplicationSet.
func (q *inquiry) generated() []reference {
	return q.ownedOf(q.object, []schema.GroupKind{application})
}

// dependsOn is the relation to an object that must be ready first. A cycle of these never ends.
const dependsOn = ", on which it depends,"

// dependencies returns the objects in spec.dependsOn of an object of Flux that the text of its problem
// names.
func (q *inquiry) dependencies() []reference {
	u := q.custom()
	items, _, _ := unstructured.NestedSlice(u.Object, "spec", "dependsOn")
	text := q.allText()
	var all []reference
	for _, item := range items[:min(len(items), maxReferences)] {
		fields, _ := item.(map[string]any)
		name, _ := fields["name"].(string)
		namespace, _ := fields["namespace"].(string)
		if namespace == "" {
			namespace = u.GetNamespace()
		}
		if name != "" && slices.Contains(strings.FieldsFunc(text, notInName), namespace+"/"+name) {
			all = append(all, newReference(u.GroupVersionKind().GroupKind(), namespace, name, dependsOn))
		}
	}
	return all
}

// notInName reports whether a character cannot be part of NAMESPACE/NAME.
func notInName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.' && r != '/'
}
