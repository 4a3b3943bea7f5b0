package match

import (
	"strings"
	"testing"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
)

// slow is a glob that tries as much as one can.
var slow = "*" + strings.Repeat("a", 120) + "b"

func TestWhatTheAlarmsOfANamespaceCostIsBounded(t *testing.T) {
	const alarms, limit = 1000, 20_000
	expensive := v1alpha1.EventMatch{Names: []string{slow, slow + "b", slow + "bb", "web-0"}}
	var all []*Alarm
	for range alarms {
		all = append(all, mustCompile(t, namespacedAlarm("shop", expensive)))
	}
	all = append(all, mustCompile(t, clusterAlarm(expensive)))
	ix := NewIndex(all)
	occ := podOccurrence(func(occ *alarm.Occurrence) { occ.Event.Regarding.Name = strings.Repeat("a", 253) })

	meter := NewMeter(limit)
	ix.Candidates(occ, nil, meter)
	if !meter.Exhausted() || meter.Spent() > limit+4*16_000/stepsPerUnit {
		t.Errorf("spent %d of %d", meter.Spent(), limit)
	}
	occ.Event.Regarding.Name = "web-0"
	got := ix.Candidates(occ, nil, meter)
	if len(got) != 1 || got[0].Alarm.ID.Kind != alarm.KindClusterAlarm {
		t.Errorf("%d candidates, want the ClusterAlarm alone", len(got))
	}
}

func TestExpressionsAreSpentOfTheMeter(t *testing.T) {
	const limit = 200
	ix := NewIndex([]*Alarm{mustCompile(t, namespacedAlarm("shop", v1alpha1.EventMatch{
		Expression: `event.note.replace("a", "b").replace("b", "c") != ""`,
	}))})
	meter := NewMeter(limit)
	for range limit {
		for _, c := range ix.Candidates(podOccurrence(), nil, meter) {
			c.Match(t.Context(), podContext())
		}
	}
	if !meter.Exhausted() || meter.Spent() > limit+100 {
		t.Errorf("spent %d of %d", meter.Spent(), limit)
	}
	if got := ix.Candidates(podOccurrence(), nil, nil)[0].Match(t.Context(), podContext()); got.Outcome != Matched {
		t.Errorf("without a meter: %v", got)
	}
}
