package share

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// Domain is the prefix of our own labels and annotations.
const Domain = "bongsu.io/"

// A copy is ours by the annotations RuleUID and SourceUID, both of them. The
// label finds copies; alone it says nothing.
const (
	// LabelRuleUID lets the API server select the copies of a rule.
	LabelRuleUID = Domain + "rule-uid"
	// AnnotationRuleUID is the UID of the rule that made the copy.
	AnnotationRuleUID = Domain + "rule-uid"
	// AnnotationSourceUID is the UID of the Secret that it is a copy of.
	AnnotationSourceUID = Domain + "source-uid"
	// AnnotationRule and AnnotationSource name both for people: KIND/NAMESPACE/NAME
	// without an empty namespace, and NAMESPACE/NAME.
	AnnotationRule   = Domain + "rule"
	AnnotationSource = Domain + "source"
	// AnnotationCopied lists the labels and annotations that came from the source,
	// so that they can go with it and foreign ones can stay.
	AnnotationCopied = Domain + "copied"
)

// RuleOf returns the UID of the rule that a Secret is a copy of, by its
// annotations; empty if it is no copy.
func RuleOf(annotations map[string]string) string {
	if annotations[AnnotationSourceUID] == "" {
		return ""
	}
	return annotations[AnnotationRuleUID]
}

// maxNamed is how much is told of a mark that names something, in bytes.
const maxNamed = 253 + 1 + 253

// Named returns what AnnotationRule or AnnotationSource of a Secret says, fit to be
// told: whoever may write the Secret can write there what they like.
func Named(s *corev1.Secret, annotation string) string {
	text := plaintext.Line(s.Annotations[annotation])
	return strings.ToValidUTF8(text[:min(len(text), maxNamed)], "")
}

// Unmark makes a copy a Secret like any other.
func Unmark(s *corev1.Secret) {
	delete(s.Labels, LabelRuleUID)
	for _, key := range []string{AnnotationRuleUID, AnnotationSourceUID, AnnotationRule, AnnotationSource, AnnotationCopied} {
		delete(s.Annotations, key)
	}
}
