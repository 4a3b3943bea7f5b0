package match

import (
	"fmt"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
)

// CheckKinds returns an error for each kind in spec.match and spec.resolve.match that an alarm of
// alarmKind never matches. clusterScoped reports whether no object of a kind has a namespace.
func CheckKinds(alarmKind string, o Object, clusterScoped func(kind string) bool) (problems []*CompileError) {
	var text string
	switch {
	case alarmKind == alarm.KindAlarm:
		text = "a %s has no namespace, and an Alarm matches only Events about objects of its namespace: use a ClusterAlarm"
	case o.NamespaceSelector() != nil:
		text = "a %s has no namespace, so spec.namespaceSelector never selects its Events: use another ClusterAlarm without the selector"
	default:
		return nil
	}
	check := func(field string, entries []v1alpha1.EventMatch) {
		for i := range entries {
			for _, kind := range entries[i].Kinds {
				if clusterScoped(kind) {
					problems = append(problems, &CompileError{
						Reason: v1alpha1.ReasonInvalidMatch, Field: fmt.Sprintf("%s[%d].kinds", field, i), Message: fmt.Sprintf(text, kind),
					})
				}
			}
		}
	}
	spec := o.AlarmSpec()
	check("spec.match", spec.Match)
	if spec.Resolve != nil {
		check("spec.resolve.match", spec.Resolve.Match)
	}
	return problems
}
