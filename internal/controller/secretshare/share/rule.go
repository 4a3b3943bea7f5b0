// Package share decides which Secrets are copied where, what a copy contains, and when
// it is removed. It also decides which rule owns a Secret, and what to do with an existing Secret that
// has the name of a wanted copy.
//
// The package is pure: it has no Kubernetes client and no clock. Never put a value of a
// Secret into an error or a message.
package share

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/glob"
)

// Definition is the definition of a rule: a SecretShare or a ClusterSecretShare.
type Definition struct {
	// UID is the UID of the rule. Name is KIND/NAMESPACE/NAME, or KIND/NAME without a
	// namespace.
	UID, Name string
	// Namespace of the sources.
	Namespace string
	// NamespaceUID is the UID of a SecretShare's namespace, or empty.
	NamespaceUID string
	// Operator is the namespace of the operator, which gets no copies.
	Operator string
	// Protected are namespaces that get no copies, whatever the rule says.
	Protected []string
	// Only are the namespaces of sources and targets; none means all. The operator may read and
	// write Secrets only there.
	Only   []string
	Source v1alpha1.SecretSource
	Spec   v1alpha1.SecretCopySpec
}

// Rule is a compiled Definition. It is immutable and safe for concurrent use.
type Rule struct {
	Definition
	source, namespaces labels.Selector // nil if invalid
}

// Compile parses the selectors, which the API server does not validate. The error is a
// message for the author of the rule. Compile also returns a Rule with the error: its
// invalid selectors match everything.
func Compile(def Definition) (*Rule, error) {
	r := &Rule{Definition: def}
	var errSource, errTargets error
	r.source, errSource = selector("spec.source.selector", def.Source.Selector)
	r.namespaces, errTargets = selector("spec.targets.namespaceSelector", def.Spec.Targets.NamespaceSelector)
	return r, cmp.Or(errSource, errTargets)
}

// In returns the rule with the UID of its namespace.
func (r *Rule) In(namespaceUID string) *Rule {
	in := *r
	in.NamespaceUID = namespaceUID
	return &in
}

func selector(field string, s *metav1.LabelSelector) (labels.Selector, error) {
	if s == nil {
		return labels.Everything(), nil
	}
	compiled, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w%s", field, err, wildcardHint(s))
	}
	return compiled, nil
}

// wildcardHint returns what to write instead of a wildcard as the value of a label.
func wildcardHint(s *metav1.LabelSelector) string {
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		if strings.ContainsAny(s.MatchLabels[key], "*?") {
			return fmt.Sprintf(": labels have no wildcards: for any value of %s, write matchExpressions: [{key: %s, operator: Exists}]", key, key)
		}
	}
	return ""
}

// SourceSelector returns the selector for the labels of sources. It returns false if the
// selector is invalid.
func (r *Rule) SourceSelector() (labels.Selector, bool) { return r.source, r.source != nil }

// AllowsName reports whether a source may have this name.
func (r *Rule) AllowsName(name string) bool {
	return len(r.Source.Names) == 0 || slices.Contains(r.Source.Names, name)
}

// CopyName returns the name of the copies of a source. It may be invalid, which [Rule.Copy]
// reports.
func (r *Rule) CopyName(source string) string {
	names := r.Spec.CopyName
	if names == nil {
		return source
	}
	for _, name := range names.Rename {
		if name.From == source {
			return name.To
		}
	}
	return names.Prefix + source + names.Suffix
}

// MaySelect reports whether a Secret in the namespace of the sources may be a source. It
// does not check the type.
func (r *Rule) MaySelect(name string, set labels.Set) bool {
	return r.AllowsName(name) && mayMatch(r.source, set)
}

// Selects reports whether a Secret in the namespace of the sources is a source.
func (r *Rule) Selects(s *corev1.Secret) bool {
	return (r.Source.Type == "" || r.Source.Type == string(s.Type)) && r.MaySelect(s.Name, s.Labels)
}

// WhyNotSelected returns which fields of spec.source exclude a Secret in the namespace of the sources,
// as the end of a sentence. It is empty if the Secret is a source, or is never copied.
func (r *Rule) WhyNotSelected(s *corev1.Secret) string {
	if _, never := neverCopied[s.Type]; never || RuleOf(s.Annotations) != "" {
		return ""
	}
	var why []string
	if !r.AllowsName(s.Name) {
		why = append(why, "is not in spec.source.names")
	}
	if r.Source.Type != "" && r.Source.Type != string(typeOf(s)) {
		why = append(why, fmt.Sprintf("has the type %s, and spec.source.type is %s", typeOf(s), r.Source.Type))
	}
	if !mayMatch(r.source, labels.Set(s.Labels)) {
		why = append(why, fmt.Sprintf("has no labels that match spec.source.selector %s", r.source))
	}
	return strings.Join(why, ", ")
}

// Targets reports whether a namespace is a target.
func (r *Rule) Targets(namespace string, set labels.Set) bool {
	t := &r.Spec.Targets
	return namespace != r.Namespace &&
		(len(t.Names) == 0 || glob.MatchAny(t.Names, namespace)) &&
		!r.excludes(namespace) &&
		mayMatch(r.namespaces, set)
}

// WhyNotTarget returns which field of spec.targets excludes a namespace, as the end of a sentence. It is
// empty if the namespace is a target, or if the rule names other namespaces only.
func (r *Rule) WhyNotTarget(namespace string, set labels.Set) string {
	t := &r.Spec.Targets
	switch {
	case namespace == r.Namespace, len(t.Names) > 0 && !glob.MatchAny(t.Names, namespace):
		return ""
	case glob.MatchAny(t.Exclude, namespace):
		return "spec.targets.exclude excludes the namespace " + namespace
	case r.excludes(namespace):
		return fmt.Sprintf("the namespace %s is one of the system, which spec.targets.systemNamespaces excludes", namespace)
	case !mayMatch(r.namespaces, set):
		return fmt.Sprintf("the labels of namespace %s do not match spec.targets.namespaceSelector", namespace)
	}
	return ""
}

// systemPrefix is how the names of the namespaces of Kubernetes begin.
const systemPrefix = "kube-"

// excludes reports whether a namespace gets no copies, whatever else selects it.
func (r *Rule) excludes(namespace string) bool {
	t := &r.Spec.Targets
	return t.SystemNamespaces != v1alpha1.SystemNamespacesInclude && strings.HasPrefix(namespace, systemPrefix) ||
		r.Protects(namespace) || glob.MatchAny(t.Exclude, namespace)
}

// Protects reports whether the operator may write no copies to a namespace, and may remove
// none there.
func (r *Rule) Protects(namespace string) bool {
	return namespace == r.Operator || slices.Contains(r.Protected, namespace) || r.isOutside(namespace)
}

// isOutside reports whether the operator may not read and write Secrets of a namespace.
func (r *Rule) isOutside(namespace string) bool {
	return len(r.Only) > 0 && !slices.Contains(r.Only, namespace)
}

// addNamespace is what to do about a namespace that is outside.
const addNamespace = "ask an administrator to add it to the value secretShare.namespaces"

// InvalidSource returns what is wrong with the namespace of the sources. It is empty if the operator
// may read Secrets there.
func (r *Rule) InvalidSource() string {
	if !r.isOutside(r.Namespace) {
		return ""
	}
	return fmt.Sprintf("the installation does not share Secrets of the namespace %s: %s", r.Namespace, addNamespace)
}

func mayMatch(selector labels.Selector, set labels.Set) bool {
	return selector == nil || selector.Matches(set)
}

// NamedTargets returns the namespaces that the rule names without a glob and does not
// exclude.
func (r *Rule) NamedTargets() []string { return slices.DeleteFunc(r.named(), r.excludes) }

func (r *Rule) named() []string {
	var names []string
	for _, name := range r.Spec.Targets.Names {
		if glob.Pattern(name).IsLiteral() {
			names = append(names, string(name))
		}
	}
	return names
}

// InvalidTarget returns what is wrong with the namespaces that the rule names. It is empty
// if all of them can be targets.
func (r *Rule) InvalidTarget() string {
	named := r.NamedTargets()
	switch {
	case slices.Contains(named, r.Namespace):
		return "spec.targets.names contains the rule's own namespace: remove it"
	case slices.Contains(r.named(), r.Operator):
		return "spec.targets.names contains the namespace of the operator, which gets no copies: remove it"
	}
	for _, name := range r.named() {
		if r.isOutside(name) {
			return fmt.Sprintf("spec.targets.names contains the namespace %s, to which the installation does not copy Secrets: remove it, or %s", name, addNamespace)
		}
		if r.Protects(name) {
			return fmt.Sprintf("spec.targets.names contains the namespace %s, which is protected and gets no copies: remove it", name)
		}
	}
	return ""
}
