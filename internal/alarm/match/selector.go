package match

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/glob"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// compileSelector returns nil for a selector that is not set. An empty selector, in
// contrast, selects everything.
func compileSelector(field string, selector *metav1.LabelSelector) (labels.Selector, error) {
	if selector == nil {
		return nil, nil
	}
	invalid := func(message string) error {
		return &CompileError{Reason: v1alpha1.ReasonInvalidMatch, Field: field, Message: plaintext.CutRunes(plaintext.Line(message), maxCompileMessage)}
	}
	if size := selectorSize(selector); size > maxSelectorSize {
		return nil, invalid(fmt.Sprintf("it has %d labels and values, the limit is %d: use fewer, or another alarm", size, maxSelectorSize))
	}
	compiled, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, invalid(err.Error())
	}
	return compiled, nil
}

func globs(texts []string) []glob.Pattern {
	var patterns []glob.Pattern
	for _, text := range texts {
		patterns = append(patterns, glob.Pattern(text))
	}
	return patterns
}

func selectorSize(selector *metav1.LabelSelector) int {
	if selector == nil {
		return 0
	}
	size := len(selector.MatchLabels)
	for _, requirement := range selector.MatchExpressions {
		size += 1 + len(requirement.Values)
	}
	return size
}

// maxSelectorSize is the number of labels and values in a selector. Each can be compared
// for each Event.
const maxSelectorSize = 256
