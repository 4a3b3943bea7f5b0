package explain

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// inSpec returns the objects that the spec and the annotations of an object name, whatever its message says. Not every
// one of them must work, so they come after all others.
func (q *inquiry) inSpec() []reference {
	u := q.custom()
	group := u.GroupVersionKind().Group
	beside := q.typesBeside(u.GroupVersionKind().GroupKind())
	var all []reference
	eachField(u.Object["spec"], 0, func(field string, value any) {
		if r := refersIn(field, value, group, beside); r.name != "" {
			all = append(all, r)
		}
	})
	all = append(all, q.inAnnotations()...)
	var distinct []reference
	for _, r := range all {
		r.namespace, r.relation = cmp.Or(r.namespace, q.namespace), ", which it names,"
		if !slices.Contains(distinct, r) {
			distinct = append(distinct, r)
		}
	}
	return distinct[:min(len(distinct), maxReferences)]
}

// refersIn returns the object that a field names, with a type or by the name of the field. Then, the name is a type of the
// same group, or the last word of one. Examples are mariaDbRef, deploymentName of a FlinkSessionJob, and clusters of a
// MultiKueueConfig.
func refersIn(field string, value any, group string, beside []metav1.APIResource) reference {
	name, _ := value.(string)
	ref, _ := value.(map[string]any)
	if from, ok := ref["from"].(map[string]any); ok { // aws-controllers-k8s/runtime, AWSResourceReferenceWrapper
		ref = from
	}
	if ref != nil {
		name, _ = ref["name"].(string)
	}
	namespace, _ := ref["namespace"].(string)
	if kind, _ := ref["kind"].(string); kind != "" {
		r := newReference(schema.GroupKind{Group: groupIn(ref, kind, group), Kind: kind}, namespace, name, "")
		r.mustExist = surelyUsed.MatchString(field) && hasGroup(ref) && ref["optional"] != true
		return r
	}
	if kind := kindOfField(field, beside); kind != "" {
		return newReference(schema.GroupKind{Group: group, Kind: kind}, namespace, name, "")
	}
	return reference{}
}

// surelyUsed matches fields whose object must exist. Others can describe what a controller will create.
var surelyUsed = regexp.MustCompile(`(?:Ref|Refs|Reference|^parameters)$`)

// hasGroup reports whether a reference says to which API group its type belongs.
func hasGroup(ref map[string]any) bool {
	return ref["group"] != nil || ref["apiGroup"] != nil || ref["apiVersion"] != nil
}

// endOfField is what the names of fields add to the name of a type.
var endOfField = regexp.MustCompile(`(?:CRName|Name|Ref|Refs|Reference|s)$`)

// kindOfField returns the type that the name of a field stands for, or "".
func kindOfField(field string, kinds []metav1.APIResource) string {
	word := strings.ToLower(endOfField.ReplaceAllString(field, ""))
	last := ""
	for _, k := range kinds {
		if kind := strings.ToLower(k.Kind); kind == word || kind == strings.ToLower(field) {
			return k.Kind
		}
		if words := wordsOf(k.Kind); word != "" && words[len(words)-1] == word {
			last = k.Kind
		}
	}
	return last
}

// inAnnotations returns the objects in annotations whose key ends with a type, such as metal3.io/BareMetalHost.
func (q *inquiry) inAnnotations() []reference {
	var all []reference
	annotations := q.object.GetAnnotations()
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		_, kind, _ := strings.Cut(key, "/")
		if kind == "" || kind[0] < 'A' || kind[0] > 'Z' {
			continue
		}
		namespace, name, found := strings.Cut(annotations[key], "/")
		if !found {
			namespace, name = "", namespace
		}
		for _, k := range q.kindsNamed(strings.ToLower(kind)) {
			all = append(all, newReference(k, namespace, name, ""))
		}
	}
	return all
}

// eachField calls visit for each field of a value, and for each item of a field that is a list.
func eachField(value any, depth int, visit func(field string, value any)) {
	const deepest = 6
	fields, _ := value.(map[string]any)
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if depth == deepest {
			return
		}
		for _, item := range itemsOf(fields[field]) {
			visit(field, item)
			eachField(item, depth+1, visit)
		}
	}
}
