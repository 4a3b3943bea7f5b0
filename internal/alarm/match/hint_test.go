package match

import (
	"errors"
	"strings"
	"testing"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// The errors are those of cel-go, whose positions differ: some are behind the slip.
func TestErrorsOfExpressionsNameUsualSlips(t *testing.T) {
	for expression, want := range map[string]string{
		`event.count > 1 and event.type == "Warning"`:        "use && instead of and",
		`event.count > 1 AND event.type == "Warning"`:        "use && instead of AND",
		`event.count > 1 or event.type == "Warning"`:         "use || instead of or",
		`kind == "Pod" and reason == "BackOff"`:              "use && instead of and",
		`event.reason == "a and b" and`:                      "use && instead of and",
		"event.note == \"a\" // and b\n  and true":           "use && instead of and",
		`event.note.matches("a" and "b")`:                    "use && instead of and",
		`not event.type == "Warning"`:                        "use ! instead of not",
		`not(event.type == "Warning")`:                       "use ! instead of not",
		`event.reason not in ["a"]`:                          "use ! instead of not",
		`event.reason is "a"`:                                "use == instead of is",
		`event.reason like "a"`:                              "use contains() or matches() instead of like",
		`len(event.note) > 1`:                                "use size instead of len",
		`event.type = "Warning"`:                             "use == instead of =",
		`event.type="Warning"`:                               "use == instead of =",
		`event.type == 'Warning' && reason = "a"`:            "use == instead of =",
		`event.reason === "a"`:                               "use == instead of ===",
		`event.reason <> "a"`:                                "use != instead of <>",
		`event.reason =~ "a"`:                                "use matches() instead of =~",
		`event.reason == "a" & event.count > 1`:              "use && instead of &",
		`event.reason == "a" | event.count > 1`:              "use || instead of |",
		`event.reason == “BackOff”`:                          "use \" instead of “",
		`reason == "BackOff"`:                                "use event.reason instead of reason",
		`Reason == "BackOff"`:                                "use event.reason instead of Reason",
		`count > 1`:                                          "use event.count instead of count",
		`type == "Warning"`:                                  "use event.type instead of type",
		`name.startsWith("a")`:                               "use event.regarding.name instead of name",
		`kind == "Pod"`:                                      "use event.regarding.kind instead of kind",
		`namespace == "a"`:                                   "use event.regarding.namespace instead of namespace",
		`message.contains("x")`:                              "use event.note instead of message",
		`regarding.kind == "Pod"`:                            "use event.regarding instead of regarding",
		`involvedObject.kind == "Pod"`:                       "use event.regarding instead of involvedObject",
		`metadata.name == "a"`:                               "use object.metadata instead of metadata",
		`labels["a"] == "b"`:                                 "use object.metadata.labels instead of labels",
		`labels.app == "b"`:                                  "use object.metadata.labels instead of labels",
		`zone == "a"`:                                        "use object.node.zone instead of zone",
		`nodes > 3`:                                          "use cluster.nodes instead of nodes",
		`event.labels["a"] == "b"`:                           "use object.metadata.labels instead of event.labels",
		`event.regarding.labels.app == "a"`:                  "use object.metadata.labels instead of event.regarding.labels",
		`event.kind == "Pod"`:                                "use event.regarding.kind instead of event.kind",
		`event.message.contains("a")`:                        "use event.note instead of event.message",
		`event.involvedObject.kind == "Pod"`:                 "use event.regarding instead of event.involvedObject",
		`event.Reason == "a"`:                                "use event.reason instead of event.Reason",
		`object.labels["a"] == "b"`:                          "use object.metadata.labels instead of object.labels",
		`object.name == "b"`:                                 "use object.metadata.name instead of object.name",
		`event.reason == BackOff`:                            `put a text in quotes: "BackOff"`,
		`event.count > 1 && True`:                            "use true instead of True",
		`"and = & not" + 1 == 2`:                             "",
		`event.reason in ("a", "b")`:                         `put the list after in into brackets: ["a", ...]`,
		`event.reason in "a", "b"`:                           `put the list after in into brackets: ["a", ...]`,
		`event.count > "1"`:                                  `use 1 instead of "1"`,
		`event.count == '10'`:                                `use 10 instead of '10'`,
		`event.lastSeen - event.firstSeen > 10m`:             `use duration("10m") instead of 10m`,
		`event.note matches "a.*"`:                           "use event.note.matches(...) instead of event.note matches",
		`event.note contains 'a'`:                            "use event.note.contains(...) instead of event.note contains",
		`event.reason == "BackOff`:                           "the text that begins here has no closing quote",
		`event.count > 1 && event.reason == 'BackOff`:        "the text that begins here has no closing quote",
		`evnt.count > 1`:                                     "use event instead of evnt",
		`event.cuont > 1`:                                    "use event.count instead of event.cuont",
		`object.metadata.lables["a"] == "b"`:                 "use object.metadata.labels instead of object.metadata.lables",
		`event.note.contain("a")`:                            "use contains instead of contain",
		`event.note.startswith("a")`:                         "use startsWith instead of startswith",
		`event.note.nothing("a")`:                            "",
		`event.nothing == ""`:                                "",
		`event.type == "a" reason == "b"`:                    "",
		`event.reason == ` + strings.Repeat("A", 100) + `==`: "",
	} {
		t.Run(expression, func(t *testing.T) {
			checkHint(t, clusterAlarm(v1alpha1.EventMatch{Expression: expression}), want)
		})
	}
}

func TestHintsOfTemplatesAndLongNames(t *testing.T) {
	def := clusterAlarm()
	def.Spec.Message.Text = "봉수 and = \n${event.count = 1}"
	checkHint(t, def, "use == instead of =")
	def.Spec.Message.Text = "${reason}"
	checkHint(t, def, "use event.reason instead of reason")
	long := clusterAlarm(v1alpha1.EventMatch{Expression: "event.reason == " + strings.Repeat("A", 2000)})
	checkHint(t, long, `put a text in quotes: "`+strings.Repeat("A", maxHintName-1)+`…"`)

	_, err := CompileBody("spec.webhook.body.template", `{"a": ${title}}`, true)
	if err == nil || !strings.HasSuffix(err.Error(), ": use message.title instead of title") {
		t.Errorf("of a body: %v", err)
	}
}

// checkHint checks the end of the error of an invalid alarm. An empty hint is none.
func checkHint(t *testing.T, def Definition, want string) {
	t.Helper()
	compiler, err := testCompiler()
	if err != nil {
		t.Fatal(err)
	}
	_, err = compiler.Compile(def)
	invalid, ok := errors.AsType[*CompileError](err)
	switch {
	case !ok:
		t.Fatalf("the error is %v", err)
	case want == "" && (strings.Contains(invalid.Message, "instead of") || strings.Contains(invalid.Message, "quotes")):
		t.Errorf("got a hint: %s", invalid.Message)
	case !strings.HasSuffix(invalid.Message, want):
		t.Errorf("got %q, want %q at its end", invalid.Message, want)
	}
}
