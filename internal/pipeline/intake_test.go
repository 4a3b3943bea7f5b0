package pipeline

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/ledger"
)

func TestOnlyWhatMatchedIsTakenIn(t *testing.T) {
	occ := &alarm.Occurrence{Event: alarm.Event{UID: "e"}, Increase: 3, Position: 50}
	for name, tc := range map[string]struct {
		outcome alarm.Outcome
		want    map[string]int64
	}{
		"matched":                {alarm.Matched, map[string]int64{"quick": 3}},
		"the object is gone":     {alarm.Unresolved, map[string]int64{}},
		"an expression failed":   {alarm.Failed, map[string]int64{}},
		"the alarm is not about": {alarm.NotMatched, map[string]int64{}},
	} {
		t.Run(name, func(t *testing.T) {
			in := newIntake(ledger.Floors{Receivers: map[string]uint64{"served": 50}}, func(string) int64 { return 0 })
			v := &verdict{outcome: tc.outcome, alarm: &alarm.Alarm{Receivers: []string{"quick", "served"}}}
			must(t, in.add(occ, v))
			if diff := cmp.Diff(tc.want, in.queued); diff != "" {
				t.Error(diff)
			}
			if len(in.entries) != len(tc.want) {
				t.Errorf("%d entries, want %d", len(in.entries), len(tc.want))
			}
		})
	}
}

func TestADeadReceiverDoesNotFillTheDisk(t *testing.T) {
	in := newIntake(ledger.Floors{}, func(receiver string) int64 {
		return map[string]int64{"dead": maxBacklog - 2}[receiver]
	})
	id := alarm.ID{Kind: alarm.KindAlarm, Namespace: "shop", Name: "web"}
	v := &verdict{outcome: alarm.Matched, alarm: &alarm.Alarm{ID: id, Receivers: []string{"dead", "quick"}}}
	for i := range uint64(5) {
		must(t, in.add(&alarm.Occurrence{Increase: 2, Position: i + 1}, v))
	}
	if diff := cmp.Diff(map[string]int64{"dead": 4, "quick": 10}, in.queued); diff != "" {
		t.Errorf("taken in: %s", diff)
	}
	if diff := cmp.Diff(map[string]ledger.Tally{"dead": {"Alarm/shop/web": 6}}, in.overflow); diff != "" {
		t.Errorf("dropped: %s", diff)
	}
}

func TestWhatIsBeyondTheBoundsOfGroupsIsNeverResolved(t *testing.T) {
	compiler, err := alarm.NewCompiler()
	must(t, err)
	compiled, err := compiler.Compile(alarm.Definition{Spec: v1alpha1.AlarmSpec{
		Group: &v1alpha1.AlarmGroup{By: []string{"regarding.kind", "regarding.name"}},
	}})
	must(t, err)
	ready := &alarm.Occurrence{Event: alarm.Event{Reason: "NodeReady", Regarding: alarm.Reference{Kind: "Node", Name: "node-0"}}}
	for resolves, by := range map[bool][]alarm.GroupValue{true: compiled.Grouping().Values(&ready.Event, &alarm.Object{}), false: nil} {
		member, err := (&intake{}).member(ready, &verdict{alarm: compiled, by: by})
		must(t, err)
		if member.Resolves != resolves {
			t.Errorf("of the group %v: resolved is %t", by, member.Resolves)
		}
	}
}
