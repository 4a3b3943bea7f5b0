package match

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
)

// Kinds knows the kinds that the API server serves.
type Kinds interface {
	// ClusterScoped reports whether no object of a kind has a namespace. It is false if that is
	// unknown, also if the kind does not exist.
	ClusterScoped(kind string) bool
	// Meant returns the kind that is probably meant by one that does not exist. It is empty if the
	// kind exists, or if none is similar.
	Meant(kind string) string
}

// CheckKinds returns an error for each kind in spec.match and spec.resolve.match that an alarm of
// alarmKind never matches.
func CheckKinds(alarmKind string, o Object, known Kinds) (problems []*CompileError) {
	var text string
	switch {
	case alarmKind == alarm.KindAlarm:
		text = "a %s has no namespace, and an Alarm matches only Events about objects of its namespace: use a ClusterAlarm"
	case o.NamespaceSelector() != nil || len(o.NamespaceGlobs()) > 0:
		text = "a %s has no namespace, so spec.namespaces and spec.namespaceSelector never select its Events: use another ClusterAlarm without them"
	default:
		return nil
	}
	eachMatch(o, func(field string, m *v1alpha1.EventMatch) {
		for _, kind := range m.Kinds {
			if known.ClusterScoped(kind) {
				problems = append(problems, &CompileError{
					Reason: v1alpha1.ReasonInvalidMatch, Field: field + ".kinds", Message: fmt.Sprintf(text, kind),
				})
			}
		}
	})
	return problems
}

// KindsOf returns the kinds in spec.match and spec.resolve.match.
func KindsOf(o Object) (kinds []string) {
	eachMatch(o, func(_ string, m *v1alpha1.EventMatch) { kinds = append(kinds, m.Kinds...) })
	return kinds
}

// eachMatch calls f for each entry of spec.match and spec.resolve.match, with its path.
func eachMatch(o Object, f func(field string, m *v1alpha1.EventMatch)) {
	spec := o.AlarmSpec()
	for i := range spec.Match {
		f(fmt.Sprintf("spec.match[%d]", i), &spec.Match[i])
	}
	if spec.Resolve == nil {
		return
	}
	for i := range spec.Resolve.Match {
		f(fmt.Sprintf("spec.resolve.match[%d]", i), &spec.Resolve.Match[i])
	}
}

// reasonHints are words that users know from the status of containers, and that no component of
// Kubernetes uses as the reason of an Event.
var reasonHints = map[string]string{
	"OOMKilled":        "match BackOff, and use object.cause to find out why the container ended",
	"CrashLoopBackOff": "match BackOff",
	"ImagePullBackOff": "match BackOff or Failed",
	"ErrImagePull":     "match Failed",
	"NotReady":         "match NodeNotReady",
}

// MisspeltKinds names the kinds in spec.match and spec.resolve.match that do not exist, and whose
// name resembles one that does.
func MisspeltKinds(o Object, known Kinds) (problems []string) {
	eachMatch(o, func(field string, m *v1alpha1.EventMatch) {
		for _, kind := range m.Kinds {
			if meant := known.Meant(kind); meant != "" {
				problems = append(problems, fmt.Sprintf("%s.kinds: the cluster has no kind %s: did you mean %s", field, kind, meant))
			}
		}
	})
	return problems
}

// UnreadKinds names the entries of spec.match and spec.resolve.match that need labels of objects
// of a kind that the operator does not read. isRead reports whether it reads a kind, in any API
// group.
func UnreadKinds(o Object, isRead func(kind string) bool) (problems []string) {
	ofObject := ""
	if group := o.AlarmSpec().Group; group != nil {
		if i := slices.IndexFunc(group.By, func(key string) bool { return strings.HasPrefix(key, varObject+".") }); i >= 0 {
			ofObject = group.By[i]
		}
	}
	eachMatch(o, func(field string, m *v1alpha1.EventMatch) {
		for _, kind := range m.Kinds {
			switch {
			case isRead(kind):
			case m.ObjectSelector != nil:
				problems = append(problems, fmt.Sprintf("%s.objectSelector: Bongsu does not read objects of kind %s, so no Event about them matches: name their resource in spec.readObjects, which an administrator must allow, or use names or note instead", field, kind))
			case ofObject != "":
				problems = append(problems, fmt.Sprintf("spec.group.by: Bongsu does not read objects of kind %s, so each of them is a group of its own without %s: name their resource in spec.readObjects, which an administrator must allow, or group by regarding.name instead", kind, ofObject))
			}
		}
	})
	return problems
}

// failureLoops are failures of pods that Kubernetes retries. emits are reasons that it emits before
// each failure.
var failureLoops = []struct{ failures, emits []string }{
	{[]string{"BackOff", "Unhealthy"}, []string{"Started", "Created", "Pulled", "Pulling", "Killing"}},
	{[]string{"BackOff", "Failed"}, []string{"Pulling"}},
}

// loopHints names the Events in spec.resolve.match that a failure of spec.match emits itself, again
// and again. They resolve the group while nothing is repaired.
func loopHints(spec *v1alpha1.AlarmSpec) (hints []string) {
	if spec.Resolve == nil {
		return nil
	}
	for i := range spec.Resolve.Match {
		if reason := loopReason(spec.Match, &spec.Resolve.Match[i]); reason != "" {
			hints = append(hints, fmt.Sprintf("spec.resolve.match[%d]: a pod that keeps failing emits %s at each retry, so the group is resolved while nothing is repaired: use quietSeconds of 600 or more instead", i, reason))
		}
	}
	return hints
}

// loopReason returns a reason that an entry of spec.resolve.match selects, and that a failure which
// spec.match selects emits too. It is empty if there is none.
func loopReason(failing []v1alpha1.EventMatch, resolving *v1alpha1.EventMatch) string {
	for _, loop := range failureLoops {
		isFailure := func(m v1alpha1.EventMatch) bool {
			return selectsPods(&m, v1alpha1.EventTypeWarning) && slices.ContainsFunc(loop.failures, func(reason string) bool { return selectsReason(&m, reason) })
		}
		if !selectsPods(resolving, v1alpha1.EventTypeNormal) || !slices.ContainsFunc(failing, isFailure) {
			continue
		}
		for _, reason := range loop.emits {
			if selectsReason(resolving, reason) {
				return reason
			}
		}
	}
	return ""
}

// selectsPods reports whether an entry selects Events of a type about pods.
func selectsPods(m *v1alpha1.EventMatch, ofType v1alpha1.EventType) bool {
	return (len(m.Kinds) == 0 || slices.Contains(m.Kinds, "Pod")) && (len(m.Types) == 0 || slices.Contains(m.Types, ofType))
}

// selectsReason reports whether an entry selects a reason. With an expression instead of reasons, it
// does so only if the expression names the reason.
func selectsReason(m *v1alpha1.EventMatch, reason string) bool {
	included, excluded := Split(m.Reasons)
	switch {
	case slices.Contains(excluded, reason):
		return false
	case len(included) > 0:
		return slices.Contains(included, reason)
	case m.Expression != "":
		return strings.Contains(m.Expression, strconv.Quote(reason))
	default:
		return true
	}
}

// UnresolvedAdvice says what to do if Events were not evaluated, because their object is not known.
const UnresolvedAdvice = "their object was deleted before it was read, or is of a kind that is not read: " +
	"to get such Events, use names or note instead of objectSelector and object.metadata"

// Hints names what is probably wrong in spec.match and spec.resolve.match, although it is valid: words
// that match nothing, and ends that are none. It says what to write instead.
func Hints(o Object) (hints []string) {
	hints = loopHints(o.AlarmSpec())
	eachMatch(o, func(field string, m *v1alpha1.EventMatch) {
		for _, text := range m.Reasons {
			reason := strings.TrimPrefix(text, "!")
			if hint, known := reasonHints[reason]; known {
				hints = append(hints, fmt.Sprintf("%s.reasons: Kubernetes emits no Event with the reason %s: %s", field, reason, hint))
			}
		}
		if slices.Equal(m.Kinds, []string{"Node"}) && slices.Equal(m.Types, []v1alpha1.EventType{v1alpha1.EventTypeWarning}) {
			hints = append(hints, field+".types: NodeNotReady and most other Events about Nodes are Normal: leave types out")
		}
	})
	return hints
}
