package match

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

const (
	invalidExpression = v1alpha1.ReasonInvalidExpression
	invalidMatch      = v1alpha1.ReasonInvalidMatch
)

func TestCompileErrorNamesFieldAndPlace(t *testing.T) {
	expression := func(s string) Definition { return clusterAlarm(v1alpha1.EventMatch{Expression: s}) }
	message := func(title, text string) Definition {
		def := clusterAlarm()
		def.Spec.Message = v1alpha1.AlarmMessage{Title: title, Text: text}
		return def
	}
	badSelector := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	badNamespaces := clusterAlarm()
	badNamespaces.NamespaceSelector = badSelector

	for name, tc := range map[string]struct {
		def          Definition
		reason       string
		wantError    string // prefix of the text
		line, column int
	}{
		"undeclared name": {
			expression(`event.count > 1 && evnt.count > 2`), invalidExpression,
			"spec.match[0].expression is invalid at column 20: undeclared reference to 'evnt'", 1, 20},
		"undefined field": {
			expression(`event.nope == ""`), invalidExpression,
			"spec.match[0].expression is invalid at column 6: undefined field 'nope'", 1, 6},
		"on the second line": {
			expression("true &&\n  evnt"), invalidExpression,
			"spec.match[0].expression is invalid at line 2, column 3: undeclared reference to 'evnt'", 2, 3},
		"after multi-byte characters": {
			expression(`"봉수" == evnt`), invalidExpression,
			"spec.match[0].expression is invalid at column 9: undeclared reference to 'evnt'", 1, 9},
		"syntax": {
			expression(`event.count >`), invalidExpression,
			"spec.match[0].expression is invalid at column 14: Syntax error: ", 1, 14},
		"not a bool": {
			expression(`event.count`), invalidExpression,
			"spec.match[0].expression is invalid at column 1: the result is of type int: it must be bool", 1, 1},
		"not a bool of unknown type": {
			expression(`math.greatest(event.count, 1.5)`), invalidExpression,
			"spec.match[0].expression is invalid at column 1: the result is of type dyn: it must be bool", 1, 1},
		"regular expression": {
			expression(`event.note.matches("(")`), invalidExpression,
			"spec.match[0].expression is invalid at column 20: ", 1, 20},
		"cost too high": {
			expression(`object.metadata.annotations.all(a, object.metadata.annotations.all(b, a == b))`), invalidExpression,
			"spec.match[0].expression is invalid at column 1: the cost can reach ", 1, 1},
		"unbounded cost": {
			expression(`event.note` + strings.Repeat(`.replace("", event.note)`, 5) + ` == ""`), invalidExpression,
			"spec.match[0].expression is invalid at column 1: the cost is unbounded, the limit is 100000: write a cheaper expression", 1, 1},
		"constructed object": {
			expression(`Event{note: "x"}.note == "x"`), invalidExpression,
			"spec.match[0].expression is invalid at column 6: an expression cannot construct an object", 1, 6},
		"text that grows": {
			expression(`event.note.replace("", event.note).replace("", event.note).size() > 3`), invalidExpression,
			"spec.match[0].expression is invalid at column 1: the cost can reach ", 1, 1},
		"second entry": {
			clusterAlarm(v1alpha1.EventMatch{}, v1alpha1.EventMatch{Expression: "x"}), invalidExpression,
			"spec.match[1].expression is invalid at column 1: undeclared reference to 'x'", 1, 1},
		"objectSelector": {
			clusterAlarm(v1alpha1.EventMatch{ObjectSelector: badSelector}), invalidMatch,
			`spec.match[0].objectSelector is invalid: "Near" is not a valid`, 0, 0},
		"namespaceSelector": {
			badNamespaces, invalidMatch,
			`spec.namespaceSelector is invalid: "Near" is not a valid`, 0, 0},
		"objectSelector with too many values": {
			clusterAlarm(v1alpha1.EventMatch{ObjectSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "a", Operator: metav1.LabelSelectorOpNotIn, Values: strings.Split(strings.Repeat("b,", 299)+"b", ",")},
			}}}), invalidMatch,
			"spec.match[0].objectSelector is invalid: it has 301 labels and values, the limit is 256: use fewer, or another alarm", 0, 0},
		"title": {
			message("a ${event.reason} b ${evnt.reason}", ""), invalidExpression,
			"spec.message.title is invalid at column 23: undeclared reference to 'evnt'", 1, 23},
		"text, second line, after $${ and multi-byte characters": {
			message("", "first\n봉수 $${ ${ evnt }"), invalidExpression,
			"spec.message.text is invalid at line 2, column 11: undeclared reference to 'evnt'", 2, 11},
		"template without an end": {
			message("ab ${event.reason", ""), invalidExpression,
			`spec.message.title is invalid at column 4: "${" has no closing "}"`, 1, 4},
		"template with a string without an end": {
			message("${event.reason + '}", ""), invalidExpression,
			"spec.message.title is invalid at column 18: the string has no end", 1, 18},
		"template with an empty expression": {
			message("a${ }", ""), invalidExpression,
			"spec.message.title is invalid at column 4: the expression is empty", 1, 4},
		"value that cannot be printed": {
			message("${event.regarding}", ""), invalidExpression,
			"spec.message.title is invalid at column 3: the value is of type Reference, which cannot be printed", 1, 3},
		"template of too many parts": {
			message("", strings.Repeat("${1}", 51)), invalidExpression,
			"spec.message.text is invalid at column 203: it has 51 expressions, the limit is 50: use fewer", 1, 203},
		"template of too many costly parts": {
			message("", strings.Repeat(`${event.note.split(" ").exists(w, w == "x")}`, 20)), invalidExpression,
			"spec.message.text is invalid at column 575: the cost can reach ", 1, 575},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := compile(t, tc.def)
			var failure *CompileError
			if !errors.As(err, &failure) {
				t.Fatalf("got error %v, want a CompileError", err)
			}
			if !strings.HasPrefix(err.Error(), tc.wantError) {
				t.Errorf("got %q, want the prefix %q", err, tc.wantError)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("the error is not one line: %q", err)
			}
			got := []any{failure.Reason, failure.Line, failure.Column}
			if diff := cmp.Diff([]any{tc.reason, tc.line, tc.column}, got); diff != "" {
				t.Errorf("reason, line, column (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReasonableExpressionsAreWithinTheCostLimit(t *testing.T) {
	for _, expression := range []string{
		`event.note.lowerAscii().contains("back-off")`,
		`event.note.matches("(?i)^failed to pull image .*(not found|denied)")`,
		`event.note.split(" ").exists(w, w.startsWith("image:"))`,
		`object.metadata.labels.exists(k, k.startsWith("team/") && object.metadata.labels[k] == "web")`,
		`object.metadata.annotations.exists(k, object.metadata.annotations[k].contains("page"))`,
		`event.lastSeen - object.metadata.creationTimestamp < duration("10m")`,
		`event.regarding.name + "/" + string(event.count) != "web-0/3"`,
		`event.reason in ["BackOff", "Failed"] && math.greatest(event.count, 3) > 5`,
	} {
		if _, err := compile(t, clusterAlarm(v1alpha1.EventMatch{Expression: expression})); err != nil {
			t.Errorf("%s: %v", expression, err)
		}
	}
}
