package match

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
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

// names are the globs of a list of names. An empty one accepts every name.
type names struct {
	// A name must match one of the included patterns, if there are any, and none of the excluded ones.
	included, excluded []glob.Pattern
}

func namesOf(list []string) names {
	included, excluded := Split(list)
	return names{globs(included), globs(excluded)}
}

// Split returns the entries of a list of reasons or globs that select, and those that exclude, without their "!".
func Split(list []string) (included, excluded []string) {
	for _, text := range list {
		if what, excludes := strings.CutPrefix(text, "!"); excludes {
			excluded = append(excluded, what)
		} else {
			included = append(included, text)
		}
	}
	return included, excluded
}

// AcceptsName reports whether a list of globs such as spec.namespaces selects a name.
func AcceptsName(list []string, name string) bool {
	n := namesOf(list)
	return n.accepts(name, new(int))
}

func globs(texts []string) []glob.Pattern {
	var patterns []glob.Pattern
	for _, text := range texts {
		patterns = append(patterns, glob.Pattern(text))
	}
	return patterns
}

// accepts adds the steps of the globs to steps.
func (n *names) accepts(name string, steps *int) bool {
	matches := func(g glob.Pattern) bool { return g.MatchCounting(name, steps) }
	return (len(n.included) == 0 || slices.ContainsFunc(n.included, matches)) && !slices.ContainsFunc(n.excluded, matches)
}

// namespaceSelector selects namespaces by their labels. One of them is the name.
type namespaceSelector struct {
	labels.Selector
	names names
}

// compileNamespaces returns nil if spec.namespaces and spec.namespaceSelector are not set.
func compileNamespaces(list []string, selector *metav1.LabelSelector) (labels.Selector, error) {
	compiled, err := compileSelector("spec.namespaceSelector", selector)
	if len(list) == 0 || err != nil {
		return compiled, err
	}
	if compiled == nil {
		compiled = labels.Everything()
	}
	return namespaceSelector{compiled, namesOf(list)}, nil
}

// Matches implements labels.Selector. The API server gives each namespace a label with its name.
func (s namespaceSelector) Matches(set labels.Labels) bool {
	return s.names.accepts(set.Get(corev1.LabelMetadataName), new(int)) && s.Selector.Matches(set)
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
