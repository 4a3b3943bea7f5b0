package pipeline

import (
	"context"
	"fmt"
	"strings"
	"sync"
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

// unreadables is an Enricher that cannot read objects with these names. It records the other
// parts of a pipeline that tests look at.
type unreadables struct {
	noop
	mu      sync.Mutex
	names   map[string]bool
	nodes   alarm.Unread
	reads   int
	unread  int64 // the occurrences that were not evaluated
	matched int64
	texts   []string
}

func (u *unreadables) Context(_ context.Context, event *alarm.Event) alarm.Context {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.reads++
	if u.names[event.Regarding.Name] {
		return alarm.Context{ObjectUnread: "the API server limits requests", NodesUnread: u.nodes}
	}
	return alarm.Context{Resolved: true, NodesUnread: u.nodes, Object: alarm.Object{Metadata: alarm.ObjectMeta{Labels: map[string]string{"team": "shop"}}}}
}

func (u *unreadables) Labels(string) (map[string]string, bool, alarm.Unread) {
	return map[string]string{}, true, ""
}

func (u *unreadables) Evaluated(_ kube.Key, outcome match.Outcome, err error, n int64) {
	if outcome == match.Undecided {
		u.unread += n
		u.texts = append(u.texts, err.Error())
	}
	if outcome == match.Matched {
		u.matched += n
	}
}

// newParkingLot returns a pipeline with these alarms. The key of an alarm is its receiver.
func newParkingLot(t *testing.T, u *unreadables, specs map[string]v1alpha1.AlarmSpec, options ...outbox.Option) *Pipeline {
	t.Helper()
	store, err := outbox.Open(t.Context(), t.TempDir(), append(options, outbox.WithComposer(joinKeys))...)
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })
	compiler, err := match.NewCompiler()
	must(t, err)
	alarms := NewAlarms()
	for name, spec := range specs {
		compiled, err := compiler.Compile(match.Definition{
			ID: kube.Key{Kind: alarm.KindClusterAlarm, Name: name}, UID: name, Spec: spec, Receivers: []string{name},
		})
		must(t, err)
		alarms.Set(name, "1", compiled)
	}
	return New(Config{
		Source:     at(0), // the first Event is at position 1
		ClusterUID: "cluster", Outbox: store, Checkpoint: &simulatedCheckpoint{s: &simulation{}}, Dispatcher: noop{},
		Alarms: alarms, Namespaces: u, Enricher: u, Reporter: u, MaxAge: time.Hour,
		Observe: func(context.Context, []alarm.Occurrence) {},
		Clock:   clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0)), Log: logr.Discard(),
	})
}

// happened returns occurrences at positions 1, 2 and so on. Each object is NAMESPACE/NAME.
func happened(objects ...string) []alarm.Occurrence {
	var occurrences []alarm.Occurrence
	for i, object := range objects {
		namespace, name, _ := strings.Cut(object, "/")
		occurrences = append(occurrences, alarm.Occurrence{
			Increase: 1, Position: uint64(i + 1), ObservedAt: time.Unix(1_800_000_000, 0),
			Event: alarm.Event{
				UID: fmt.Sprint("event-", i), Count: 1, Namespace: namespace, Note: strings.Repeat("x", 500),
				Regarding: alarm.Reference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: name},
			},
		})
	}
	return occurrences
}

func (p *Pipeline) handleAll(t *testing.T, occurrences []alarm.Occurrence) {
	t.Helper()
	must(t, p.handle(t.Context(), source.Batch{Position: occurrences[len(occurrences)-1].Position, Occurrences: occurrences}))
}

// countsOf returns the counts in the status of an alarm.
func (p *Pipeline) countsOf(t *testing.T, subject string) outbox.StatusCounts {
	t.Helper()
	must(t, p.Outbox.Confirm(t.Context()))
	must(t, p.Outbox.Statuses.Adopt(t.Context(), subject, "uid", outbox.StatusCounts{}))
	counts, _, _ := p.Outbox.Statuses.Counts(subject, "uid")
	return counts
}

func (p *Pipeline) retryOnce(t *testing.T) {
	t.Helper()
	_, err := p.retryNamespaces(t.Context(), nil)
	must(t, err)
}

// waiting returns which occurrences wait for a receiver in the outbox, in order.
func (p *Pipeline) waiting(t *testing.T, receiver string, occurrences []alarm.Occurrence) (names []string) {
	t.Helper()
	entries, err := p.Outbox.Pending(t.Context(), outbox.Query{Receiver: receiver, Lane: outbox.MainLane, Limit: 1000})
	must(t, err)
	for i := range entries {
		for j := range occurrences {
			if entries[i].Key == alarm.Key(receiver, receiver, &occurrences[j]) {
				names = append(names, fmt.Sprint(occurrences[j].Position, " ", occurrences[j].Event.Regarding.Name))
			}
		}
	}
	return names
}

var needsObject = v1alpha1.AlarmSpec{Match: []v1alpha1.EventMatch{{ObjectSelector: &metav1.LabelSelector{}}}}

func TestAFailedReadDelaysOnlyItsAlarmAndObject(t *testing.T) {
	u := &unreadables{names: map[string]bool{"slow": true}}
	p := newParkingLot(t, u, map[string]v1alpha1.AlarmSpec{"picky": needsObject, "plain": {Match: []v1alpha1.EventMatch{{}}}})
	all := happened("shop/slow", "shop/web", "shop/slow", "bank/slow", "bank/web")
	p.handleAll(t, all[:2])
	u.names = nil
	p.handleAll(t, all[2:]) // behind the first one, although it can be read now
	want := map[string][]string{"picky": {"2 web", "4 slow", "5 web"}, "plain": {"1 slow", "2 web", "3 slow", "4 slow", "5 web"}}
	for receiver, names := range want {
		if diff := cmp.Diff(names, p.waiting(t, receiver, all)); diff != "" {
			t.Errorf("%s: %s", receiver, diff)
		}
	}
	if got := p.Outbox.State().Position; got != 5 {
		t.Errorf("the position is %d, want 5", got)
	}

	p.retryOnce(t)
	if diff := cmp.Diff([]string{"2 web", "4 slow", "5 web", "1 slow", "3 slow"}, p.waiting(t, "picky", all)); diff != "" {
		t.Error(diff)
	}
	if u.matched != 10 || u.unread != 0 {
		t.Errorf("matched %d, not evaluated %d; want 10 and 0", u.matched, u.unread)
	}
	if got := p.countsOf(t, "ClusterAlarm//picky"); got.Matched != 5 || got.Unresolved != 0 {
		t.Errorf("the status counts %+v, want 5 matches", got)
	}
	p.retryOnce(t)
	if got := p.waiting(t, "picky", all); len(got) != 5 || p.Outbox.Size().Parked != 0 {
		t.Errorf("after another attempt: %v, and %d are parked", got, p.Outbox.Size().Parked)
	}
}

// A tenant can write Events that regard objects of others. They must not hold the others'.
func TestAForgedEventHoldsNoOther(t *testing.T) {
	u := &unreadables{nodes: "not yet"}
	p := newParkingLot(t, u, map[string]v1alpha1.AlarmSpec{"count": {Match: []v1alpha1.EventMatch{{Expression: "cluster.nodes > 0 || true"}}}})
	all := happened("bank/web", "bank/web")
	all[0].Event.Namespace = "shop"
	p.handleAll(t, all[:1])
	u.nodes = ""
	p.handleAll(t, all[1:])
	if diff := cmp.Diff([]string{"2 web"}, p.waiting(t, "count", all)); diff != "" {
		t.Error(diff)
	}
}

func TestNodesAndObjectsAreSeparateNeeds(t *testing.T) {
	u := &unreadables{nodes: "not yet"}
	p := newParkingLot(t, u, map[string]v1alpha1.AlarmSpec{
		"picky": needsObject,
		"count": {Match: []v1alpha1.EventMatch{{Expression: "cluster.nodes >= 0"}}},
	})
	all := happened("shop/web")
	p.handleAll(t, all)
	if picky, count := p.waiting(t, "picky", all), p.waiting(t, "count", all); len(picky) != 1 || len(count) != 0 {
		t.Errorf("without Nodes: %v and %v", picky, count)
	}
	u.nodes = ""
	p.retryOnce(t)
	if count := p.waiting(t, "count", all); len(count) != 1 {
		t.Errorf("with Nodes: %v", count)
	}
}

func TestGroupsByLabelsGetLateOccurrences(t *testing.T) {
	u := &unreadables{names: map[string]bool{"web": true}}
	p := newParkingLot(t, u, map[string]v1alpha1.AlarmSpec{"group": {
		Match: []v1alpha1.EventMatch{{}}, Group: &v1alpha1.AlarmGroup{By: []string{"object.labels[team]"}},
	}})
	p.handleAll(t, happened("shop/web", "shop/api"))
	if got := p.Outbox.Size(); got.Groups != 1 || got.Held != 1 || got.Parked != 1 {
		t.Errorf("got %+v, want one occurrence in a group and one that waits", got)
	}
	u.names = nil
	p.retryOnce(t)
	if got := p.Outbox.Size(); got.Groups != 1 || got.Held != 2 || got.Parked != 0 {
		t.Errorf("got %+v, want both in the same group", got)
	}
}

func TestAThresholdCountsLateOccurrences(t *testing.T) {
	u := &unreadables{names: map[string]bool{"web": true}}
	spec := needsObject
	spec.Threshold = &v1alpha1.AlarmThreshold{Count: 2, WithinSeconds: 60}
	p := newParkingLot(t, u, map[string]v1alpha1.AlarmSpec{"often": spec})
	all := happened("shop/web", "shop/api")
	p.handleAll(t, all)
	if got := p.waiting(t, "often", all); len(got) > 0 {
		t.Errorf("sent before the threshold is reached: %v", got)
	}
	u.names = nil
	p.retryOnce(t)
	if diff := cmp.Diff([]string{"1 web"}, p.waiting(t, "often", all)); diff != "" {
		t.Error(diff)
	}
}

func TestAnOccurrenceIsGivenUpAfterTheMaximumAge(t *testing.T) {
	u := &unreadables{names: map[string]bool{"web": true}}
	p := newParkingLot(t, u, map[string]v1alpha1.AlarmSpec{"picky": needsObject})
	p.handleAll(t, happened("shop/web", "shop/web"))
	clock := p.Clock.(*clocktesting.FakeClock)
	p.retryOnce(t)
	if len(u.texts) > 0 {
		t.Errorf("reported at once: %v", u.texts)
	}
	clock.Step(2 * time.Minute)
	p.retryOnce(t)
	if len(u.texts) != 1 || !strings.Contains(u.texts[0], "the API server limits requests") || u.unread != 0 {
		t.Errorf("after two minutes: %v, %d not evaluated", u.texts, u.unread)
	}
	clock.Step(time.Hour)
	p.retryOnce(t)
	if u.unread != 2 || p.Outbox.Size().Parked != 0 {
		t.Errorf("%d not evaluated, %d still wait; want 2 and 0", u.unread, p.Outbox.Size().Parked)
	}
	if last := u.texts[len(u.texts)-1]; !strings.Contains(last, "some Events were not sent") {
		t.Errorf("after an hour: %s", last)
	}
	if got := p.countsOf(t, "ClusterAlarm//picky"); got.Undecided != 2 || got.Unresolved != 0 || got.Matched != 0 {
		t.Errorf("the status counts %+v, want 2 undecided", got)
	}
}

func TestOnlyTheAlarmInForceGetsALateOccurrence(t *testing.T) {
	for name, change := range map[string]func(*Alarms, *match.Alarm){
		"deleted": func(a *Alarms, _ *match.Alarm) { a.Delete("picky") },
		"recreated": func(a *Alarms, same *match.Alarm) {
			other := *same
			other.UID = "other"
			a.Set("picky", "2", &other)
		},
	} {
		t.Run(name, func(t *testing.T) {
			u := &unreadables{names: map[string]bool{"web": true}}
			p := newParkingLot(t, u, map[string]v1alpha1.AlarmSpec{"picky": needsObject})
			all := happened("shop/web")
			p.handleAll(t, all)
			u.names = nil
			picky, _ := p.Alarms.withUID("picky")
			change(p.Alarms, picky)
			p.retryOnce(t)
			if got := p.Outbox.Backlog("picky"); got.Entries > 0 || p.Outbox.Size().Parked > 0 || u.unread > 0 {
				t.Errorf("%d messages, %d parked, %d not evaluated", got.Entries, p.Outbox.Size().Parked, u.unread)
			}
		})
	}
}

// Many objects of one namespace that cannot be read must not use up the space of others, nor
// their turns.
func TestParkedOccurrencesOfOneNamespaceLeaveSpaceForOthers(t *testing.T) {
	u := &unreadables{names: map[string]bool{"slow": true}}
	p := newParkingLot(t, u, map[string]v1alpha1.AlarmSpec{"picky": needsObject}, outbox.WithMaxBytes(8<<20))
	var objects []string
	for i := range 1000 {
		name := fmt.Sprint("slow-", i)
		objects, u.names[name] = append(objects, "greedy/"+name), true
	}
	all := happened(append(objects, "modest/slow")...)
	p.handleAll(t, all)
	greedy := p.Outbox.Size().Parked - 1
	if u.unread != 1000-greedy || greedy < 10 || greedy > 200 {
		t.Errorf("%d of the greedy namespace are parked, %d are given up", greedy, u.unread)
	}
	reads := u.reads
	delete(u.names, "slow")
	p.retryOnce(t)
	if diff := cmp.Diff([]string{"1001 slow"}, p.waiting(t, "picky", all)); diff != "" {
		t.Error(diff)
	}
	if n := u.reads - reads; n > 10 {
		t.Errorf("%d attempts, want a few for each namespace", n)
	}
}

func TestParkedOccurrencesSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	u := &unreadables{names: map[string]bool{"web": true}}
	all := happened("shop/web", "shop/web")
	for restart := range 2 {
		p := newParkingLot(t, u, map[string]v1alpha1.AlarmSpec{"picky": needsObject})
		store, err := outbox.Open(t.Context(), dir)
		must(t, err)
		p.Outbox = store
		if restart == 0 {
			p.handleAll(t, all)
		} else {
			u.names = nil
			p.retryOnce(t)
			if diff := cmp.Diff([]string{"1 web", "2 web"}, p.waiting(t, "picky", all)); diff != "" {
				t.Error(diff)
			}
		}
		must(t, store.Close())
	}
}

// No operator ran for hours, and the API server is just starting too.
func TestAStartGivesNoOccurrenceUpBeforeItWasTried(t *testing.T) {
	dir := t.TempDir()
	u := &unreadables{names: map[string]bool{"web": true}}
	start := func() (*Pipeline, *clocktesting.FakeClock) {
		p := newParkingLot(t, u, map[string]v1alpha1.AlarmSpec{"picky": needsObject})
		store, err := outbox.Open(t.Context(), dir)
		must(t, err)
		p.Outbox = store
		return p, p.Clock.(*clocktesting.FakeClock)
	}
	p, _ := start()
	p.handleAll(t, happened("shop/web", "shop/web"))
	must(t, p.Outbox.Close())
	p, clock := start()
	defer func() { must(t, p.Outbox.Close()) }()
	clock.Step(10 * time.Hour)
	p.started = clock.Now()
	for _, step := range []struct {
		passes time.Duration
		given  int64
	}{{time.Second, 0}, {59 * time.Minute, 0}, {time.Minute, 2}} {
		clock.Step(step.passes)
		p.retryOnce(t)
		if u.unread != step.given {
			t.Errorf("%s after the start: %d not evaluated, want %d", clock.Since(p.started), u.unread, step.given)
		}
	}
}

// The checkpoint lists a parked occurrence until the receiver has it. The receiver's offset
// does not fall back.
func TestCheckpointContainsParkedOccurrences(t *testing.T) {
	u := &unreadables{names: map[string]bool{"slow": true}}
	p := newParkingLot(t, u, map[string]v1alpha1.AlarmSpec{"picky": needsObject})
	all := happened("shop/slow", "shop/web")
	p.handleAll(t, all)
	first, err := p.Outbox.Prepare(t.Context(), "picky", outbox.MainLane, []int64{1}, "key", nil)
	must(t, err)
	_, err = p.Outbox.Finish(t.Context(), first, outbox.Outcome{})
	must(t, err)

	checkpointOf := func() (waiting map[string]uint64, behind map[string]uint64) {
		t.Helper()
		must(t, p.writeCheckpoint(t.Context()))
		return p.lastCheckpoint.Waiting["picky"], p.lastCheckpoint.Behind
	}
	want := map[string]uint64{alarm.Key("picky", "picky", &all[0]): 1}
	for _, when := range []string{"parked", "decided"} {
		waiting, behind := checkpointOf()
		if diff := cmp.Diff(want, waiting); diff != "" || len(behind) > 0 {
			t.Errorf("%s: behind %v, waiting %s", when, behind, diff)
		}
		u.names = nil
		p.retryOnce(t)
	}
	entries, err := p.Outbox.Pending(t.Context(), outbox.Query{Receiver: "picky", Lane: outbox.MainLane, Limit: 10})
	must(t, err)
	second, err := p.Outbox.Prepare(t.Context(), "picky", outbox.MainLane, []int64{entries[0].ID}, "late", nil)
	must(t, err)
	_, err = p.Outbox.Finish(t.Context(), second, outbox.Outcome{})
	must(t, err)
	if waiting, _ := checkpointOf(); len(waiting) > 0 {
		t.Errorf("sent: waiting %v", waiting)
	}
}

// The last leader counted what it evaluated, and a checkpoint does not say what it could not
// evaluate.
func TestOccurrencesThatAreReadAgainAreParkedWithoutACount(t *testing.T) {
	u := &unreadables{names: map[string]bool{"slow": true}}
	p := newParkingLot(t, u, map[string]v1alpha1.AlarmSpec{"picky": needsObject})
	all := happened("shop/slow")
	handled := progress.Offsets{Position: 5, Waiting: progress.Waiting{"picky": {alarm.Key("picky", "picky", &all[0]): 1}}}
	must(t, p.Outbox.Replay(t.Context(), outbox.Replay{Handled: handled}))
	p.handleAll(t, all)
	u.names = nil
	p.retryOnce(t)
	if got := p.waiting(t, "picky", all); len(got) != 1 {
		t.Errorf("waiting: %v, want the occurrence", got)
	}
	if got := p.countsOf(t, "ClusterAlarm//picky"); got.Matched != 0 || u.matched != 0 {
		t.Errorf("the status counts %+v, and the metrics %d matches", got, u.matched)
	}
}

// A batch must not wait for each of its objects.
func TestReadsOfABatchShareALimit(t *testing.T) {
	u := &deadlines{unreadables: &unreadables{}}
	p := newParkingLot(t, u.unreadables, map[string]v1alpha1.AlarmSpec{"picky": needsObject})
	p.matcher.enricher = u
	p.handleAll(t, happened("shop/web", "bank/web"))
	if len(u.seen) != 2 || u.seen[0] != u.seen[1] || time.Until(u.seen[0]) > batchReadTime {
		t.Errorf("the deadlines are %v", u.seen)
	}
}

// deadlines records the deadlines of reads.
type deadlines struct {
	*unreadables
	seen []time.Time
}

func (d *deadlines) Context(ctx context.Context, event *alarm.Event) alarm.Context {
	deadline, _ := ctx.Deadline()
	d.mu.Lock()
	d.seen = append(d.seen, deadline)
	d.mu.Unlock()
	return d.unreadables.Context(ctx, event)
}
