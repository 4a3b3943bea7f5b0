package pipeline

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
)

// scene is an operator with one alarm, of the receiver "ops".
type scene struct {
	t      *testing.T
	dir    string
	spec   v1alpha1.AlarmSpec
	clock  *clocktesting.FakeClock
	floors outbox.Floors
	// object is the name of what the next Events regard.
	object string

	position uint64
	counted
}

// counted is what the owner of the alarm is told.
type counted struct {
	silent
	matched    int64
	suppressed map[Suppression]int64
}

func (c *counted) Evaluated(_ alarm.ID, outcome match.Outcome, _ error, n int64) {
	if outcome == match.Matched {
		c.matched += n
	}
}

func (c *counted) Suppressed(_ alarm.ID, why Suppression, n int64) { c.suppressed[why] += n }

func newScene(t *testing.T, spec v1alpha1.AlarmSpec) *scene {
	spec.Match = []v1alpha1.EventMatch{{}}
	return &scene{
		t: t, dir: t.TempDir(), spec: spec, position: 100, counted: counted{suppressed: map[Suppression]int64{}},
		clock: clocktesting.NewFakeClock(time.Date(2026, 11, 20, 21, 59, 0, 0, time.UTC)),
	}
}

// happens has a process of its own read that something happened n times, now but for
// an offset, and returns how many occurrences are sent of it.
func (s *scene) happens(n int64, offset time.Duration) int64 {
	s.t.Helper()
	ctx := s.t.Context()
	books, err := outbox.Open(ctx, s.dir, outbox.WithClock(s.clock))
	must(s.t, err)
	defer func() { must(s.t, books.Close()) }()
	if s.floors.Default > 0 {
		must(s.t, books.Replay(ctx, "", s.position, s.floors))
		s.floors = outbox.Floors{}
	}
	compiler, err := match.NewCompiler()
	must(s.t, err)
	compiled, err := compiler.Compile(match.Definition{
		ID: alarm.ID{Kind: alarm.KindClusterAlarm, Name: "some"}, UID: "uid", Spec: s.spec, Receivers: []string{"ops"},
	})
	must(s.t, err)
	alarms := NewAlarms()
	alarms.Set("some", "1", compiled)
	p := New(Config{
		Observe: func(context.Context, []alarm.Occurrence) {}, Outbox: books, Checkpoint: &diary{}, Alarms: alarms,
		Dispatcher: silent{}, Enricher: silent{}, Reporter: &s.counted, Clock: s.clock, Log: logr.Discard(),
	})
	s.position++
	occurrence := alarm.Occurrence{
		Event:    alarm.Event{UID: fmt.Sprint(s.position), Count: n, Regarding: alarm.Reference{Name: s.object}},
		Increase: n, Position: s.position, ObservedAt: s.clock.Now().Add(offset),
	}
	must(s.t, p.handle(ctx, source.Batch{Position: s.position, Occurrences: []alarm.Occurrence{occurrence}}))
	tally, err := books.DropReceiver(ctx, "ops")
	must(s.t, err)
	return tally["ClusterAlarm//some"]
}

// check compares what was sent of each, and what the owner was told.
func (s *scene) check(sent, want []int64, matched int64, suppressed map[Suppression]int64) {
	s.t.Helper()
	if diff := cmp.Diff(want, sent); diff != "" {
		s.t.Errorf("sent: %s", diff)
	}
	if diff := cmp.Diff(suppressed, s.suppressed); diff != "" || s.matched != matched {
		s.t.Errorf("%d matched, want %d; suppressed: %s", s.matched, matched, diff)
	}
}

var fiveInAMinute = v1alpha1.AlarmSpec{Threshold: &v1alpha1.AlarmThreshold{Count: 5, WithinSeconds: 60}}

func TestAThresholdCountsIncreasesAndSurvivesRestarts(t *testing.T) {
	s := newScene(t, fiveInAMinute)
	var sent []int64
	for _, n := range []int64{2, 2, 1, 3} {
		sent = append(sent, s.happens(n, 0))
		s.clock.Step(10 * time.Second)
	}
	s.clock.Step(time.Minute)
	sent = append(sent, s.happens(4, 0))
	s.check(sent, []int64{0, 0, 1, 3, 0}, 12, map[Suppression]int64{SuppressedByThreshold: 8})
}

func TestAThresholdCountsInEachGroupByItself(t *testing.T) {
	spec := fiveInAMinute
	spec.Group = &v1alpha1.AlarmGroup{By: []string{"regarding.name"}}
	s := newScene(t, spec)
	var sent []int64
	for i, n := range []int64{2, 2, 2, 3} {
		s.object = fmt.Sprint("web-", i%2)
		sent = append(sent, s.happens(n, 0))
	}
	s.check(sent, []int64{0, 0, 0, 3}, 9, map[Suppression]int64{SuppressedByThreshold: 6})
}

func TestWhatHappensWhileMuteIsCountedAndNeverSent(t *testing.T) {
	s := newScene(t, v1alpha1.AlarmSpec{Mute: []v1alpha1.MuteWindow{{
		TimeZone: "Asia/Seoul", Times: []v1alpha1.MuteTimes{{Start: "07:00", End: "07:02"}}, // 22:00 to 22:02 UTC
	}}})
	var sent []int64
	for range 4 {
		sent = append(sent, s.happens(3, 0))
		s.clock.Step(time.Minute)
	}
	s.check(sent, []int64{3, 0, 0, 3}, 12, map[Suppression]int64{SuppressedByMute: 6})
}

// What is read late, or again, is judged by when it happened.
func TestMuteIsWhenItHappenedNotWhenItIsRead(t *testing.T) {
	s := newScene(t, v1alpha1.AlarmSpec{Mute: []v1alpha1.MuteWindow{{Times: []v1alpha1.MuteTimes{{Start: "21:00", End: "22:00"}}}}})
	s.clock.Step(time.Hour)
	sent := []int64{s.happens(1, -time.Hour), s.happens(1, 0)}
	s.check(sent, []int64{0, 1}, 2, map[Suppression]int64{SuppressedByMute: 1})
}

func TestWhatHappensWhileMuteCountsForTheThreshold(t *testing.T) {
	spec := fiveInAMinute
	spec.Mute = []v1alpha1.MuteWindow{{Times: []v1alpha1.MuteTimes{{Start: "21:59", End: "22:00"}}}}
	s := newScene(t, spec)
	sent := []int64{s.happens(4, 0)}
	s.clock.Step(time.Minute)
	sent = append(sent, s.happens(1, 0))
	s.check(sent, []int64{0, 1}, 5, map[Suppression]int64{SuppressedByThreshold: 4})
}

// Whoever writes an Event may have it say when it was written.
func TestAnEventOfTheFutureDoesNotHoldTheWindowOpen(t *testing.T) {
	s := newScene(t, fiveInAMinute)
	sent := []int64{s.happens(1, 100*365*24*time.Hour)}
	s.clock.Step(2 * time.Minute)
	sent = append(sent, s.happens(4, 0), s.happens(1, 0))
	s.check(sent, []int64{0, 0, 1}, 6, map[Suppression]int64{SuppressedByThreshold: 5})
}

func TestWhatIsReadAgainForAWindowIsNeitherCountedNorSentAgain(t *testing.T) {
	s := newScene(t, fiveInAMinute)
	s.floors = outbox.Floors{Default: 102} // the first two were dealt with
	sent := []int64{s.happens(2, 0), s.happens(7, 0), s.happens(1, 0)}
	s.check(sent, []int64{0, 0, 1}, 1, map[Suppression]int64{})
}
