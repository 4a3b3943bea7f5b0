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

// limitReporter records the alarms with too many groups.
type limitReporter struct {
	noop
	alarms map[alarm.ID]bool
}

func (r limitReporter) GroupLimitReached(id alarm.ID) { r.alarms[id] = true }

// groupingAlarms returns n alarms of a namespace that group by the name of the object.
func groupingAlarms(t *testing.T, n int) *Alarms {
	t.Helper()
	compiler, err := match.NewCompiler()
	must(t, err)
	all := NewAlarms()
	for i := range n {
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

// Tenants can create Events for any number of groups.
func TestGroupsBeyondTheLimitAreOne(t *testing.T) {
	for name, tc := range map[string]struct {
		alarms, objects int
		want            int64 // messages for each receiver
		limited         int   // alarms that reach the limit
	}{
		"at the limit of an alarm":          {alarms: 1, objects: maxGroupsOfAlarm, want: maxGroupsOfAlarm},
		"beyond the limit of an alarm":      {alarms: 2, objects: maxGroupsOfAlarm + 10, want: 2 * (maxGroupsOfAlarm + 1), limited: 2},
		"beyond the limit of the namespace": {alarms: 21, objects: maxGroupsOfNamespace / 2 / 20, want: maxGroupsOfNamespace/2 + 21, limited: 21},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
			store, err := outbox.Open(t.Context(), t.TempDir(), outbox.WithClock(clock))
			must(t, err)
			defer func() { must(t, store.Close()) }()
			reporter := limitReporter{alarms: map[alarm.ID]bool{}}
			p := New(Config{
				Observe: func(context.Context, []alarm.Occurrence) {}, Outbox: store, Checkpoint: &memoryCheckpoint{}, Alarms: groupingAlarms(t, tc.alarms),
				Dispatcher: noop{}, Enricher: noop{}, Reporter: reporter, Clock: clock, Log: logr.Discard(),
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
			released, err := store.Release(t.Context(), composeGroup)
			must(t, err)
			for _, receiver := range []string{"ops", "team"} {
				if got := released[receiver].Messages; got != tc.want {
					t.Errorf("%d messages to %s, want %d", got, receiver, tc.want)
				}
			}
			if len(reporter.alarms) != tc.limited {
				t.Errorf("reported %v, want %d alarms", slices.Collect(maps.Keys(reporter.alarms)), tc.limited)
			}
		})
	}
}
