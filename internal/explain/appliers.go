package explain

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// appliersOf returns the Kustomizations and Applications that fail and should apply an object that does not exist, or what
// makes it. See argoproj.io/v1alpha1, ResourceResult.
func (q *inquiry) appliersOf(kind, namespace, name string) []reference {
	var all []reference
	for _, o := range q.listIn("", kustomization) {
		if failsWith(o, namespace, name) || cannotDecrypt(o, namespace) || lists(o, reference{kind: schema.GroupKind{Kind: kind}, namespace: namespace, name: name}) {
			all = append(all, newReference(kustomization, o.GetNamespace(), o.GetName(), ", which applies it,"))
		}
	}
	for _, o := range q.listIn("", application) {
		if failedToSync(o, kind, namespace, name) {
			all = append(all, newReference(application, o.GetNamespace(), o.GetName(), ", which applies it,"))
		}
	}
	return all[:min(len(all), maxReferences)]
}

// failsWith reports whether a Kustomization says that it cannot apply the object. If it cannot build or decrypt it,
// the text has only the name.
func failsWith(o client.Object, namespace, name string) bool {
	return slices.ContainsFunc(conditionsOf(&unstructured.Unstructured{Object: contentOf(o)}), func(c metav1.Condition) bool {
		if !isBad(c) {
			return false
		}
		return mentions(c.Message, kindSecret+"/"+namespace+"/"+name) || mentions(c.Message, kindConfigMap+"/"+namespace+"/"+name) ||
			c.Reason == "BuildFailed" && (mentions(c.Message, namespace+"/"+name) || strings.Contains(c.Message, "'"+name+"'"))
	})
}

// lists reports whether a Kustomization fails and has an object in its inventory.
func lists(o client.Object, r reference) bool {
	u := &unstructured.Unstructured{Object: contentOf(o)}
	entries, _, _ := unstructured.NestedSlice(u.Object, "status", "inventory", "entries")
	return slices.ContainsFunc(conditionsOf(u), isBad) && slices.ContainsFunc(entries, func(entry any) bool {
		listed, ok := fromInventory(entry)
		return ok && listed.key() == r.key()
	})
}

// cannotDecrypt reports whether a Kustomization that applies Secrets to a namespace lacks the keys for them. It cannot say which
// ones these are.
func cannotDecrypt(o client.Object, namespace string) bool {
	target, _, _ := unstructured.NestedString(contentOf(o), "spec", "targetNamespace")
	_, decrypts, _ := unstructured.NestedMap(contentOf(o), "spec", "decryption")
	return decrypts && target == namespace && slices.ContainsFunc(conditionsOf(&unstructured.Unstructured{Object: contentOf(o)}), func(c metav1.Condition) bool {
		return isBad(c) && strings.Contains(c.Message, "decrypt")
	})
}

// failedToSync reports whether an Application could not apply the object, or has not.
func failedToSync(o client.Object, wanted, namespace, name string) bool {
	hasStatus := func(status string, path ...string) bool {
		results, _, _ := unstructured.NestedSlice(contentOf(o), path...)
		return slices.ContainsFunc(results, func(result any) bool {
			fields, _ := result.(map[string]any)
			kind, _ := fields["kind"].(string)
			isMaker := slices.ContainsFunc(makers, func(m maker) bool { return m.kind.Kind == kind && m.kind != certificate && len(m.names) == 0 })
			return fields["status"] == status && fields["namespace"] == namespace && fields["name"] == name &&
				(kind == wanted || kind == kindSecret || kind == kindConfigMap || isMaker)
		})
	}
	return hasStatus("SyncFailed", "status", "operationState", "syncResult", "resources") || hasStatus("OutOfSync", "status", "resources")
}
