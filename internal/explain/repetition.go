package explain

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// asAbove replaces a message that the text contains already.
const asAbove = "as above"

// briefConditions are the conditions without messages that repeat a cause.
func briefConditions(x *Explanation) []metav1.Condition {
	conditions := slices.Clone(x.Conditions)
	for i := range conditions {
		if repeats(x, conditions[i].Message) {
			conditions[i].Message = asAbove
		}
	}
	return conditions
}

// briefLastFailure is the last failure without a message that repeats a cause.
func briefLastFailure(x *Explanation) *v1alpha1.LastFailure {
	if x.LastFailure == nil || !repeats(x, x.LastFailure.Message) {
		return x.LastFailure
	}
	last := x.LastFailure.DeepCopy()
	last.Message = asAbove
	return last
}

// repeats reports whether a message contains only what a printed cause does. The message of
// a condition can also name other causes behind the first, or what was not checked.
func repeats(x *Explanation, message string) bool {
	causes := slices.Clone(x.Others)
	for _, c := range []*Cause{x.Cause, x.LastCrash} {
		if c != nil {
			causes = append(causes, *c)
		}
	}
	return slices.ContainsFunc(causes, func(c Cause) bool {
		d := c.diagnosis()
		rest, ok := strings.CutPrefix(plaintext.Line(message), plaintext.Line(d.Lines()))
		return message == d.Sentence() || message == c.Message || ok && (rest == "" || strings.HasPrefix(rest, " (besides: ") || strings.HasPrefix(rest, "; "))
	})
}
