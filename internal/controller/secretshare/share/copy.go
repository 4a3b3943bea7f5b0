package share

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/glob"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// Domain is the prefix of the operator's labels and annotations.
const Domain = "bongsu.io/"

// A Secret is a copy if it has both annotations RuleUID and SourceUID. The label only
// helps to find copies.
const (
	// LabelRuleUID is the label by which the API server selects the copies of a rule.
	LabelRuleUID = Domain + "rule-uid"
	// AnnotationRuleUID is the UID of the rule that owns the copy.
	AnnotationRuleUID = Domain + "rule-uid"
	// AnnotationSourceUID is the UID of the source.
	AnnotationSourceUID = Domain + "source-uid"
	// AnnotationRule names the rule for users: KIND/NAMESPACE/NAME, or KIND/NAME.
	AnnotationRule = Domain + "rule"
	// AnnotationSource names the source for users: NAMESPACE/NAME.
	AnnotationSource = Domain + "source"
	// AnnotationNamespaceUID is the UID of a SecretShare's namespace.
	AnnotationNamespaceUID = Domain + "namespace-uid"
	// AnnotationCopied lists the labels and annotations that were copied from the source.
	// They are removed when the source no longer has them. All others stay.
	AnnotationCopied = Domain + "copied"
)

// AnnotationAdopt lets a rule make a copy of a Secret that is not one. Its value is the name
// of the rule, as in AnnotationRule. The owner of the Secret sets it.
const AnnotationAdopt = Domain + "adopt"

// AnnotationReleasedBy is set on a Secret that was a copy until its rule released it. Its value is
// that of IdentityOf. The next rule with this identity can make a copy of the Secret again.
const AnnotationReleasedBy = Domain + "released-by"

// maxUID limits UIDs, in bytes. Those of Kubernetes have 36.
const maxUID = 64

// RuleOf returns the UID of the rule that owns a Secret with these annotations. It is
// empty if the Secret is not a copy. Tenants can write any annotation, so longer values are
// not UIDs: the operator keeps the UIDs of all copies in memory.
func RuleOf(annotations map[string]string) string {
	rule, source := annotations[AnnotationRuleUID], annotations[AnnotationSourceUID]
	if source == "" || len(source) > maxUID || len(rule) > maxUID {
		return ""
	}
	return rule
}

// IdentityOf returns what a rule has in common with the next rule of its name, from the annotations
// of its copy. It is KIND/NAME, or KIND/NAMESPACE/NAME@UID with the UID of the namespace. It is
// empty if that UID is not known, or if the annotations cannot be those of a copy.
func IdentityOf(annotations map[string]string) string {
	rule, namespaceUID := annotations[AnnotationRule], annotations[AnnotationNamespaceUID]
	if len(rule) > maxPrintable || len(namespaceUID) > maxUID {
		return ""
	}
	return identity(rule, namespaceUID)
}

// Identity returns what the copies of the rule have in common with those of an earlier rule of its
// name; see [IdentityOf]. It is empty if the UID of a SecretShare's namespace is not known.
func (r *Rule) Identity() string { return identity(r.Name, r.NamespaceUID) }

func identity(rule, namespaceUID string) string {
	switch {
	case isOfCluster(rule):
		return rule
	case rule == "" || namespaceUID == "":
		return ""
	}
	return rule + "@" + namespaceUID
}

// SourceOf returns the NAMESPACE/NAME of the source of a Secret with these annotations. It
// is empty if the annotation cannot be a name.
func SourceOf(annotations map[string]string) string {
	if source := annotations[AnnotationSource]; len(source) <= maxPrintable {
		return source
	}
	return ""
}

// maxPrintable limits the result of Printable, in bytes.
const maxPrintable = 253 + 1 + 253

// Printable returns the value of AnnotationRule or AnnotationSource, safe for a message.
// A tenant who can write the Secret can set any value.
func Printable(s *corev1.Secret, annotation string) string {
	text := plaintext.Line(s.Annotations[annotation])
	return strings.ToValidUTF8(text[:min(len(text), maxPrintable)], "")
}

// Release makes a copy an ordinary Secret. It keeps one annotation, by which the next rule with the
// same identity can take it back.
func Release(s *corev1.Secret) {
	by := IdentityOf(s.Annotations)
	delete(s.Labels, LabelRuleUID)
	for _, key := range []string{AnnotationRuleUID, AnnotationSourceUID, AnnotationRule, AnnotationSource, AnnotationNamespaceUID, AnnotationCopied} {
		delete(s.Annotations, key)
	}
	if by != "" {
		s.Annotations[AnnotationReleasedBy] = by
	}
}

// Problem is the reason why a Secret is not copied, or why a copy is not up to date. The zero value
// means that there is none.
type Problem struct {
	// Reason is a v1alpha1.Reason constant.
	Reason string
	// Message is for the author of the rule, or for the owner of the copy's namespace.
	Message string
}

// neverCopied are the types of Secrets that are useless or dangerous in another
// namespace.
var neverCopied = map[corev1.SecretType]string{ //nolint:gosec // sentences, no tokens
	corev1.SecretTypeServiceAccountToken: "a service account token, which belongs to one namespace",
	"bootstrap.kubernetes.io/token":      "a bootstrap token, by which nodes join the cluster",
	"helm.sh/release.v1":                 "a record of a Helm release",
}

// Copy returns the copy of a source, without a namespace, or the reason why there is
// none.
func (r *Rule) Copy(source *corev1.Secret) (*corev1.Secret, *Problem) {
	if what, ok := neverCopied[source.Type]; ok {
		return nil, &Problem{
			v1alpha1.ReasonSourceRefused,
			fmt.Sprintf("Secret %s is never copied because it is %s: remove it from spec.source", nameOf(source), what),
		}
	}
	if RuleOf(source.Annotations) != "" {
		return nil, &Problem{
			v1alpha1.ReasonSourceRefused,
			fmt.Sprintf("Secret %s is a copy of %s: share the original instead", nameOf(source), Printable(source, AnnotationSource)),
		}
	}
	name := r.CopyName(source.Name)
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil, &Problem{
			v1alpha1.ReasonSourceRefused,
			fmt.Sprintf("the copy of Secret %s cannot have the name %s, which has more than %d characters or is not a DNS name: correct spec.copyName",
				nameOf(source), name, validation.DNS1123SubdomainMaxLength),
		}
	}
	data, refusal := r.data(source)
	if refusal != nil {
		return nil, refusal
	}
	set := r.allowed(source.Labels, r.Spec.CopyLabels)
	annotations := r.allowed(source.Annotations, r.Spec.CopyAnnotations)
	marks := map[string]string{
		AnnotationRuleUID: r.UID, AnnotationSourceUID: string(source.UID),
		AnnotationRule: r.Name, AnnotationSource: nameOf(source), AnnotationCopied: copiedKeys(set, annotations),
	}
	if r.NamespaceUID != "" {
		marks[AnnotationNamespaceUID] = r.NamespaceUID
	}
	set[LabelRuleUID] = r.UID
	maps.Copy(annotations, marks)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: set, Annotations: annotations},
		Type:       source.Type, Data: data, Immutable: source.Immutable,
	}, nil
}

// nameOf returns NAMESPACE/NAME.
func nameOf(s *corev1.Secret) string { return s.Namespace + "/" + s.Name }

// data returns the data of the copy.
func (r *Rule) data(source *corev1.Secret) (map[string][]byte, *Problem) {
	data := source.Data
	if keys := r.Spec.Keys; len(keys) > 0 {
		data = make(map[string][]byte, len(keys))
		for _, key := range keys {
			value, ok := source.Data[key.From]
			if !ok {
				return nil, &Problem{
					v1alpha1.ReasonKeyNotFound,
					fmt.Sprintf("Secret %s has no key %q: add it, or remove it from spec.keys", nameOf(source), key.From),
				}
			}
			data[keyInCopy(key)] = value
		}
	}
	if missing := missingKeys(source.Type, data); len(missing) > 0 {
		return nil, &Problem{
			v1alpha1.ReasonKeyNotFound,
			fmt.Sprintf("a copy of Secret %s would lack the key %s, which the type %s requires: %s",
				nameOf(source), strings.Join(missing, " or "), source.Type, r.keepKeys(missing)),
		}
	}
	return data, nil
}

// keepKeys returns what to do so that the copy has one of these keys of its source.
func (r *Rule) keepKeys(anyOf []string) string {
	for _, key := range r.Spec.Keys {
		if slices.Contains(anyOf, key.From) {
			return fmt.Sprintf("it cannot be renamed, so remove the field to of %s from spec.keys", key.From)
		}
	}
	return "add it to spec.keys"
}

func keyInCopy(key v1alpha1.SecretKeyMapping) string {
	if key.To != "" {
		return key.To
	}
	return key.From
}

// requiredKeys are the keys that the API server requires for a type. The Secret must have
// at least one key of each list. See
// https://kubernetes.io/docs/concepts/configuration/secret/#secret-types.
var requiredKeys = map[corev1.SecretType][][]string{
	corev1.SecretTypeDockercfg:        {{corev1.DockerConfigKey}},
	corev1.SecretTypeDockerConfigJson: {{corev1.DockerConfigJsonKey}},
	corev1.SecretTypeBasicAuth:        {{corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey}},
	corev1.SecretTypeSSHAuth:          {{corev1.SSHAuthPrivateKey}},
	corev1.SecretTypeTLS:              {{corev1.TLSCertKey}, {corev1.TLSPrivateKeyKey}},
}

// missingKeys returns keys if a Secret of a type must have one of them, and has none.
func missingKeys(kind corev1.SecretType, data map[string][]byte) []string {
	for _, anyOf := range requiredKeys[kind] {
		if !slices.ContainsFunc(anyOf, func(key string) bool { _, ok := data[key]; return ok }) {
			return anyOf
		}
	}
	return nil
}

// privateMetadata is never copied: the marks of copies, and what `kubectl apply` stores, which
// contains all values of the source.
var privateMetadata = []glob.Pattern{Domain + "*", "kubectl.kubernetes.io/*"}

// toolMetadata are the labels and annotations by which deployment tools find their
// objects. A tool would take a copy with them for its own, and delete or overwrite it. They are
// copied only if a ClusterSecretShare names them exactly. A grant for a SecretShare does not allow
// its owner to create objects of a tool.
var toolMetadata = []glob.Pattern{
	"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", // defaults of Argo CD and Helm
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

// allowed returns the entries that match a pattern.
func (r *Rule) allowed(m map[string]string, patterns []v1alpha1.MetadataGlob) map[string]string {
	kept := map[string]string{}
	for key, value := range m {
		if glob.MatchAny(patterns, key) && !glob.MatchAny(privateMetadata, key) && !r.isLeftOut(key, patterns) {
			kept[key] = value
		}
	}
	return kept
}

// isLeftOut reports whether a key matches a pattern, but is not copied because it is that of a tool.
func (r *Rule) isLeftOut(key string, patterns []v1alpha1.MetadataGlob) bool {
	isNamed := r.IsOfCluster() && slices.Contains(patterns, v1alpha1.MetadataGlob(key))
	return glob.MatchAny(patterns, key) && glob.MatchAny(toolMetadata, key) && !isNamed
}

// IsOfCluster reports whether the rule is a ClusterSecretShare.
func (r *Rule) IsOfCluster() bool { return isOfCluster(r.Name) }

func isOfCluster(rule string) bool {
	return strings.HasPrefix(rule, v1alpha1.KindClusterSecretShare+"/")
}

// LeftOut returns the labels and annotations of a source that the rule lists, but that are not copied.
// A tool recognizes its objects by them. They have the form "label KEY".
func (r *Rule) LeftOut(source *corev1.Secret) []string {
	var keys []string
	for key := range source.Labels {
		if r.isLeftOut(key, r.Spec.CopyLabels) {
			keys = append(keys, "label "+key)
		}
	}
	for key := range source.Annotations {
		if r.isLeftOut(key, r.Spec.CopyAnnotations) {
			keys = append(keys, "annotation "+key)
		}
	}
	slices.Sort(keys)
	return keys
}

// The prefixes of the entries of AnnotationCopied.
const (
	copiedLabel      = "label:"
	copiedAnnotation = "annotation:"
)

// copiedKeys returns the value of AnnotationCopied.
func copiedKeys(set, annotations map[string]string) string {
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

// redacted replaces a value.
const redacted = "[redacted]"

// minRedacted is the length, in bytes, from which values are redacted. Shorter values
// occur in any text and reveal nothing.
const minRedacted = 4

// Redact replaces the values of Secrets in a text, plain or in base64. A webhook or
// policy that refuses a request can quote the new and the present Secret.
func Redact(text string, secrets ...*corev1.Secret) string {
	var forms []string
	for _, s := range secrets {
		for _, value := range s.Data {
			forms = append(forms, string(value), strings.TrimSpace(string(value)), base64.StdEncoding.EncodeToString(value))
		}
	}
	// Replace the longest first, because a value can contain another one.
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	for _, form := range forms {
		if len(form) >= minRedacted {
			text = strings.ReplaceAll(text, form, redacted)
		}
	}
	return text
}
