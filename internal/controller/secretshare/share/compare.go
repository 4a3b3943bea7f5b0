package share

import (
	"bytes"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// Action is what to do with a Secret that has the name of a wanted copy.
type Action int

const (
	// Conflict means that the rule does not own the Secret: do not change it.
	Conflict Action = iota
	// Keep means that the Secret is a copy and up to date.
	Keep
	// Update means that the Secret is a copy that an update brings up to date.
	Update
	// Replace means that the copy must be deleted and created again. Its type is wrong, it is
	// immutable, or it is that of an earlier rule of the same name.
	Replace
)

// Compare compares the existing Secret with the wanted copy.
func Compare(live, want *corev1.Secret) Action {
	switch {
	case isOfPredecessor(live, want):
		return Replace
	case RuleOf(live.Annotations) != RuleOf(want.Annotations) && !isAdopted(live, want):
		return Conflict
	case live.Type != typeOf(want):
		return Replace
	case !maps.EqualFunc(live.Data, want.Data, bytes.Equal) || isImmutable(live) && !isImmutable(want):
		if isImmutable(live) {
			return Replace
		}
		return Update
	case isImmutable(live) != isImmutable(want):
		return Update
	}
	merged := Merge(live, want)
	if maps.Equal(merged.Labels, live.Labels) && maps.Equal(merged.Annotations, live.Annotations) {
		return Keep
	}
	return Update
}

// isAdopted reports whether the owner of a Secret that is not a copy gives it to the rule of
// the wanted copy.
func isAdopted(live, want *corev1.Secret) bool {
	return RuleOf(live.Annotations) == "" && live.Annotations[AnnotationAdopt] == want.Annotations[AnnotationRule]
}

// isOfPredecessor reports whether a Secret is the copy of an earlier rule of the same kind and name.
// It comes from a backup, or from before the rule was created again. That rule exists no longer,
// because names are unique. The next owner of a namespace's name does not get the copies of the former one.
func isOfPredecessor(live, want *corev1.Secret) bool {
	name, namespace := want.Annotations[AnnotationRule], want.Annotations[AnnotationNamespaceUID]
	return RuleOf(live.Annotations) != "" && RuleOf(live.Annotations) != RuleOf(want.Annotations) &&
		live.Annotations[AnnotationRule] == name && live.Annotations[AnnotationNamespaceUID] == namespace &&
		(namespace != "" || strings.HasPrefix(name, v1alpha1.KindClusterSecretShare+"/"))
}

// typeOf returns the type, with the default of the API server.
func typeOf(s *corev1.Secret) corev1.SecretType {
	if s.Type == "" {
		return corev1.SecretTypeOpaque
	}
	return s.Type
}

func isImmutable(s *corev1.Secret) bool { return s.Immutable != nil && *s.Immutable }

// IsExact reports whether the metadata of a copy is exactly as wanted. An update can then
// overwrite the copy without losing metadata of others.
func IsExact(live, want *corev1.Secret) bool {
	return maps.Equal(live.Labels, want.Labels) && maps.Equal(live.Annotations, want.Annotations) &&
		len(live.OwnerReferences)+len(live.Finalizers) == 0
}

// Merge returns live with everything from the wanted copy. It keeps the labels and
// annotations that others have added. Otherwise the operator would fight with admission
// webhooks that add them to every Secret. The result shares the values of the data with
// want, but not the map.
func Merge(live, want *corev1.Secret) *corev1.Secret {
	merged := live.DeepCopy()
	dropCopied(merged)
	delete(merged.Annotations, AnnotationAdopt)
	merged.Labels = overlay(merged.Labels, want.Labels)
	merged.Annotations = overlay(merged.Annotations, want.Annotations)
	merged.Data, merged.StringData, merged.Immutable = maps.Clone(want.Data), nil, want.Immutable
	return merged
}

// dropCopied removes the labels and annotations that were copied from the source.
func dropCopied(s *corev1.Secret) {
	for entry := range strings.FieldsSeq(s.Annotations[AnnotationCopied]) {
		if key, ok := strings.CutPrefix(entry, copiedLabel); ok {
			delete(s.Labels, key)
		} else if key, ok := strings.CutPrefix(entry, copiedAnnotation); ok {
			delete(s.Annotations, key)
		}
	}
}

func overlay(base, over map[string]string) map[string]string {
	if base == nil {
		base = map[string]string{}
	}
	maps.Copy(base, over)
	return base
}
