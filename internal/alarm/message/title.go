package message

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// Limits of the parts of a default title, in characters. What happened uses the rest.
const (
	maxSubjectLength = 70
	maxDetailLength  = 40
)

// subject is what a title is about. A phone shows only its first characters, so titles begin with it.
type subject struct {
	// namespace can be empty, and name too if there are several objects of different owners.
	namespace, name string
	eventNamespace  string // see Event.EventNamespace
}

func subjectOf(e *Event) subject {
	return subject{e.Regarding.Namespace, cmp.Or(e.Object.Owner.Name, e.Regarding.Name), e.EventNamespace}
}

// common returns what both subjects have in common.
func (s subject) common(other subject) subject {
	switch {
	case s == other:
		return s
	case s.namespace == other.namespace && s.eventNamespace == other.eventNamespace:
		return subject{namespace: s.namespace, eventNamespace: s.eventNamespace}
	default:
		return subject{}
	}
}

// defaultTitle says what happened to which object: "shop/web: BackOff (Pod web-5d9c-x2x4)".
func defaultTitle(e *Event) string {
	return titleOf(subjectOf(e), cmp.Or(e.Object.Cause, e.Reason), objectIn(e))
}

// objectIn names the object of an Event below its subject.
func objectIn(e *Event) string {
	if e.Object.Owner.Name == "" {
		return e.Regarding.Kind
	}
	return objectName(e.Regarding.Kind, "", e.Regarding.Name)
}

// plural returns a text like "10 pods".
func plural(n int, kind string) string {
	if kind == "" {
		return fmt.Sprintf("%d objects", n)
	}
	many, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: kind})
	return fmt.Sprintf("%d %s", n, many.Resource)
}

// titleOf returns "SUBJECT: WHAT (DETAIL)". Each part can be empty.
func titleOf(s subject, what, detail string) string {
	head := s.name
	if s.namespace != "" {
		head = strings.TrimSuffix(s.namespace+"/"+s.name, "/")
	}
	head, tail := plaintext.CutRunes(head, maxSubjectLength), originOf(s.eventNamespace)
	if detail != "" {
		tail = " (" + plaintext.CutRunes(detail, maxDetailLength) + ")" + tail
	}
	if head != "" && what != "" {
		head += ": "
	}
	left := MaxTitleLength - utf8.RuneCountInString(head) - utf8.RuneCountInString(tail)
	return strings.TrimSpace(head + clauses(what, left) + tail)
}

// clauses returns the first parts of "what is wrong: what to do" that fit into a number of characters.
func clauses(text string, limit int) string {
	fit := plaintext.CutRunes(text, limit)
	if fit == text {
		return text
	}
	if end := strings.LastIndex(fit, ": "); end > 0 {
		return fit[:end]
	}
	return fit
}

// commonClauses returns the first parts of "what is wrong: what to do" that two texts have in common.
func commonClauses(a, b string) string {
	var common []string
	for first, second := strings.Split(a, ": "), strings.Split(b, ": "); len(common) < min(len(first), len(second)); {
		n := len(common)
		if first[n] != second[n] {
			break
		}
		common = append(common, first[n])
	}
	return strings.Join(common, ": ")
}
