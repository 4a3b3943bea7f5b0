package share

import (
	"bytes"
	"encoding/json"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
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
	case RuleOf(live.Annotations) != RuleOf(want.Annotations) && !isAdopted(live, want) && !isTakenBack(live, want):
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

// CompareLeft is Compare for a copy that its rule leaves to the rule of the wanted copy. It does not
// return Keep, because the marks change.
func CompareLeft(live, want *corev1.Secret) Action {
	given := live.DeepCopy()
	given.Annotations[AnnotationRuleUID] = RuleOf(want.Annotations)
	if action := Compare(given, want); action != Keep {
		return action
	}
	return Update
}

// isAdopted reports whether the owner of a Secret that is not a copy gives it to the rule of
// the wanted copy.
func isAdopted(live, want *corev1.Secret) bool {
	return RuleOf(live.Annotations) == "" && live.Annotations[AnnotationAdopt] == want.Annotations[AnnotationRule]
}

// isTakenBack reports whether a Secret was released by the rule of the wanted copy, and would not
// lose what someone has changed since. The managers of the fields decide, whatever the content is.
// Otherwise, tenants could find out whether a guessed value is right.
func isTakenBack(live, want *corev1.Secret) bool {
	return IsReleased(live, want) && live.Type == typeOf(want) && !isEdited(live, want)
}

// FieldOwner is the name of the operator in the managed fields of copies.
const FieldOwner = "bongsu"

// managedFields are the parts of metav1.FieldsV1 that decide whether a Secret was edited.
type managedFields struct {
	Data      map[string]any `json:"f:data"`
	Immutable any            `json:"f:immutable"`
	Type      any            `json:"f:type"`
	Metadata  struct {
		Labels      map[string]any `json:"f:labels"`
		Annotations map[string]any `json:"f:annotations"`
	} `json:"f:metadata"`
}

// isEdited reports whether another client than the operator wrote the content of a Secret, or a label
// or annotation that the wanted copy has. It reports true if that is not known.
func isEdited(live, want *corev1.Secret) bool {
	isOurs := false
	for _, entry := range live.ManagedFields {
		var fields managedFields
		if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			return true
		}
		if entry.Manager == FieldOwner {
			isOurs = isOurs || fields.Type != nil
			continue
		}
		if len(fields.Data) > 0 || fields.Immutable != nil || fields.Type != nil ||
			overwrites(fields.Metadata.Labels, want.Labels) || overwrites(fields.Metadata.Annotations, want.Annotations) {
			return true
		}
	}
	return !isOurs
}

// IsReleased reports whether a Secret was a copy until the rule of the wanted copy, or an earlier one
// with its identity, released it.
func IsReleased(live, want *corev1.Secret) bool {
	by := live.Annotations[AnnotationReleasedBy]
	return RuleOf(live.Annotations) == "" && by != "" && by == IdentityOf(want.Annotations)
}

// overwrites reports whether one of these fields is a wanted label or annotation, other than the marks.
func overwrites(fields map[string]any, want map[string]string) bool {
	for key := range want {
		if _, ok := fields["f:"+key]; ok && !strings.HasPrefix(key, Domain) {
			return true
		}
	}
	return false
}

// isOfPredecessor reports whether a Secret is the copy of an earlier rule of the same kind and name.
// It comes from a backup, or from before the rule was created again. That rule exists no longer,
// because names are unique. The next owner of a namespace's name does not get the copies of the former one.
func isOfPredecessor(live, want *corev1.Secret) bool {
	identity := IdentityOf(live.Annotations)
	return RuleOf(live.Annotations) != "" && RuleOf(live.Annotations) != RuleOf(want.Annotations) &&
		identity != "" && identity == IdentityOf(want.Annotations)
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
	delete(merged.Annotations, AnnotationReleasedBy)
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
