package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// A count is what a message reports. The counts of all messages are what the status counts as matched
// and not as suppressed. A total is what matched in the group since it began.
func TestCountSinceAndTotalMeanTheSameEverywhere(t *testing.T) {
	resolve := &v1alpha1.AlarmResolve{Match: []v1alpha1.EventMatch{{Reasons: []string{"Ready"}}}}
	group := func(wait int32) *v1alpha1.AlarmGroup {
		return &v1alpha1.AlarmGroup{By: []string{"regarding.name"}, WaitSeconds: &wait, IntervalSeconds: new(int32(30))}
	}
	at := func(second int) *metav1.Time { return &metav1.Time{Time: time.Unix(1_800_000_000+int64(second), 0)} }
	for name, tc := range map[string]struct {
		spec v1alpha1.AlarmSpec
		// happens are the seconds of the problems. Negative ones are of Events that resolve.
		happens []int
		// want are title, last line, count and total of each message.
		want []string
		// open is the total of the open group in the status, 0 if there is none.
		open       int64
		matched    int64
		suppressed map[Suppression]int64
	}{
		"a group": {
			spec: v1alpha1.AlarmSpec{Group: group(0), Resolve: resolve}, happens: []int{0, 5, 6, 100, -101, 200},
			want: []string{
				"shop/web: BackOff (Pod) | Once at 00s | 1 of 1", "shop/web: BackOff (Pod) | 3 times since 00s, 2 new | 2 of 3",
				"shop/web: BackOff (Pod) | 4 times since 00s, 1 new | 1 of 4", "Resolved: shop/web: Ready (Pod) | 4 times since 00s | 0 of 4",
				"shop/web: BackOff (Pod) | Once at 200s | 1 of 1",
			},
			open: 1, matched: 5,
		},
		"a resolution and what waits": {
			spec: v1alpha1.AlarmSpec{Group: group(0), Resolve: resolve}, happens: []int{0, 5, 6, -7},
			want: []string{"shop/web: BackOff (Pod) | Once at 00s | 1 of 1", "Resolved: shop/web: BackOff (Pod) | 3 times since 00s, 2 new | 2 of 3"}, matched: 3,
		},
		"a threshold": {
			spec: v1alpha1.AlarmSpec{Group: group(0), Threshold: &v1alpha1.AlarmThreshold{Count: 3, WithinSeconds: 600}}, happens: []int{0, 10, 20, 60, 100},
			want: []string{
				"shop/web: BackOff (Pod) | 3 times since 00s, 1 new | 1 of 3", "shop/web: BackOff (Pod) | 4 times since 00s, 1 new | 1 of 4",
				"shop/web: BackOff (Pod) | 5 times since 00s, 1 new | 1 of 5",
			},
			open: 5, matched: 5, suppressed: map[Suppression]int64{SuppressedByThreshold: 2},
		},
		"a threshold that is not reached": {
			spec: v1alpha1.AlarmSpec{Group: group(0), Resolve: resolve, Threshold: &v1alpha1.AlarmThreshold{Count: 3, WithinSeconds: 600}}, happens: []int{0, 10, -20},
			matched: 2, suppressed: map[Suppression]int64{SuppressedByThreshold: 2},
		},
		"a resolution before the threshold": {
			spec: v1alpha1.AlarmSpec{Group: group(0), Resolve: resolve, Threshold: &v1alpha1.AlarmThreshold{Count: 2, WithinSeconds: 60}}, happens: []int{0, -20, 30},
			want: []string{"shop/web: BackOff (Pod) | 2 times since 00s, 1 new | 1 of 2"},
			open: 2, matched: 2, suppressed: map[Suppression]int64{SuppressedByThreshold: 1},
		},
		"a mute": {
			spec: v1alpha1.AlarmSpec{Group: group(0), MuteFrom: at(0), MuteUntil: at(100)}, happens: []int{0, 10, 20, 30, 100},
			want: []string{"shop/web: BackOff (Pod) | 5 times since 00s, 1 new | 1 of 5"},
			open: 5, matched: 5, suppressed: map[Suppression]int64{SuppressedByMute: 4},
		},
		"a mute of an open group": {
			spec: v1alpha1.AlarmSpec{Group: group(0), Resolve: resolve, MuteFrom: at(50), MuteUntil: at(100)}, happens: []int{0, 60, 70, 110, -120},
			want: []string{
				"shop/web: BackOff (Pod) | Once at 00s | 1 of 1", "shop/web: BackOff (Pod) | 4 times since 00s, 1 new | 1 of 4",
				"Resolved: shop/web: Ready (Pod) | 4 times since 00s | 0 of 4",
			},
			matched: 4, suppressed: map[Suppression]int64{SuppressedByMute: 2},
		},
		"no group": {
			spec: v1alpha1.AlarmSpec{}, happens: []int{0, 10},
			want:    []string{"shop/web: BackOff (Pod) | Once at 00s | 1 of 0", "shop/web: BackOff (Pod) | 2 times since 00s, 1 new | 1 of 0"},
			matched: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.spec.Match = []v1alpha1.EventMatch{{Reasons: []string{"BackOff"}}}
			begin := time.Unix(1_800_000_000, 0)
			clock := clocktesting.NewFakeClock(begin)
			store, err := outbox.Open(t.Context(), t.TempDir(), outbox.WithClock(clock), outbox.WithComposer(ComposeGroup))
			must(t, err)
			defer func() { must(t, store.Close()) }()
			compiler, err := match.NewCompiler()
			must(t, err)
			id := kube.Key{Kind: alarm.KindAlarm, Namespace: "shop", Name: "crashes"}
			compiled, err := compiler.Compile(match.Definition{ID: id, UID: "uid", Spec: tc.spec, Receivers: []string{"ops"}})
			must(t, err)
			alarms, reported := NewAlarms(), &countingReporter{suppressed: map[Suppression]int64{}}
			alarms.Set(id.String(), "1", compiled)
			p := New(Config{
				Observe: func(context.Context, []alarm.Occurrence) {}, Outbox: store, Checkpoint: &memoryCheckpoint{}, Alarms: alarms,
				Dispatcher: noop{}, Enricher: noop{}, Reporter: reported, Clock: clock, Log: logr.Discard(),
			})
			var got []string
			var problems int64
			var last int64 // the ID of the last message that was read
			read := func() {
				_, err := store.Release(t.Context())
				must(t, err)
				entries, err := store.Pending(t.Context(), outbox.Query{Receiver: "ops", Lane: outbox.MainLane, After: last, Limit: 100})
				must(t, err)
				for _, e := range entries {
					var m message.Message
					must(t, json.Unmarshal(e.Payload, &m))
					var ofEvents, total int64
					for _, event := range m.Events {
						ofEvents += event.Count
					}
					if m.Group != nil {
						total = m.Group.Total
					}
					if e.Count != m.Count || ofEvents != m.Count {
						t.Errorf("the receiver gets %d, the message counts %d, its Events %d", e.Count, m.Count, ofEvents)
					}
					lines := strings.Split(m.Text, "\n")
					line := lines[len(lines)-1]
					for second := range 300 {
						line = strings.ReplaceAll(line, begin.Add(time.Duration(second)*time.Second).UTC().Format("2006-01-02 15:04:05 MST"), fmt.Sprintf("%02ds", second))
					}
					got = append(got, fmt.Sprintf("%s | %s | %d of %d", m.Title, line, m.Count, total))
					last = e.ID
				}
				_, err = store.DropOlderThan(t.Context(), "ops", outbox.MainLane, clock.Now().Add(time.Hour)) // the receiver has them
				must(t, err)
			}
			for i, second := range tc.happens {
				occ := happened("shop/web")[0]
				occ.Event.Reason, occ.Event.FirstSeen = "BackOff", begin
				if second < 0 {
					second, occ.Event.Reason, occ.Event.UID = -second, "Ready", "ready"
				} else {
					problems++
					occ.Event.Count = problems
				}
				for now := begin.Add(time.Duration(second) * time.Second); clock.Now().Before(now); clock.Step(time.Second) {
					read()
				}
				occ.Position, occ.ObservedAt, occ.Event.LastSeen = uint64(i+10), clock.Now(), clock.Now()
				must(t, p.handle(t.Context(), source.Batch{Position: occ.Position, Occurrences: []alarm.Occurrence{occ}}))
			}
			for range 60 {
				clock.Step(time.Second)
				read()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			open, _, err := store.Groups.List(t.Context(), id.String(), 10)
			must(t, err)
			var inStatus int64
			for _, g := range open {
				inStatus += g.Total
			}
			if tc.suppressed == nil {
				tc.suppressed = map[Suppression]int64{}
			}
			if diff := cmp.Diff(tc.suppressed, reported.suppressed); diff != "" || inStatus != tc.open || reported.matched != tc.matched {
				t.Errorf("status: %d in the open group, %d matched; suppressed: %s", inStatus, reported.matched, diff)
			}
		})
	}
}
