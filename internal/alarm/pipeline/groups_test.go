package pipeline

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
)

// folds notes of which alarms groups are put together.
type folds struct {
	silent
	of map[alarm.ID]bool
}

func (f folds) GroupLimitReached(id alarm.ID) { f.of[id] = true }

// namespaceOf is a namespace with so many alarms that group by the object's name.
func namespaceOf(t *testing.T, alarms int) *Alarms {
	t.Helper()
	compiler, err := match.NewCompiler()
	must(t, err)
	all := NewAlarms()
	for i := range alarms {
		compiled, err := compiler.Compile(match.Definition{
			ID: alarm.ID{Kind: alarm.KindAlarm, Namespace: "shop", Name: fmt.Sprint("alarm-", i)}, UID: fmt.Sprint(i),
			Receivers: []string{"ops", "team"}, Spec: v1alpha1.AlarmSpec{
				Match: []v1alpha1.EventMatch{{Reasons: []string{fmt.Sprint("Reason", i)}}},
				Group: &v1alpha1.AlarmGroup{By: []string{"regarding.name"}},
			},
		})
		must(t, err)
		all.Set(fmt.Sprint(i), "1", compiled)
	}
	return all
}

// Whoever may create Events chooses how many groups there are.
func TestThereAreOnlySoManyGroupsAndTheRestIsOne(t *testing.T) {
	for name, tc := range map[string]struct {
		alarms, objects int
		want            int64 // groups that wait, of one receiver
		folded          int   // alarms
	}{
		"as many as an alarm may have": {alarms: 1, objects: maxGroupsOfAlarm, want: maxGroupsOfAlarm},
		"one alarm has too many":       {alarms: 2, objects: maxGroupsOfAlarm + 10, want: 2 * (maxGroupsOfAlarm + 1), folded: 2},
		"a namespace's alarms have":    {alarms: 21, objects: maxGroupsOfNamespace / 2 / 20, want: maxGroupsOfNamespace/2 + 21, folded: 21},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
			books, err := outbox.Open(t.Context(), t.TempDir(), outbox.WithClock(clock))
			must(t, err)
			defer func() { must(t, books.Close()) }()
			reported := folds{of: map[alarm.ID]bool{}}
			p := New(Config{
				Observe: func(context.Context, []alarm.Occurrence) {}, Outbox: books, Checkpoint: &diary{}, Alarms: namespaceOf(t, tc.alarms),
				Dispatcher: silent{}, Enricher: silent{}, Reporter: reported, Clock: clock, Log: logr.Discard(),
			})
			batch := source.Batch{Position: 1}
			for i := range tc.objects * tc.alarms {
				batch.Position++
				batch.Occurrences = append(batch.Occurrences, alarm.Occurrence{
					Increase: 1, Position: batch.Position, ObservedAt: clock.Now(), Event: alarm.Event{
						UID: fmt.Sprint(i), Count: 1, Namespace: "shop", Reason: fmt.Sprint("Reason", i%tc.alarms),
						Regarding: alarm.Reference{Kind: "Pod", Namespace: "shop", Name: fmt.Sprint("web-", i/tc.alarms)},
					},
				})
			}
			must(t, p.handle(t.Context(), batch))
			clock.Step(time.Hour)
			made, err := books.Release(t.Context(), composeGroup)
			must(t, err)
			for _, receiver := range []string{"ops", "team"} {
				if got := made[receiver].Messages; got != tc.want {
					t.Errorf("%d messages to %s, want %d", got, receiver, tc.want)
				}
			}
			if len(reported.of) != tc.folded {
				t.Errorf("told of %v, want %d alarms", slices.Collect(maps.Keys(reported.of)), tc.folded)
			}
		})
	}
}
