package pipeline

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/group"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
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
			b := newEntryBuilder(progress.Offsets{Behind: map[string]uint64{"served": 50}}, unlimited())
			e := &evaluation{outcome: tc.outcome, alarm: &match.Alarm{}, recipients: recipientsOf("quick", "served")}
			must(t, b.add(occ, e, &b.handled))
			if diff := cmp.Diff(tc.want, b.queued); diff != "" {
				t.Error(diff)
			}
			if len(b.entries) != len(tc.want) {
				t.Errorf("%d entries, want %d", len(b.entries), len(tc.want))
			}
		})
	}
}

// recipientsOf returns receivers whose IDs are their keys.
func recipientsOf(keys ...string) []recipient {
	return newMatcher(NewAlarms(), nil, noop{}, clock.RealClock{}).recipients(keys)
}

// Otherwise the outbox stores what nothing reads.
func TestOnlyReceiversThatRepeatKeepWhatAnotherLeaderSent(t *testing.T) {
	b := newEntryBuilder(progress.Offsets{Position: 50}, unlimited())
	for _, id := range []string{"alerts", "chat"} {
		r, occ := recipient{Receiver: Receiver{ID: id, Repeats: id == "alerts"}, key: id}, alarm.Occurrence{Position: 50}
		if b.mustStore(&outbox.Entry{Receiver: id, Position: 50, Member: &outbox.Membership{}}, []byte("{}"), &r, &occ, &b.handled) {
			t.Errorf("%s: it was sent", id)
		}
	}
	if len(b.entries) != 2 || !b.entries[0].Member.Repeats || b.entries[1].Member.Repeats {
		t.Errorf("entries %+v", b.entries)
	}
}

// A component that restarts can write an Event with a lower count, which rises again.
func TestACountThatIsReachedAgainIsAnotherOccurrence(t *testing.T) {
	store, err := outbox.Open(t.Context(), t.TempDir())
	must(t, err)
	defer func() { must(t, store.Close()) }()
	b := newEntryBuilder(progress.Offsets{}, unlimited())
	e := &evaluation{outcome: match.Matched, alarm: &match.Alarm{UID: "alarm"}, recipients: recipientsOf("slow")}
	previous := int64(0)
	for i, count := range []int64{1, 5, 2, 5, 3, 6} {
		occ := &alarm.Occurrence{Event: alarm.Event{UID: "e", Count: count}, Increase: 1, Position: uint64(i + 1)}
		if count > previous {
			occ.Increase = count - previous
		}
		previous = count
		must(t, b.add(occ, e, &b.handled))
	}
	must(t, store.Commit(t.Context(), outbox.Change{Events: &outbox.EventStep{Position: 6}, Entries: b.entries}))
	if got := store.Backlog("slow"); got.Entries != 6 {
		t.Errorf("%d messages wait, want 6", got.Entries)
	}
}

func TestEventsAreReadUpToTheNewestAndToTheLastSilence(t *testing.T) {
	created := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		batch source.Batch
		want  time.Time
	}{
		"an Event":            {source.Batch{Time: created}, created},
		"a silence after it":  {source.Batch{Time: created, ReadUpTo: created.Add(time.Minute)}, created.Add(time.Minute)},
		"a silence before it": {source.Batch{Time: created, ReadUpTo: created.Add(-time.Minute)}, created},
	} {
		if got := readUpTo(&tc.batch); !got.Equal(tc.want) {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
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
	for kind, by := range map[group.Kind][]alarm.GroupValue{group.Resolution: compiled.Grouping().Values(&ready.Event, &alarm.Object{}), group.Problem: nil} {
		member, err := (&entryBuilder{}).membership(ready, &evaluation{alarm: compiled, by: by})
		must(t, err)
		if member.Event.Kind != kind {
			t.Errorf("group %v: the kind is %d, want %d", by, member.Event.Kind, kind)
		}
	}
}

// Otherwise a message without a group would not say how often its Event occurred.
func TestExactlyOneLineCountsOccurrences(t *testing.T) {
	compiler, err := match.NewCompiler()
	must(t, err)
	group := &v1alpha1.AlarmGroup{By: []string{"regarding.name"}}
	occ := &alarm.Occurrence{Increase: 2, Event: alarm.Event{Reason: "BackOff", Note: "down", Count: 9}}
	for name, tc := range map[string]struct {
		spec      v1alpha1.AlarmSpec
		stateless bool
		want      string
	}{
		"no group":                     {v1alpha1.AlarmSpec{}, false, "down\n9 times, 2 new"},
		"a group, which counts itself": {v1alpha1.AlarmSpec{Group: group}, false, "down"},
		"no space for a group":         {v1alpha1.AlarmSpec{Group: group}, true, "down\n9 times, 2 new"},
		"a text of the alarm":          {v1alpha1.AlarmSpec{Group: group, Message: v1alpha1.AlarmMessage{Text: "own"}}, true, "own"},
	} {
		t.Run(name, func(t *testing.T) {
			compiled, err := compiler.Compile(match.Definition{Spec: tc.spec})
			must(t, err)
			e := &evaluation{alarm: compiled, stateless: tc.stateless}
			e.message, err = compiled.Render(t.Context(), occ, &alarm.Context{})
			must(t, err)
			if got := partOf(occ, e).Text; got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
