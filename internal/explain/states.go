package explain

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// stateFields are the fields of a status in which types without the usual conditions say how they are.
// Examples are the phase of a PersistentVolume, the state of an Order of cert-manager, and the health of
// an Application of Argo CD.
var stateFields = [][]string{
	{"phase"}, {"printableStatus"}, {"state"}, {"state", "phase"}, {"jobStatus"}, {"currentStatus"}, {"applicationState", "state"},
	{"health", "status"}, {"operationState", "phase"}, {"ready"}, {"readyToUse"},
}

// messageFields are the fields beside a state that say why, and errorFields those that say what is wrong
// without a state.
var (
	messageFields = []string{"message", "reason", "error", "errorMessage", "failureMessage", "failureReason", "validationErrors"}
	errorFields   = []string{"error", "attachError", "errorMessage"}
)

// The states that are meant to be, that are known to pass, and to be good.
var (
	stoppedState  = regexp.MustCompile(`(?i)^(?:closed|halted|hibernated|paused|released|stopped|suspended)$`)
	stopCondition = regexp.MustCompile(`(?i)(?:^|/)(?:hibernat(?:ed|ion)|suspended|paused)$`)
	waitingState  = regexp.MustCompile(`(?i)^(?:pending|creating|provisioning|progressing|waiting|initializing|installing|updating|upgrading|processing|in ?progress|starting|false)$`)
	goodState     = regexp.MustCompile(`(?i)^(?:active|available|bound|completed?|deployed|finished|healthy|ready|running|succeeded|success|true|valid)$`)
)

// failureText matches a message about a state that is pending because an attempt has failed. The Challenges
// of cert-manager have such messages.
var failureText = regexp.MustCompile(`(?i)\b(?:failed to|cannot|unable to|connection refused|no such host|permission denied|forbidden|does not exist)\b`)

// Words that say that something failed, and those before and after them that say that it did not:
// NoError, ContinueOnError, FailingOver, ErrorFree.
var (
	failureWords = sets.New("fail", "failed", "failing", "failure", "failures", "error", "errored", "errors", "invalid", "degraded",
		"unavailable", "unhealthy", "lost", "inconclusive", "missing", "aborted", "exhausted", "refused", "rejected")
	beforeNoFailure = sets.New("no", "not", "without", "on", "ignore")
	afterNoFailure  = sets.New("over", "free")
)

// badState reports whether the name of a state says that something failed.
func badState(name string) bool {
	words := wordsOf(name)
	for i := range words {
		if isFailure(words, i) {
			return true
		}
	}
	return false
}

// isFailure reports whether a word says that something failed.
func isFailure(words []string, i int) bool {
	return failureWords.Has(words[i]) && (i == 0 || !beforeNoFailure.Has(words[i-1])) && (i+1 == len(words) || !afterNoFailure.Has(words[i+1]))
}

var endOfWord = regexp.MustCompile(`([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])`)

// wordsOf returns the words of a name such as FailedMount, CREATE_FAILED or "in progress", in lower case.
func wordsOf(name string) []string {
	name = strings.ToLower(endOfWord.ReplaceAllString(name, "$1$3 $2$4"))
	return strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) })
}

// stateField is a field of a status that contains a state.
type stateField struct{ name, value, message string }

func (f stateField) text() string {
	return strings.TrimSuffix("its "+f.name+" is "+f.value+": "+f.message, ": ")
}

// statesOf returns the states in a status.
func statesOf(u *unstructured.Unstructured) []stateField {
	var states []stateField
	fields, _ := u.Object["status"].(map[string]any)
	for _, path := range stateFields {
		parent, last := fields, path[len(path)-1]
		if len(path) > 1 {
			parent, _ = fields[path[0]].(map[string]any)
		}
		value := ""
		switch v := parent[last].(type) {
		case string:
			value = shortLine(v)
		case bool:
			value = fmt.Sprint(v)
		}
		if value != "" {
			states = append(states, stateField{strings.Join(path, "."), value, firstText(parent, messageFields)})
		}
	}
	return states
}

// badStates returns the causes in states that show a problem, or else in an error.
func badStates(object diagnosis.Object, u *unstructured.Unstructured, states []stateField) []diagnosis.Cause {
	var causes []diagnosis.Cause
	for _, f := range states {
		if !badState(f.value) && (!waitingState.MatchString(f.value) || !failureText.MatchString(f.message)) {
			continue
		}
		cause := diagnosis.Cause{Reason: f.value, Object: object, Message: f.text()}
		if f.message == "" {
			cause.Message += ": its controller gives no message"
		}
		if reason := statusText(u, "reason"); f.name == "phase" && reason != "" && !strings.Contains(reason, " ") {
			cause.Reason = reason
		}
		causes = append(causes, cause)
	}
	if len(causes) > 0 || slices.ContainsFunc(states, func(f stateField) bool { return goodState.MatchString(f.value) }) {
		return causes
	}
	if reason, text := badStatus(u, len(states) > 0); text != "" {
		causes = append(causes, diagnosis.Cause{Reason: reason, Object: object, Message: text})
	}
	return causes
}

// badStatus returns what a status says in an error, in a state of another name, or in a message without a state.
func badStatus(u *unstructured.Unstructured, hasState bool) (reason, text string) {
	fields, _ := u.Object["status"].(map[string]any)
	if text := firstText(fields, errorFields); text != "" {
		return diagnosis.ReasonError, "it has an error: " + text
	}
	if f := otherState(fields); f.value != "" {
		return f.value, f.text()
	}
	if message, _ := fields["message"].(string); !hasState && badState(message) {
		return diagnosis.ReasonError, "its status says: " + shortLine(message)
	}
	return "", ""
}

// otherStates matches the names of fields that can contain a state, such as lastOperationStatus.
var otherStates = regexp.MustCompile(`(?i)(?:status|state|phase|health|result)$`)

// maxState limits what is taken for the name of a state, in bytes.
const maxState = 64

// otherState returns the first field of any name with a state of one word that is bad.
func otherState(fields map[string]any) stateField {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value, _ := fields[name].(string)
		if otherStates.MatchString(name) && len(value) <= maxState && !strings.ContainsAny(value, " \n") && badState(value) {
			return stateField{name, shortLine(value), cmp.Or(firstText(fields, messageFields), firstText(fields, []string{"lastSyncError", "lastError"}))}
		}
	}
	return stateField{}
}

// firstText returns the first text in the fields: a string, the message of an object, or a list of strings.
func firstText(fields map[string]any, names []string) string {
	for _, name := range names {
		text := ""
		switch v := fields[name].(type) {
		case string:
			text = v
		case map[string]any:
			text, _ = v["message"].(string)
		case []any:
			var parts []string
			for _, part := range v[:min(len(v), maxConditions)] {
				if s, ok := part.(string); ok {
					parts = append(parts, s)
				}
			}
			text = strings.Join(parts, "; ")
		}
		if text = shortLine(text); text != "" {
			return text
		}
	}
	return ""
}

// statusText returns a text of the status, with a limit and without control characters.
func statusText(u *unstructured.Unstructured, field string) string {
	text, _, _ := unstructured.NestedString(u.Object, "status", field)
	return shortLine(text)
}
