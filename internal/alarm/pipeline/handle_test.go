package pipeline

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

func TestOnlyMatchedOccurrencesAreStored(t *testing.T) {
	occ := &alarm.Occurrence{Event: alarm.Event{UID: "e"}, Increase: 3, Position: 50}
	for name, tc := range map[string]struct {
		outcome match.Outcome
		want    map[string]int64
	}{
		"matched":              {match.Matched, map[string]int64{"quick": 3}},
		"the object is gone":   {match.Unresolved, map[string]int64{}},
		"an expression failed": {match.Failed, map[string]int64{}},
		"it did not match":     {match.NotMatched, map[string]int64{}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newEntryBuilder(outbox.DeliveredOffsets{Receivers: map[string]uint64{"served": 50}}, func(string) int64 { return 0 })
			e := &evaluation{outcome: tc.outcome, alarm: &match.Alarm{Receivers: []string{"quick", "served"}}}
			must(t, b.add(occ, e))
			if diff := cmp.Diff(tc.want, b.queued); diff != "" {
				t.Error(diff)
			}
			if len(b.entries) != len(tc.want) {
				t.Errorf("%d entries, want %d", len(b.entries), len(tc.want))
			}
		})
	}
}

func TestBacklogOfAReceiverIsLimited(t *testing.T) {
	b := newEntryBuilder(outbox.DeliveredOffsets{}, func(receiver string) int64 {
		return map[string]int64{"dead": maxBacklog - 2}[receiver]
	})
	id := alarm.ID{Kind: alarm.KindAlarm, Namespace: "shop", Name: "web"}
	e := &evaluation{outcome: match.Matched, alarm: &match.Alarm{ID: id, Receivers: []string{"dead", "quick"}}}
	for i := range uint64(5) {
		must(t, b.add(&alarm.Occurrence{Increase: 2, Position: i + 1}, e))
	}
	if diff := cmp.Diff(map[string]int64{"dead": 4, "quick": 10}, b.queued); diff != "" {
		t.Errorf("queued: %s", diff)
	}
	if diff := cmp.Diff(map[string]outbox.Counts{"dead": {"Alarm/shop/web": 6}}, b.overflow); diff != "" {
		t.Errorf("dropped: %s", diff)
	}
}

func TestGroupBeyondTheLimitIsNeverResolved(t *testing.T) {
	compiler, err := match.NewCompiler()
	must(t, err)
	compiled, err := compiler.Compile(match.Definition{Spec: v1alpha1.AlarmSpec{
		Group: &v1alpha1.AlarmGroup{By: []string{"regarding.kind", "regarding.name"}},
	}})
	must(t, err)
	ready := &alarm.Occurrence{Event: alarm.Event{Reason: "NodeReady", Regarding: alarm.Reference{Kind: "Node", Name: "node-0"}}}
	for resolves, by := range map[bool][]alarm.GroupValue{true: compiled.Grouping().Values(&ready.Event, &alarm.Object{}), false: nil} {
		member, err := (&entryBuilder{}).membership(ready, &evaluation{alarm: compiled, by: by})
		must(t, err)
		if member.Resolves != resolves {
			t.Errorf("group %v: resolved is %t", by, member.Resolves)
		}
	}
}
