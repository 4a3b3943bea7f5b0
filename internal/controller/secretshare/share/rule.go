package share

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/glob"
)

// Definition is a SecretShare or a ClusterSecretShare as the API has it.
type Definition struct {
	// UID of the rule, and how it is called: KIND/NAMESPACE/NAME, or KIND/NAME.
	UID, Name string
	// Namespace of the sources.
	Namespace string
	Source    v1alpha1.SecretSource
	Spec      v1alpha1.SecretCopySpec
}

// Rule is a compiled Definition. It is immutable and safe for concurrent use.
type Rule struct {
	Definition
	source, namespaces labels.Selector // nil: wrong
}

// Compile checks what the API server cannot. Its error is a sentence for the
// rule's owner. It returns a Rule even then: a wrong selector matches everything, so
// the rule still reports what it cannot mean.
func Compile(def Definition) (*Rule, error) {
	r := &Rule{Definition: def}
	var errSource, errTargets error
	r.source, errSource = selector("spec.source.selector", def.Source.Selector)
	r.namespaces, errTargets = selector("spec.targets.namespaceSelector", def.Spec.Targets.NamespaceSelector)
	return r, cmp.Or(errSource, errTargets)
}

func selector(field string, s *metav1.LabelSelector) (labels.Selector, error) {
	if s == nil {
		return labels.Everything(), nil
	}
	compiled, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return compiled, nil
}

// SourceSelector returns what the labels of a source must match; false if the
// selector is wrong.
func (r *Rule) SourceSelector() (labels.Selector, bool) { return r.source, r.source != nil }

// MayName reports whether a source may have this name.
func (r *Rule) MayName(name string) bool {
	return len(r.Source.Names) == 0 || slices.Contains(r.Source.Names, name)
}

// MaySelect tells whether a Secret of the source's namespace may be a source, as
// far as name and labels tell.
func (r *Rule) MaySelect(name string, set labels.Set) bool {
	return r.MayName(name) && mayMatch(r.source, set)
}

// Selects tells whether a Secret of the source's namespace is a source.
func (r *Rule) Selects(s *corev1.Secret) bool {
	return (r.Source.Type == "" || r.Source.Type == string(s.Type)) && r.MaySelect(s.Name, s.Labels)
}

// Targets tells whether a namespace is to get copies.
func (r *Rule) Targets(namespace string, set labels.Set) bool {
	t := &r.Spec.Targets
	return namespace != r.Namespace &&
		(len(t.Names) == 0 || glob.MatchAny(t.Names, namespace)) &&
		!r.excludes(namespace) &&
		mayMatch(r.namespaces, set)
}

// systemPrefix is how the names of the namespaces of Kubernetes begin.
const systemPrefix = "kube-"

// excludes reports whether a namespace gets no copies, whatever else selects it.
func (r *Rule) excludes(namespace string) bool {
	t := &r.Spec.Targets
	return t.SystemNamespaces != v1alpha1.SystemNamespacesInclude && strings.HasPrefix(namespace, systemPrefix) ||
		glob.MatchAny(t.Exclude, namespace)
}

func mayMatch(selector labels.Selector, set labels.Set) bool {
	return selector == nil || selector.Matches(set)
}

// NamedTargets returns the namespaces that the rule names without a glob and does
// not exclude.
func (r *Rule) NamedTargets() []string {
	var names []string
	for _, name := range r.Spec.Targets.Names {
		if glob.Pattern(name).IsLiteral() && !r.excludes(string(name)) {
			names = append(names, string(name))
		}
	}
	return names
}

// TargetsItself tells whether the rule names its own namespace as a target.
func (r *Rule) TargetsItself() bool { return slices.Contains(r.NamedTargets(), r.Namespace) }

// describe names a source for people.
func describe(s *corev1.Secret) string { return s.Namespace + "/" + s.Name }

// trackers are the labels and annotations by which tools know what they deployed.
// A copy that bore them would be taken for theirs, and removed or fought over.
var trackers = []glob.Pattern{
	Domain + "*",
	"kubectl.kubernetes.io/*",
	"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", // Argo CD's default, Helm's
	"argocd.argoproj.io/*",
	"meta.helm.sh/*", "helm.sh/*",
	"*fluxcd.io/*",
	"kapp.k14s.io/*",
	"config.k8s.io/*", "config.kubernetes.io/*", "cli-utils.sigs.k8s.io/*", // kpt, kustomize
	"objectset.rio.cattle.io/*", "fleet.cattle.io/*",
	"kustomize.config.k8s.io/*",
	"skaffold.dev/*", "pulumi.com/*", "app.terraform.io/*",
	"velero.io/*",
}

// allowed returns the entries of m that an allow-list names and no tool tracks.
func allowed(m map[string]string, patterns []v1alpha1.MetadataGlob) map[string]string {
	kept := map[string]string{}
	for key, value := range m {
		if glob.MatchAny(patterns, key) && !glob.MatchAny(trackers, key) {
			kept[key] = value
		}
	}
	return kept
}

// copied lists keys for AnnotationCopied.
func copied(set, annotations map[string]string) string {
	var keys []string
	for key := range set {
		keys = append(keys, copiedLabel+key)
	}
	for key := range annotations {
		keys = append(keys, copiedAnnotation+key)
	}
	slices.Sort(keys)
	return strings.Join(keys, " ")
}

const (
	copiedLabel      = "label:"
	copiedAnnotation = "annotation:"
)
