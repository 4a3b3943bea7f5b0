package explain

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// maxReferences limits the references of one edge that are followed.
const maxReferences = 5

// problemText is what the target says about itself.
func (q *inquiry) problemText() string {
	text := q.explanation.Summary
	if c := q.explanation.Cause; c != nil {
		text += " " + c.Message
	}
	for i := range q.explanation.Others {
		text += " " + q.explanation.Others[i].Message
	}
	return text
}

// mentions reports whether a text contains a name that is not a part of a longer one.
func mentions(text, name string) bool {
	for from := 0; name != ""; {
		i := strings.Index(text[from:], name)
		if i < 0 {
			return false
		}
		begin := from + i
		end := begin + len(name)
		if (begin == 0 || !inName(text[begin-1])) && (end == len(text) || !inName(text[end])) {
			return true
		}
		from = begin + 1
	}
	return false
}

// inName reports whether a byte can be part of a name, apart from its dots.
func inName(b byte) bool { return b >= 'a' && b <= 'z' || b >= '0' && b <= '9' || b == '-' }

// parts are the fields, in lower case, with the objects that an object consists of or is made from. They are
// followed also if the message does not name them: crossplane.io, cluster-api.sigs.k8s.io, fluxcd.io,
// argoproj.github.io, karpenter.sh.
var parts = []string{"resourceref", "resourcerefs", "infrastructureref", "configref", "controlplaneref", "sourceref", "chartref", "workloadref",
	"issuerref", "authenticationref", "nodeclassref", "secretstoreref"}

// fieldKinds are the types that fields refer to if they do not say it. The first one whose word is in the
// name of the field counts.
var fieldKinds = []struct {
	word string
	kind schema.GroupKind
}{
	{"secret", secretKind},
	{"certificate", secretKind},
	{"service", serviceKind},
	{"backend", serviceKind},
	{"claim", claimKind},
	{"issuer", schema.GroupKind{Group: "cert-manager.io", Kind: "Issuer"}},
	{"parent", schema.GroupKind{Group: gatewayGroup, Kind: "Gateway"}},
	{"authentication", schema.GroupKind{Group: "keda.sh", Kind: "TriggerAuthentication"}},
}

// named returns the objects that fields of the spec with the name ...Ref or ...Refs name, and Secrets in
// fields with the name ...SecretName. It leaves out those that the text of the problem does not name,
// unless they are parts of the object.
func (q *inquiry) named() []reference {
	u := q.object.(*unstructured.Unstructured) //nolint:forcetypeassert // the edge is for these
	text := q.problemText()
	var all []reference
	add := func(field string, ref map[string]any) {
		name, _ := ref["name"].(string)
		part := slices.Contains(parts, strings.ToLower(field))
		if name == "" || len(all) >= maxReferences || !part && !mentions(text, name) {
			return
		}
		r := reference{kind: kindIn(field, ref, u.GroupVersionKind().Group), namespace: q.namespace, name: name, relation: ", which it uses,"}
		if n, ok := ref["namespace"].(string); ok && n != "" {
			r.namespace = n
		}
		switch {
		case r.kind == secretKind:
			all = append(all, q.missingSecret(r.namespace, name)...)
		case r.kind.Kind != "":
			all = append(all, r)
		}
	}
	eachReference(u.Object["spec"], 0, add)
	return all
}

// fluxSources are the types of Flux that others name without a group.
var fluxSources = []string{"GitRepository", "OCIRepository", "HelmRepository", "HelmChart", "Bucket"}

// kindIn returns the type that a reference names, or else the usual type of its field.
func kindIn(field string, ref map[string]any, group string) schema.GroupKind {
	kind, _ := ref["kind"].(string)
	if kind == "" {
		for _, f := range fieldKinds {
			if strings.Contains(strings.ToLower(field), f.word) {
				return f.kind
			}
		}
		return schema.GroupKind{}
	}
	if strings.HasSuffix(group, ".toolkit.fluxcd.io") && slices.Contains(fluxSources, kind) {
		group = "source.toolkit.fluxcd.io"
	}
	for _, f := range fieldKinds {
		if strings.TrimPrefix(kind, "Cluster") == f.kind.Kind {
			group = f.kind.Group
		}
	}
	for _, name := range []string{"group", "apiGroup"} {
		if g, ok := ref[name].(string); ok {
			return schema.GroupKind{Group: g, Kind: kind}
		}
	}
	if v, ok := ref["apiVersion"].(string); ok {
		gv, err := schema.ParseGroupVersion(v)
		if err != nil {
			return schema.GroupKind{}
		}
		group = gv.Group
	}
	return schema.GroupKind{Group: group, Kind: kind}
}

// eachReference calls visit for each object in a field with the name ...Ref or ...Refs, and for each
// name of a Secret.
func eachReference(value any, depth int, visit func(field string, ref map[string]any)) {
	const deepest = 6
	if depth > deepest {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		for _, field := range slices.Sorted(maps.Keys(v)) {
			lower := strings.ToLower(field)
			isRef := strings.HasSuffix(lower, "ref") || strings.HasSuffix(lower, "refs")
			switch ref := v[field].(type) {
			case map[string]any:
				if isRef {
					visit(field, ref)
				}
				eachReference(ref, depth+1, visit)
			case []any:
				for _, item := range ref[:min(len(ref), maxConditions)] {
					if fields, ok := item.(map[string]any); ok && isRef {
						visit(field, fields)
					}
					eachReference(item, depth+1, visit)
				}
			case string:
				if strings.HasSuffix(lower, "secretname") || isRef && strings.Contains(lower, "secret") {
					visit(field, map[string]any{"name": ref})
				}
			}
		}
	}
}

// missingSecretText is how controllers say that a Secret does not exist.
var missingSecretText = regexp.MustCompile(`(?i)\bsecrets?(?: with name)? ["'\x60]?(?:[a-z0-9.-]+/)?([a-z0-9][a-z0-9.-]*)["'\x60]?,? (?:was |is |does )?not (?:found|exist)`)

// missingSecrets returns what should create the Secrets that the text of the problem misses.
func (q *inquiry) missingSecrets() []reference {
	if q.namespace == "" {
		return nil
	}
	var all []reference
	for _, m := range missingSecretText.FindAllStringSubmatch(q.problemText(), maxReferences) {
		all = append(all, q.missingSecret(q.namespace, m[1])...)
	}
	return all
}
