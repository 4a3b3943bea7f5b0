package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
	"github.com/bongsu-io/bongsu/internal/kube"
)

func TestADeletedAlarmResolvesWhatItReported(t *testing.T) {
	const begin, end = "shop/web: BackOff (Pod) | first true | resolved false", "Resolved: web | first false | resolved true"
	id := kube.Key{Kind: alarm.KindAlarm, Namespace: "shop", Name: "crashes"}
	for name, tc := range map[string]struct {
		during func(all *Alarms, compiled func(uid string) *match.Alarm)
		want   []string
		open   int // groups in the status
		// diskLost: the disk is lost before the operator sees what happens during.
		diskLost bool
	}{
		"deleted":       {func(all *Alarms, _ func(string) *match.Alarm) { all.Delete(id.String()) }, []string{begin, end}, 0, false},
		"created again": {func(all *Alarms, compiled func(string) *match.Alarm) { all.Set(id.String(), "2", compiled("another")) }, []string{begin, end}, 0, false},
		"changed":       {func(all *Alarms, compiled func(string) *match.Alarm) { all.Set(id.String(), "2", compiled("uid")) }, []string{begin}, 1, false},
		"invalid":       {func(all *Alarms, _ func(string) *match.Alarm) { all.Deactivate(id.String(), "uid") }, []string{begin}, 1, false},
		"deleted, invalid": {func(all *Alarms, _ func(string) *match.Alarm) {
			all.Deactivate(id.String(), "uid")
			all.Delete(id.String())
		}, []string{begin, end}, 0, false},
		"deleted, disk lost": {func(all *Alarms, _ func(string) *match.Alarm) { all.Delete(id.String()) }, []string{begin}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
			var store *outbox.Store
			defer func() { must(t, store.Close()) }()
			openOnNewDisk := func() {
				var err error
				store, err = outbox.Open(t.Context(), t.TempDir(), outbox.WithClock(clock), outbox.WithComposer(ComposeGroup))
				must(t, err)
				must(t, store.Confirm(t.Context()))
			}
			openOnNewDisk()
			compiler, err := match.NewCompiler()
			must(t, err)
			compiled := func(uid string) *match.Alarm {
				a, err := compiler.Compile(match.Definition{
					ID: id, UID: uid, Receivers: []string{"ops"}, Spec: v1alpha1.AlarmSpec{
						Match: []v1alpha1.EventMatch{{}}, Group: &v1alpha1.AlarmGroup{By: []string{"regarding.name"}, WaitSeconds: new(int32)},
					},
				})
				must(t, err)
				return a
			}
			alarms := NewAlarms()
			alarms.Set(id.String(), "1", compiled("uid"))
			p := New(Config{
				Observe: func(context.Context, []alarm.Occurrence) {}, Outbox: store, Checkpoint: &memoryCheckpoint{}, Alarms: alarms,
				Dispatcher: noop{}, Enricher: noop{}, Reporter: noop{}, Clock: clock, Log: logr.Discard(),
			})
			occ := happened("shop/web")[0]
			occ.Event.Reason, occ.Position, occ.ObservedAt = "BackOff", 10, clock.Now()
			must(t, p.handle(t.Context(), source.Batch{Position: occ.Position, Occurrences: []alarm.Occurrence{occ}}))
			var got []string
			var last int64
			read := func() {
				clock.Step(2 * time.Second)
				p.acknowledgeOnce(t.Context())
				_, err := store.Release(t.Context())
				must(t, err)
				entries, err := store.Pending(t.Context(), outbox.Query{Receiver: "ops", Lane: outbox.MainLane, After: last, Limit: 100})
				must(t, err)
				for _, e := range entries {
					var m message.Message
					must(t, json.Unmarshal(e.Payload, &m))
					got, last = append(got, fmt.Sprintf("%s | first %t | resolved %t", m.Title, m.Group.First, m.Group.Resolved)), e.ID
					if m.Alarm != id || m.Count > 1 {
						t.Errorf("%s counts %d", m.Alarm, m.Count)
					}
				}
			}
			read()
			tc.during(alarms, compiled)
			if tc.diskLost {
				must(t, store.Close())
				openOnNewDisk()
				p.Outbox = store
			}
			for range 3 {
				read()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if open, _, err := store.Groups.List(t.Context(), id.String(), 10); err != nil || len(open) != tc.open {
				t.Errorf("open groups %+v: %v", open, err)
			}
		})
	}
}
