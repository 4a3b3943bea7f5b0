package share

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// Refusal says why a Secret is not copied.
type Refusal struct {
	// Reason is a v1alpha1.Reason constant.
	Reason string
	// Message is a sentence for the rule's owner.
	Message string
}

// neverCopied are the types of Secrets that are worth nothing, or too much, in
// another place.
var neverCopied = map[corev1.SecretType]string{
	corev1.SecretTypeServiceAccountToken: "a token of a service account, which is of its own namespace",
	"bootstrap.kubernetes.io/token":      "a token by which nodes join the cluster",
	"helm.sh/release.v1":                 "Helm's record of a release",
}

// Copy returns what a copy of the source looks like, without a namespace; or why
// there is none.
func (r *Rule) Copy(source *corev1.Secret) (*corev1.Secret, *Refusal) {
	if what, ok := neverCopied[source.Type]; ok {
		return nil, &Refusal{v1alpha1.ReasonSourceRefused, fmt.Sprintf("Secret %s is %s: it is never copied", describe(source), what)}
	}
	if RuleOf(source.Annotations) != "" {
		return nil, &Refusal{
			v1alpha1.ReasonSourceRefused,
			fmt.Sprintf("Secret %s is a copy of %s itself: share that one", describe(source), Named(source, AnnotationSource)),
		}
	}
	data, refusal := r.data(source)
	if refusal != nil {
		return nil, refusal
	}
	set := allowed(source.Labels, r.Spec.CopyLabels)
	annotations := allowed(source.Annotations, r.Spec.CopyAnnotations)
	marks := map[string]string{
		AnnotationRuleUID: r.UID, AnnotationSourceUID: string(source.UID),
		AnnotationRule: r.Name, AnnotationSource: describe(source), AnnotationCopied: copied(set, annotations),
	}
	set[LabelRuleUID] = r.UID
	maps.Copy(annotations, marks)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: source.Name, Labels: set, Annotations: annotations},
		Type:       source.Type, Data: data, Immutable: source.Immutable,
	}, nil
}

// data returns what the copy holds.
func (r *Rule) data(source *corev1.Secret) (map[string][]byte, *Refusal) {
	data := source.Data
	if keys := r.Spec.Keys; len(keys) > 0 {
		data = make(map[string][]byte, len(keys))
		for _, key := range keys {
			value, ok := source.Data[key.From]
			if !ok {
				return nil, &Refusal{
					v1alpha1.ReasonKeyNotFound,
					fmt.Sprintf("Secret %s has no key %q: add it, or take it out of spec.keys", describe(source), key.From),
				}
			}
			data[calledIn(key)] = value
		}
	}
	if missing := missingKeys(source.Type, data); missing != "" {
		return nil, &Refusal{
			v1alpha1.ReasonKeyNotFound,
			fmt.Sprintf("a copy of Secret %s is of type %s and needs %s: add it to spec.keys", describe(source), source.Type, missing),
		}
	}
	return data, nil
}

// calledIn is how a copy calls the key.
func calledIn(key v1alpha1.SecretKeyMapping) string {
	if key.To != "" {
		return key.To
	}
	return key.From
}

// requiredKeys are those that the API server demands of a type: in each list any
// one of them
// (https://kubernetes.io/docs/concepts/configuration/secret/#secret-types).
var requiredKeys = map[corev1.SecretType][][]string{
	corev1.SecretTypeDockercfg:        {{corev1.DockerConfigKey}},
	corev1.SecretTypeDockerConfigJson: {{corev1.DockerConfigJsonKey}},
	corev1.SecretTypeBasicAuth:        {{corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey}},
	corev1.SecretTypeSSHAuth:          {{corev1.SSHAuthPrivateKey}},
	corev1.SecretTypeTLS:              {{corev1.TLSCertKey}, {corev1.TLSPrivateKeyKey}},
}

func missingKeys(kind corev1.SecretType, data map[string][]byte) string {
	for _, anyOf := range requiredKeys[kind] {
		if !slices.ContainsFunc(anyOf, func(key string) bool { _, ok := data[key]; return ok }) {
			return "the key " + strings.Join(anyOf, " or ")
		}
	}
	return ""
}
