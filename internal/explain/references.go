package explain

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// maxReferences limits the references of one edge that are followed.
const maxReferences = 5

// problemText is what the target says about its main problem.
func (q *inquiry) problemText() string {
	if c := q.explanation.Cause; c != nil {
		return q.explanation.Summary + " " + c.Message
	}
	return q.explanation.Summary
}

// allText is what the target says about all its problems. Those of a custom resource are about the same: a
// condition, and the last Warning.
func (q *inquiry) allText() string {
	texts := []string{q.problemText()}
	for i := range q.explanation.Others {
		texts = append(texts, q.explanation.Others[i].Message)
	}
	return strings.Join(texts, " ")
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

// fieldKind is the type that fields with a word in their name refer to.
type fieldKind struct {
	word string
	kind schema.GroupKind
}

// fieldKinds are the types that fields refer to if they do not say it. The first one whose word is in the
// name of the field counts.
var fieldKinds = []fieldKind{
	{"secret", secretKind},
	{"certificate", secretKind},
	{"service", serviceKind},
	{"backend", serviceKind},
	{"claim", claimKind},
	{"issuer", schema.GroupKind{Group: "cert-manager.io", Kind: "Issuer"}},
	{"parent", gateway},
	{"authentication", schema.GroupKind{Group: "keda.sh", Kind: "TriggerAuthentication"}},
}

// named returns the objects that fields of the spec with the name ...Ref or ...Refs name, and Secrets in
// fields with the name ...SecretName. It leaves out those that the text of the problem does not name,
// unless they are parts of the object.
func (q *inquiry) named() []reference {
	u := q.custom()
	text := q.allText()
	var all []reference
	add := func(field string, ref map[string]any) {
		name, _ := ref["name"].(string)
		part := slices.Contains(parts, strings.ToLower(field))
		isParent := strings.EqualFold(field, "parentRefs") && strings.Contains(text, "condition ResolvedRefs is False") // which is about the backends
		kind := q.servedKind(ref, kindIn(field, ref, u.GroupVersionKind().Group))
		if name == "" || isParent || len(all) >= maxReferences || !part && !mentions(text, name) && !mentionsKind(text, kind, field) {
			return
		}
		r := reference{kind: kind, namespace: q.namespace, name: name, relation: ", which it uses,"}
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
	eachReference(u.Object["spec"], add)
	eachReference(u.Object["status"], onlyTyped(add))
	for _, t := range q.typesBeside(u.GroupVersionKind().GroupKind()) {
		for _, n := range append(namesAfter(text, t.Kind), namesBefore(text, t.Kind)...) {
			add(t.Kind, map[string]any{"namespace": n.Namespace, "name": n.Name, "kind": t.Kind})
		}
	}
	return all
}

// servedKind returns the only type of the cluster with the name of a field, if the group of the object does not have it. A
// reference that names its type has that.
func (q *inquiry) servedKind(ref map[string]any, kind schema.GroupKind) schema.GroupKind {
	if q.within != nil || ref["kind"] != nil || kind.Kind == "" {
		return kind
	}
	if _, err := q.client.RESTMapper().RESTMapping(kind); err == nil {
		return kind
	}
	if kinds := q.kindsNamed(strings.ToLower(kind.Kind)); len(kinds) == 1 {
		return kinds[0]
	}
	return kind
}

// onlyTyped calls visit only for references that name their type.
func onlyTyped(visit func(string, map[string]any)) func(string, map[string]any) {
	return func(field string, ref map[string]any) {
		if ref["kind"] != nil && ref["apiVersion"] != nil {
			visit(field, ref)
		}
	}
}

// namesAfter returns the names that follow a type in a text: `Cluster "a"`, "Cluster/a", "Cluster b/a" and
// "Cluster(s): [a]". Messages write a type of several words also in lower case: "cluster operator a-b".
func namesAfter(text, kind string) []types.NamespacedName {
	var names []types.NamespacedName
	if words := wordsOf(kind); len(words) > 1 {
		spaced := strings.Join(words, " ")
		for _, s := range []string{spaced, strings.ToUpper(spaced[:1]) + spaced[1:]} {
			text = strings.ReplaceAll(text, s, kind)
		}
	}
	for rest := text; len(names) < maxReferences; {
		_, after, found := strings.Cut(rest, kind)
		if !found {
			break
		}
		before := rest[:len(rest)-len(after)-len(kind)]
		rest = after
		if before != "" && unicode.IsLetter(rune(before[len(before)-1])) { // it is the end of another type
			continue
		}
		if m := nameAfterKind.FindStringSubmatch(after); m != nil {
			names = append(names, types.NamespacedName{Namespace: m[1] + m[3], Name: strings.TrimRight(m[2]+m[4]+m[5], ".")})
		}
	}
	return names
}

// qualifiedName matches a name with its namespace, before what is wrong with the object.
var qualifiedName = regexp.MustCompile(`(?:^|[\s(])([a-z][a-z0-9-]*)/([a-z0-9][a-z0-9.-]*): `)

// namesBefore returns the names before a text about a type in lower case: "b/a: cluster is not ready".
func namesBefore(text, kind string) []types.NamespacedName {
	if !mentions(text, strings.ToLower(kind)) {
		return nil
	}
	var names []types.NamespacedName
	for _, m := range qualifiedName.FindAllStringSubmatch(text, maxReferences) {
		names = append(names, types.NamespacedName{Namespace: m[1], Name: m[2]})
	}
	return names
}

// typeInText matches words that can be types, with a name after a space. Only a type of several words can have a name without a
// dash: "Job is" is no name.
var typeInText = regexp.MustCompile(`\b([A-Z]+[a-z]+(?:[A-Z]+[a-z]+)+|[A-Z]{2,}[a-z]+)(?:\(s\):)? ["'\x60]?([a-z0-9][a-z0-9-]*)\b|\b([A-Z][a-z]+)\b`)

// maxTypesInText limits the words that are looked up.
const maxTypesInText = 20

// namedWithType returns the objects of the namespace that the text of the problem names with their type, in any group.
func (q *inquiry) namedWithType() []reference {
	text := q.allText()
	var all []reference
	for _, m := range typeInText.FindAllStringSubmatch(text, maxTypesInText) {
		word := m[1] + m[3]
		names := namesAfter(text, word)
		if len(names) == 0 && m[2] != "" {
			names = append(names, types.NamespacedName{Name: m[2]})
		}
		if word == q.explanation.Kind || len(names) == 0 {
			continue
		}
		for _, kind := range q.kindsNamed(strings.ToLower(word)) {
			for _, n := range names {
				all = append(all, newReference(kind, cmp.Or(n.Namespace, q.namespace), n.Name, ", which it names,"))
			}
		}
	}
	return all[:min(len(all), maxReferences)]
}

// nameAfterKind matches a name after its type, and its namespace if there is one. After a space alone, a name without a namespace
// must contain a dash.
var nameAfterKind = regexp.MustCompile(`^(?:\(s\)|s)?(?:: |/|:? ?["'\x60[])(?:([a-z][a-z0-9-]*)/)?([a-z0-9][a-z0-9.-]*)|^ ([a-z][a-z0-9-]*)/([a-z0-9][a-z0-9.-]*)|^ ([a-z0-9]+-[a-z0-9.-]+)`)

// mentionsKind reports whether a text is about the object of a field that is named after its type. An example is
// "referenced ImageRepository has not been scanned yet".
func mentionsKind(text string, kind schema.GroupKind, field string) bool {
	return strings.EqualFold(kind.Kind+"Ref", field) && strings.Contains(text, "referenced "+kind.Kind+" ")
}

// fluxSources are the types of Flux that others name without a group.
var fluxSources = []string{"GitRepository", "OCIRepository", "HelmRepository", "HelmChart", "Bucket"}

// kindIn returns the type that a reference names, or else the usual type of its field. It is empty if neither
// is known.
func kindIn(field string, ref map[string]any, group string) schema.GroupKind {
	kind, _ := ref["kind"].(string)
	if kind == "" {
		i := slices.IndexFunc(fieldKinds, func(f fieldKind) bool { return strings.Contains(strings.ToLower(field), f.word) })
		if i >= 0 {
			return fieldKinds[i].kind
		}
		if field, isRef := strings.CutSuffix(field, "Ref"); isRef && field != "" { // imageRepositoryRef, for example
			return schema.GroupKind{Group: group, Kind: strings.ToUpper(field[:1]) + field[1:]}
		}
		return schema.GroupKind{}
	}
	return schema.GroupKind{Group: groupIn(ref, kind, group), Kind: kind}
}

// groupIn returns the API group that a reference names, or else the usual group of its kind, or else that
// of the object.
func groupIn(ref map[string]any, kind, group string) string {
	for _, name := range []string{"group", "apiGroup"} {
		if g, ok := ref[name].(string); ok {
			return g
		}
	}
	if v, ok := ref["apiVersion"].(string); ok {
		g, _, found := strings.Cut(v, "/")
		if !found {
			return ""
		}
		return g
	}
	if strings.HasSuffix(group, ".toolkit.fluxcd.io") && slices.Contains(fluxSources, kind) {
		return "source.toolkit.fluxcd.io"
	}
	i := slices.IndexFunc(fieldKinds, func(f fieldKind) bool { return strings.TrimPrefix(kind, "Cluster") == f.kind.Kind })
	if i >= 0 {
		return fieldKinds[i].kind.Group
	}
	return group
}

// eachReference calls visit for each object in a field with the name ...Ref or ...Refs, and for each
// name of a Secret.
func eachReference(value any, visit func(field string, ref map[string]any)) {
	eachField(value, 0, func(field string, item any) {
		if ref := referenceIn(field, item); ref != nil {
			visit(field, ref)
		}
	})
}

// itemsOf returns the items of a list, or else the value.
func itemsOf(value any) []any {
	if list, ok := value.([]any); ok {
		return list[:min(len(list), maxConditions)]
	}
	return []any{value}
}

// referenceIn returns the value of a field if it refers to an object, or nil.
func referenceIn(field string, value any) map[string]any {
	field = strings.ToLower(field)
	isRef := strings.HasSuffix(field, "ref") || strings.HasSuffix(field, "refs")
	switch v := value.(type) {
	case map[string]any:
		if isRef {
			return v
		}
	case string:
		if strings.HasSuffix(field, "secretname") || isRef && strings.Contains(field, "secret") {
			return map[string]any{"name": v}
		}
	}
	return nil
}

// missingSecretText is how controllers say that a Secret does not exist.
var missingSecretText = regexp.MustCompile(`(?i)\bsecrets?(?: with name)? ["'\x60]?(?:[a-z0-9.-]+/)?([a-z0-9][a-z0-9.-]*)["'\x60]?,? (?:was |is |does )?not (?:found|exist)`)

// missingValuesText is how Flux says that the values of a HelmRelease cannot be read.
var missingValuesText = regexp.MustCompile(`could not resolve (Secret|ConfigMap) chart values reference '([a-z0-9.-]+)/([a-z0-9.-]+)'`)

// missingConfigText is how controllers say that a ConfigMap does not exist.
var missingConfigText = regexp.MustCompile(`(?i)\bconfigmaps? ["'\x60](?:[a-z0-9.-]+/)?([a-z0-9][a-z0-9.-]*)["'\x60] not found`)

// certManagerNamespace has the Secrets of ClusterIssuers and the sources of Bundles, unless an administrator chooses another:
// cert-manager.io/docs/configuration/issuers.
const certManagerNamespace = "cert-manager"

// missingSecrets returns what should create the Secrets that the text of the problem misses.
func (q *inquiry) missingSecrets() []reference {
	namespace := q.namespace
	u := q.custom()
	if group := u.GroupVersionKind().Group; namespace == "" && (group == certificate.Group || group == bundle.Group) {
		namespace = certManagerNamespace
	}
	if namespace == "" {
		return nil
	}
	if issuer, _, _ := unstructured.NestedString(u.Object, "spec", "issuerRef", "kind"); issuer == "ClusterIssuer" {
		namespace = certManagerNamespace
	}
	var all []reference
	const usually = "cert-manager reads it in its own namespace, usually " + certManagerNamespace
	for _, m := range missingSecretText.FindAllStringSubmatch(q.allText(), maxReferences) {
		if namespace == certManagerNamespace && q.namespace != namespace {
			q.explanation.Cause.add(usually, "")
		}
		all = append(all, q.missingSecret(namespace, m[1])...)
	}
	for _, m := range missingValuesText.FindAllStringSubmatch(q.allText(), maxReferences) {
		missing := q.missingSecret
		if m[1] == kindConfigMap {
			missing = q.missingConfigMap
		}
		all = append(all, missing(m[2], m[3])...)
	}
	for _, m := range missingConfigText.FindAllStringSubmatch(q.allText(), maxReferences) {
		all = append(all, q.missingConfigMap(namespace, m[1])...)
	}
	return all
}
