package share

import (
	"bytes"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Verdict is what has to be done about a Secret that stands where a copy is to be.
type Verdict int

const (
	// Foreign: it is somebody else's and must not be touched.
	Foreign Verdict = iota
	// Same: it is as it should be.
	Same
	// Update: it is ours and can be put right.
	Update
	// Replace: it is ours and can only be put right by deleting it and creating it
	// again: its type cannot be changed, nor anything of an immutable one.
	Replace
)

// Judge compares the Secret that there is with the copy that is wanted.
func Judge(live, want *corev1.Secret) Verdict {
	switch {
	case RuleOf(live.Annotations) != RuleOf(want.Annotations):
		return Foreign
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
		return Same
	}
	return Update
}

// typeOf is the type that the API server gives to a Secret of none.
func typeOf(s *corev1.Secret) corev1.SecretType {
	if s.Type == "" {
		return corev1.SecretTypeOpaque
	}
	return s.Type
}

func isImmutable(s *corev1.Secret) bool { return s.Immutable != nil && *s.Immutable }

// IsBare tells whether others have put nothing on a copy that is as it is wanted.
func IsBare(live, want *corev1.Secret) bool {
	return maps.Equal(live.Labels, want.Labels) && maps.Equal(live.Annotations, want.Annotations) &&
		len(live.OwnerReferences)+len(live.Finalizers) == 0
}

// Merge returns live as it has to be: all of the copy that is wanted, and besides
// only labels and annotations that others have put on it. Whoever adds those to
// every Secret, as admission webhooks do, would otherwise never agree with us.
func Merge(live, want *corev1.Secret) *corev1.Secret {
	merged := live.DeepCopy()
	dropCopied(merged)
	merged.Labels = overlay(merged.Labels, want.Labels)
	merged.Annotations = overlay(merged.Annotations, want.Annotations)
	merged.Data, merged.StringData, merged.Immutable = want.Data, nil, want.Immutable
	return merged
}

// dropCopied removes what once came from the source.
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
