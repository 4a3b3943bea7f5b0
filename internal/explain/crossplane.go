package explain

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Packages of Crossplane, whose pods have a label with the name: crossplane/internal/controller/pkg/runtime.
var (
	crossplaneFunction = schema.GroupKind{Group: "pkg.crossplane.io", Kind: "Function"}
	crossplaneProvider = schema.GroupKind{Group: "pkg.crossplane.io", Kind: "Provider"}
)

// packaged returns the workloads of a package of Crossplane.
func (q *inquiry) packaged() []reference {
	return q.failingWorkloads(", which runs it,", func(o client.Object, _ *corev1.PodSpec) bool {
		labels := templateLabels(o)
		return labels["pkg.crossplane.io/function"] == q.name || labels["pkg.crossplane.io/provider"] == q.name
	})
}

// unresolved is how crossplane-runtime says that an object of a field is not ready.
var unresolved = regexp.MustCompile(`cannot resolve references: mg\.Spec\.ForProvider\.([\w.]+): referenced field was empty`)

// Ends of the names of fields: those with references, and those with a part of an object.
var (
	refEnd  = regexp.MustCompile(`(?i)refs?$`)
	partEnd = regexp.MustCompile(`(?i)(?:names?|ids?|arns?)$`)
)

// resolved returns the objects of the same provider from which Crossplane cannot fill a field. The field has the name of
// their type: vpcIdRef, for example.
func (q *inquiry) resolved() []reference {
	m := unresolved.FindStringSubmatch(q.allText())
	if m == nil {
		return nil
	}
	field := strings.ToLower(m[1][strings.LastIndex(m[1], ".")+1:])
	forProvider, _, _ := unstructured.NestedMap(q.custom().Object, "spec", "forProvider")
	_, provider, _ := strings.Cut(q.custom().GroupVersionKind().Group, ".")
	var all []reference
	eachReference(forProvider, func(name string, ref map[string]any) {
		target, _ := ref["name"].(string)
		of := partEnd.ReplaceAllString(refEnd.ReplaceAllString(strings.ToLower(name), ""), "")
		if target == "" || of != partEnd.ReplaceAllString(field, "") || len(all) >= maxReferences {
			return
		}
		kinds := q.kindsNamed(of)
		slices.SortStableFunc(kinds, func(a, b schema.GroupKind) int { // its own group goes first
			return strings.Compare(rankOf(a.Group, q.resource.Group), rankOf(b.Group, q.resource.Group))
		})
		for _, kind := range kinds {
			if strings.HasSuffix(kind.Group, "."+provider) {
				all = append(all, newReference(kind, q.namespace, target, ", which it refers to,"))
			}
		}
	})
	return all
}

func rankOf(group, own string) string {
	if group == own {
		return ""
	}
	return group
}

// kindsNamed returns the types with a name, in any group and in lower case.
func (q *inquiry) kindsNamed(name string) []schema.GroupKind {
	var all []schema.GroupKind
	for _, plural := range []string{name + "s", name + "es", strings.TrimSuffix(name, "y") + "ies"} {
		kinds, err := q.client.RESTMapper().KindsFor(schema.GroupVersionResource{Resource: plural})
		if err != nil { // there are none
			continue
		}
		for _, k := range kinds {
			if !slices.Contains(all, k.GroupKind()) {
				all = append(all, k.GroupKind())
			}
		}
	}
	return all
}

// providerSecret returns what should create the Secret with the credentials of a provider, if the text of the problem misses it.
// The ProviderConfig has the namespace of the Secret.
func (q *inquiry) providerSecret() []reference {
	u := q.custom()
	m := missingSecretText.FindStringSubmatch(q.allText())
	config, _, _ := unstructured.NestedString(u.Object, "spec", "providerConfigRef", "name")
	if m == nil || config == "" {
		return nil
	}
	var all []reference
	for _, kind := range q.kindsNamed("providerconfig") {
		if !strings.HasSuffix(u.GroupVersionKind().Group, kind.Group) {
			continue
		}
		for _, o := range q.listIn("", kind) {
			namespace, _, _ := unstructured.NestedString(contentOf(o), "spec", "credentials", "secretRef", "namespace")
			name, _, _ := unstructured.NestedString(contentOf(o), "spec", "credentials", "secretRef", "name")
			if o.GetName() == config && name == m[1] && namespace != "" {
				all = append(all, q.missingSecret(namespace, name)...)
			}
		}
	}
	return all
}
