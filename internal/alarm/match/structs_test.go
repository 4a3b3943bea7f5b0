package match

import (
	"testing"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

func TestExpressionsReadStructs(t *testing.T) {
	for expression, want := range map[string]Outcome{
		`event.regarding.name == "web-0"`:                                 Matched,
		`event.firstSeen < event.lastSeen`:                                Matched,
		`event.firstSeen.getHours() == 9`:                                 Matched,
		`object.metadata.labels.app == "web"`:                             Matched,
		`object.metadata.labels["app"] == "web"`:                          Matched,
		`"app" in object.metadata.labels`:                                 Matched,
		`has(object.metadata.labels.app)`:                                 Matched,
		`has(object.metadata.labels.nope)`:                                NotMatched,
		`object.cause == "" && !has(object.cause)`:                        Matched,
		`has(object.node.zone)`:                                           NotMatched,
		`has(object.metadata.name)`:                                       Matched,
		`object.node.capacity.size() == 0`:                                Matched,
		`event.regarding == event.regarding`:                              Matched,
		`event == event && object.node == object.node`:                    Matched,
		`[event.regarding].exists(r, r.kind == "Pod")`:                    Matched,
		`(event.count > 1 ? event.regarding : event.regarding).uid != ""`: Matched,
		`dyn(event.regarding).name == "web-0"`:                            Failed,
	} {
		t.Run(expression, func(t *testing.T) {
			got := outcome(t, clusterAlarm(v1alpha1.EventMatch{Expression: expression}), podOccurrence(), podContext())
			if got.Outcome != want {
				t.Errorf("got %+v, want %v", got, want)
			}
		})
	}
}
