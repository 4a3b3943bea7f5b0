package pipeline

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// scene is an operator with one alarm and the receiver "ops".
type scene struct {
	t       *testing.T
	dir     string
	spec    v1alpha1.AlarmSpec
	clock   *clocktesting.FakeClock
	handled progress.Offsets
	// created is when the alarm was created, zero if that does not matter.
	created time.Time
	// object is the name of the object that the next Events regard.
	object string

	position uint64
	countingReporter
}

// countingReporter counts what it is given.
type countingReporter struct {
	noop
	matched    int64
	suppressed map[Suppression]int64
}

func (c *countingReporter) Evaluated(_ kube.Key, outcome match.Outcome, _ error, n int64) {
	if outcome == match.Matched {
		c.matched += n
	}
}

func (c *countingReporter) Suppressed(why Suppression, n int64) { c.suppressed[why] += n }

func newScene(t *testing.T, spec v1alpha1.AlarmSpec) *scene {
	spec.Match = []v1alpha1.EventMatch{{}}
	return &scene{
		t: t, dir: t.TempDir(), spec: spec, position: 100, countingReporter: countingReporter{suppressed: map[Suppression]int64{}},
		clock: clocktesting.NewFakeClock(time.Date(2026, 11, 20, 21, 59, 0, 0, time.UTC)),
	}
}

// happens starts a new process, which reads n occurrences at the present time plus offset.
// It returns how many of them are sent.
func (s *scene) happens(n int64, offset time.Duration) int64 {
	s.t.Helper()
	ctx := s.t.Context()
	store, err := outbox.Open(ctx, s.dir, outbox.WithClock(s.clock))
	must(s.t, err)
	defer func() { must(s.t, store.Close()) }()
	if s.handled.Position > 0 {
		must(s.t, store.Replay(ctx, outbox.Replay{Position: s.position, Handled: s.handled}))
		s.handled = progress.Offsets{}
	}
	compiler, err := match.NewCompiler()
	must(s.t, err)
	compiled, err := compiler.Compile(match.Definition{
		ID: kube.Key{Kind: alarm.KindClusterAlarm, Name: "some"}, UID: "uid", CreatedAt: s.created, Spec: s.spec, Receivers: []string{"ops"},
	})
	must(s.t, err)
	alarms := NewAlarms()
	alarms.Set("some", "1", compiled)
	p := New(Config{
		Observe: func(context.Context, []alarm.Occurrence) {}, Outbox: store, Checkpoint: &memoryCheckpoint{}, Alarms: alarms,
		Dispatcher: noop{}, Enricher: noop{}, Reporter: &s.countingReporter, Clock: s.clock, Log: logr.Discard(),
	})
	s.position++
	occurrence := alarm.Occurrence{
		Event:    alarm.Event{UID: fmt.Sprint(s.position), Count: n, Regarding: alarm.Reference{Name: s.object}},
		Increase: n, Position: s.position, ObservedAt: s.clock.Now().Add(offset),
	}
	must(s.t, p.handle(ctx, source.Batch{Position: s.position, Occurrences: []alarm.Occurrence{occurrence}}))
	sent, err := store.DropReceiver(ctx, "ops")
	must(s.t, err)
	return sent["ClusterAlarm//some"]
}

// check compares the numbers of sent, matched and suppressed occurrences.
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

func TestThresholdCountsIncreasesAndSurvivesRestarts(t *testing.T) {
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

func TestThresholdCountsEachGroupSeparately(t *testing.T) {
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

func TestMutedOccurrencesAreCountedAndNeverSent(t *testing.T) {
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

// mutedFrom22To2210 is a mute that a user set at 22:00 and that ended at 22:10.
var mutedFrom22To2210 = v1alpha1.AlarmSpec{
	MuteFrom:  new(metav1.Date(2026, 11, 20, 22, 0, 0, 0, time.UTC)),
	MuteUntil: new(metav1.Date(2026, 11, 20, 22, 10, 0, 0, time.UTC)),
}

func TestAMuteUntilATimeEndsByItself(t *testing.T) {
	s := newScene(t, mutedFrom22To2210)
	var sent []int64
	for _, step := range []time.Duration{time.Minute, 9*time.Minute + 59*time.Second, time.Second, time.Minute} {
		sent = append(sent, s.happens(3, 0)) // at 21:59, 22:00:00, 22:09:59 and 22:10:00
		s.clock.Step(step)
	}
	s.check(sent, []int64{3, 0, 0, 3}, 12, map[Suppression]int64{SuppressedByMute: 6})
}

func TestAMuteUntilATimeAppliesToTheTimesOfOccurrencesThatAreReadLater(t *testing.T) {
	s := newScene(t, mutedFrom22To2210)
	s.clock.Step(31 * time.Minute) // 22:30
	sent := []int64{s.happens(1, -31*time.Minute), s.happens(1, -29*time.Minute), s.happens(1, -15*time.Minute)}
	s.check(sent, []int64{1, 0, 1}, 3, map[Suppression]int64{SuppressedByMute: 1})
}

func TestMuteUsesTheTimeOfTheOccurrence(t *testing.T) {
	s := newScene(t, v1alpha1.AlarmSpec{Mute: []v1alpha1.MuteWindow{{Times: []v1alpha1.MuteTimes{{Start: "21:00", End: "22:00"}}}}})
	s.clock.Step(time.Hour)
	sent := []int64{s.happens(1, -time.Hour), s.happens(1, 0)}
	s.check(sent, []int64{0, 1}, 2, map[Suppression]int64{SuppressedByMute: 1})
}

func TestMutedOccurrencesCountForTheThreshold(t *testing.T) {
	spec := fiveInAMinute
	spec.Mute = []v1alpha1.MuteWindow{{Times: []v1alpha1.MuteTimes{{Start: "21:59", End: "22:00"}}}}
	s := newScene(t, spec)
	sent := []int64{s.happens(4, 0)}
	s.clock.Step(time.Minute)
	sent = append(sent, s.happens(1, 0))
	s.check(sent, []int64{0, 1}, 5, map[Suppression]int64{SuppressedByThreshold: 4})
}

// The author of an Event can set its time.
func TestEventInTheFutureDoesNotKeepTheWindowOpen(t *testing.T) {
	s := newScene(t, fiveInAMinute)
	sent := []int64{s.happens(1, 100*365*24*time.Hour)}
	s.clock.Step(2 * time.Minute)
	sent = append(sent, s.happens(4, 0), s.happens(1, 0))
	s.check(sent, []int64{0, 0, 1}, 6, map[Suppression]int64{SuppressedByThreshold: 5})
}

// A node can boot with a wrong clock, which is then corrected.
func TestAThresholdCountsAfterTheClockWasSetBack(t *testing.T) {
	s := newScene(t, fiveInAMinute)
	sent := []int64{s.happens(3, 0)}
	s.clock.Step(-9 * time.Hour)
	sent = append(sent, s.happens(4, 0))
	s.clock.Step(time.Second)
	sent = append(sent, s.happens(1, 0))
	s.clock.Step(2 * time.Minute)
	sent = append(sent, s.happens(4, 0), s.happens(1, 0))
	s.check(sent, []int64{0, 4, 1, 0, 1}, 13, map[Suppression]int64{SuppressedByThreshold: 7})
}

func TestAnAlarmMatchesIfTheClockWasSetBackAfterItsCreation(t *testing.T) {
	s := newScene(t, v1alpha1.AlarmSpec{})
	s.created = s.clock.Now()
	sent := []int64{s.happens(1, -time.Minute), s.happens(1, 0)}
	s.clock.Step(-9 * time.Hour)
	sent = append(sent, s.happens(1, 0))
	s.check(sent, []int64{0, 1, 1}, 2, map[Suppression]int64{})
}

// The clock of the API server, by which the times of alarms and Events are, is ahead.
func TestAnAlarmMatchesIfTheClockOfTheOperatorIsSlow(t *testing.T) {
	s := newScene(t, v1alpha1.AlarmSpec{})
	s.created = s.clock.Now().Add(10 * time.Minute)
	sent := []int64{s.happens(1, 10*time.Minute+time.Second)}
	s.check(sent, []int64{1}, 1, map[Suppression]int64{})
}

func TestReplayedOccurrencesAreNeitherCountedNorSentAgain(t *testing.T) {
	s := newScene(t, fiveInAMinute)
	s.handled = progress.Offsets{Position: 102} // the first two were handled before
	sent := []int64{s.happens(2, 0), s.happens(7, 0), s.happens(1, 0)}
	s.check(sent, []int64{0, 0, 1}, 1, map[Suppression]int64{})
}
