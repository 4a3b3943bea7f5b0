package pipeline

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/counters"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// simulation is everything outside of a replica: the API server's Events, the checkpoint,
// and what receivers got.
type simulation struct {
	t         *testing.T
	seed      uint64
	rand      *rand.Rand
	clock     *clocktesting.FakeClock
	compiled  *match.Alarm
	receivers []string
	// quickOnly: all receivers are quick, so that only windows make a replay start earlier.
	quickOnly bool
	// often is an alarm with a threshold and the receiver "often".
	often *match.Alarm
	// grouped is an alarm with groups and the receiver "grouped".
	grouped *match.Alarm
	// picky is an alarm that needs the object, and the receiver "picky". byTeam groups by a
	// label of it. reliable is true if every read of an object succeeds.
	picky, byTeam *match.Alarm
	// routed is an alarm that chooses the receivers team-0, team-1 or other by a label of the
	// object.
	routed   *match.Alarm
	reliable bool
	// reads are the numbers of reads by UID of the Event.
	mu    sync.Mutex
	reads map[string]int

	events     []alarm.Occurrence
	checkpoint checkpoint.Checkpoint
	writes     int
	// got counts the accepted occurrences, by receiver and key. sequence are those that were
	// not accepted before, in order.
	got      map[string]int
	sequence []string
	// again is how often each of them can have been repeated.
	again map[string]int
	// setAside is how many messages were set aside.
	setAside int
	// statuses are the statuses of alarms and receivers in the API server.
	statuses map[string]*v1alpha1.AlarmStatus
	// notInCheckpoint were accepted since the checkpoint was last written.
	notInCheckpoint map[string]bool
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	t.Helper()
	s := &simulation{
		seed: seed, reads: map[string]int{}, quickOnly: seed%2 == 1,
		t: t, rand: rand.New(rand.NewPCG(seed, 1)), receivers: []string{"quick", "slow", "dead"},
		clock: clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0)),
		got:   map[string]int{}, again: map[string]int{}, statuses: map[string]*v1alpha1.AlarmStatus{}, notInCheckpoint: map[string]bool{},
	}
	compiler, err := match.NewCompiler()
	must(t, err)
	s.compiled, err = compiler.Compile(match.Definition{
		ID: kube.Key{Kind: alarm.KindClusterAlarm, Name: "all"}, UID: "alarm",
		Spec:      v1alpha1.AlarmSpec{Match: []v1alpha1.EventMatch{{}}},
		Receivers: s.receivers,
	})
	must(t, err)
	s.often, err = compiler.Compile(match.Definition{
		ID: kube.Key{Kind: alarm.KindClusterAlarm, Name: "often"}, UID: "often",
		Spec: v1alpha1.AlarmSpec{
			Match:     []v1alpha1.EventMatch{{}},
			Threshold: &v1alpha1.AlarmThreshold{Count: oftenCount, WithinSeconds: oftenWithin},
		},
		Receivers: []string{"often"},
	})
	must(t, err)
	s.grouped, err = compiler.Compile(match.Definition{
		ID: kube.Key{Kind: alarm.KindClusterAlarm, Name: "grouped"}, UID: "grouped",
		Spec: v1alpha1.AlarmSpec{
			Match:   []v1alpha1.EventMatch{{}},
			Group:   &v1alpha1.AlarmGroup{By: []string{"regarding.name"}, WaitSeconds: new(int32(5)), IntervalSeconds: new(int32(60))},
			Resolve: &v1alpha1.AlarmResolve{QuietSeconds: new(int32(quietFor))},
		},
		Receivers: []string{"grouped"},
	})
	must(t, err)
	s.picky, err = compiler.Compile(match.Definition{
		ID: kube.Key{Kind: alarm.KindClusterAlarm, Name: "picky"}, UID: "picky",
		Spec:      v1alpha1.AlarmSpec{Match: []v1alpha1.EventMatch{{ObjectSelector: &metav1.LabelSelector{}}}},
		Receivers: []string{"picky"},
	})
	must(t, err)
	s.byTeam, err = compiler.Compile(match.Definition{
		ID: kube.Key{Kind: alarm.KindClusterAlarm, Name: "by-team"}, UID: "by-team",
		Spec: v1alpha1.AlarmSpec{
			Match: []v1alpha1.EventMatch{{}},
			Group: &v1alpha1.AlarmGroup{By: []string{"object.labels[team]"}, WaitSeconds: new(int32(5)), IntervalSeconds: new(int32(60))},
		},
		Receivers: []string{"by-team"},
	})
	must(t, err)
	route := match.NewRoute("team", "other")
	route.Add("team-0", []string{"web-0"}, true)
	route.Add("team-1", []string{"web-1"}, true)
	s.routed, err = compiler.Compile(match.Definition{
		ID: kube.Key{Kind: alarm.KindClusterAlarm, Name: "routed"}, UID: "routed",
		Spec: v1alpha1.AlarmSpec{Match: []v1alpha1.EventMatch{{}}}, Route: route,
	})
	must(t, err)
	return s
}

// routedTo are the receivers of the alarm routed, by the name of the object.
var routedTo = map[string]string{"web-0": "team-0", "web-1": "team-1", "web-2": "other"}

// quietFor is spec.resolve.quietSeconds of the alarm grouped.
const quietFor = 90

// Context implements Enricher. Half of the reads fail. Reads are concurrent, so the result
// depends on the Event and on the number of its reads.
func (s *simulation) Context(_ context.Context, event *alarm.Event) alarm.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads[event.UID]++
	seed := fnv.New64()
	_, _ = fmt.Fprint(seed, s.seed, event.UID, s.reads[event.UID])
	if !s.reliable && rand.New(rand.NewPCG(seed.Sum64(), 1)).IntN(2) == 0 {
		return alarm.Context{ObjectUnread: "not now"}
	}
	return alarm.Context{Resolved: true, Object: alarm.Object{Metadata: alarm.ObjectMeta{Labels: map[string]string{"team": event.Regarding.Name}}}}
}

// Named implements Enricher. No alarm of the simulation names resources.
func (*simulation) Named(context.Context, *alarm.Event, []alarm.Resource) (known alarm.Context, of alarm.Resource, ok bool) {
	return alarm.Context{}, alarm.Resource{}, false
}

// The threshold of the alarm often.
const oftenCount, oftenWithin = 10, 120

// addEvents adds Events to the API server. Positions have gaps, because the source does not
// see other writes.
func (s *simulation) addEvents(n int) {
	for range n {
		position := uint64(10)
		if len(s.events) > 0 {
			position = s.events[len(s.events)-1].Position + 1 + s.rand.Uint64N(3)
		}
		s.clock.Step(time.Duration(s.rand.IntN(20)) * time.Second)
		s.events = append(s.events, alarm.Occurrence{
			Event:    alarm.Event{UID: fmt.Sprint("event-", position), Count: 1, Namespace: "default", Regarding: alarm.Reference{Name: fmt.Sprint("web-", s.rand.IntN(3))}},
			Increase: 1 + s.rand.Int64N(2), Position: position, ObservedAt: s.clock.Now(),
		})
	}
}

// simulatedCheckpoint is a CheckpointStore that detects other writers, like checkpoint.Store.
type simulatedCheckpoint struct {
	s    *simulation
	seen int
}

func (c *simulatedCheckpoint) Read(context.Context) (checkpoint.Checkpoint, bool, error) {
	c.seen = c.s.writes
	return c.s.checkpoint, c.s.writes > 0, nil
}

func (c *simulatedCheckpoint) Write(_ context.Context, value checkpoint.Checkpoint) error {
	if c.seen != c.s.writes {
		return checkpoint.ErrDeposed
	}
	c.s.writes++
	c.seen = c.s.writes
	c.s.checkpoint = value
	clear(c.s.notInCheckpoint)
	return nil
}

// replica is one process with a disk.
type replica struct {
	s   *simulation
	dir string
}

// term is the leadership of a replica until it crashes.
type term struct {
	*Pipeline
	s        *simulation
	start    source.Start
	counters *counters.Counters
}

func (r *replica) lead(ctx context.Context) *term {
	r.s.t.Helper()
	store, err := outbox.Open(ctx, r.dir, outbox.WithClock(r.s.clock), outbox.WithComposer(joinKeys))
	must(r.s.t, err)
	alarms := NewAlarms()
	alarms.Set("all", "1", r.s.compiled)
	alarms.Set("often", "1", r.s.often)
	alarms.Set("grouped", "1", r.s.grouped)
	alarms.Set("picky", "1", r.s.picky)
	alarms.Set("by-team", "1", r.s.byTeam)
	alarms.Set("routed", "1", r.s.routed)
	p := New(Config{
		Source:     at(1),
		Observe:    func(context.Context, []alarm.Occurrence) {},
		ClusterUID: "cluster", Outbox: store, Checkpoint: &simulatedCheckpoint{s: r.s},
		Dispatcher: noop{}, Alarms: alarms, Enricher: r.s, Reporter: noop{},
		MaxAge: 24 * time.Hour, Clock: r.s.clock, Log: logr.Discard(),
	})
	last := r.s.checkpoint.Epoch
	state := store.State()
	if last != state.Epoch && last != state.NextEpoch {
		for key := range r.s.notInCheckpoint {
			r.s.again[key]++
		}
	}
	start, err := p.takeOver(ctx)
	must(r.s.t, err)
	t := &term{Pipeline: p, s: r.s, start: start, counters: counters.New(store)}
	t.writeStatuses(ctx)
	return t
}

// writeStatuses writes the counts of all alarms and receivers.
func (t *term) writeStatuses(ctx context.Context) {
	for _, subject := range t.Outbox.Statuses.TakeCounted() {
		status := t.s.statuses[subject]
		if status == nil {
			status = &v1alpha1.AlarmStatus{}
			t.s.statuses[subject] = status
		}
		live := func(context.Context) (*v1alpha1.AlarmStatus, error) { return status, nil }
		must(t.s.t, t.counters.Apply(ctx, subject, types.UID("uid of "+subject), status, live))
	}
}

// crash ends the term. Nothing is written after it.
func (t *term) crash() { must(t.s.t, t.Outbox.Close()) }

// read reads at most n Events in batches of random sizes.
func (t *term) read(ctx context.Context, n int) {
	position := t.Outbox.State().Position
	var batch source.Batch
	for _, occ := range t.s.events {
		if occ.Position <= position || n == 0 {
			continue
		}
		n--
		batch.Occurrences = append(batch.Occurrences, occ)
		batch.Position = occ.Position
		if t.s.rand.IntN(3) == 0 {
			must(t.s.t, t.handle(ctx, batch))
			batch = source.Batch{}
		}
	}
	if len(batch.Occurrences) > 0 {
		must(t.s.t, t.handle(ctx, batch))
	}
	if n > 0 {
		t.Outbox.ReadUpTo(t.s.clock.Now())
	}
}

// deliver sends at most n messages to a receiver. With crash, the last one is sent and not
// acknowledged, because the process crashes between the two. Some messages are set aside, and
// some of these are sent.
func (t *term) deliver(ctx context.Context, receiver string, n int, crash bool) {
	side, err := t.Outbox.SideLanes(ctx, receiver)
	must(t.s.t, err)
	for _, lane := range side {
		if t.s.rand.IntN(3) == 0 {
			t.deliverLane(ctx, receiver, lane, 1, false)
			_, err := t.Outbox.Rejoin(ctx, receiver, lane)
			must(t.s.t, err)
		}
	}
	t.deliverLane(ctx, receiver, outbox.MainLane, n, crash)
}

func (t *term) deliverLane(ctx context.Context, receiver string, lane int64, n int, crash bool) {
	for i := range n {
		attempt, err := t.Outbox.Prepared(ctx, receiver, lane)
		must(t.s.t, err)
		if attempt == nil {
			entries, err := t.Outbox.Pending(ctx, outbox.Query{Receiver: receiver, Lane: lane, Limit: 1})
			must(t.s.t, err)
			if len(entries) == 0 {
				return
			}
			attempt, err = t.Outbox.Prepare(ctx, receiver, lane, []int64{entries[0].ID}, entries[0].Key, entries[0].Payload)
			must(t.s.t, err)
		}
		if lane == outbox.MainLane && t.s.rand.IntN(4) == 0 {
			moved, err := t.Outbox.SetAside(ctx, attempt)
			must(t.s.t, err)
			if moved {
				t.s.setAside++
				continue
			}
		}
		last := crash && i == n-1
		for _, key := range deliveredKeys(receiver, attempt) {
			if t.s.got[key] == 0 {
				t.s.sequence = append(t.s.sequence, key)
			}
			t.s.got[key]++
			t.s.notInCheckpoint[key] = true
			if last {
				t.s.again[key]++
			}
		}
		if last {
			return
		}
		_, err = t.Outbox.Finish(ctx, attempt, outbox.Outcome{})
		must(t.s.t, err)
	}
}

// deliveredKeys returns the keys of the occurrences in a message, with the receiver.
func deliveredKeys(receiver string, a *outbox.Attempt) []string {
	var parts []string
	if receiver != "by-team" && receiver != "grouped" {
		return []string{receiver + "/" + a.Key}
	}
	for part := range strings.FieldsSeq(string(a.Body)) {
		parts = append(parts, receiver+"/"+part)
	}
	return parts
}

// deliverGroups sends at most n messages of groups that are due.
func (t *term) deliverGroups(ctx context.Context, n int, crash bool) {
	_, err := t.Outbox.Release(ctx)
	must(t.s.t, err)
	t.deliver(ctx, "by-team", n, false)
	t.deliver(ctx, "grouped", n, crash)
}

// retry tries all objects once.
func (t *term) retry(ctx context.Context) {
	_, err := t.retryNamespaces(ctx, nil)
	must(t.s.t, err)
}

// joinKeys makes a message that names its parts.
func joinKeys(_ outbox.Group, parts []outbox.Entry, _ int64) ([]byte, error) {
	var keys []byte
	for i := range parts {
		keys = append(append(keys, parts[i].Key...), ' ')
	}
	return keys, nil
}

// deliverAll sends all pending messages.
func (t *term) deliverAll(ctx context.Context) {
	t.deliverGroups(ctx, 0, false)
	for _, receiver := range append(t.s.receivers, "often", "picky", "grouped", "by-team", "team-0", "team-1", "other") {
		for t.Outbox.Backlog(receiver).Entries > 0 {
			t.deliver(ctx, receiver, 1000, false)
		}
	}
}

// noop implements the parts of a pipeline that a test does not need.
type noop struct{}

func (noop) Run(context.Context) error                           { return nil }
func (noop) Wake(...string)                                      {}
func (noop) Context(context.Context, *alarm.Event) alarm.Context { return alarm.Context{} }
func (noop) Named(context.Context, *alarm.Event, []alarm.Resource) (known alarm.Context, of alarm.Resource, ok bool) {
	return alarm.Context{}, alarm.Resource{}, false
}
func (noop) Evaluated(kube.Key, match.Outcome, error, int64)         {}
func (noop) GroupLimitReached(kube.Key)                              {}
func (noop) Merged(int64)                                            {}
func (noop) Suppressed(Suppression, int64)                           {}
func (noop) Dropped(string, outbox.Counts, notify.DropCause, string) {}
func (noop) Reset(context.Context, string)                           {}
func (noop) Delivered(string, notify.Delivery, outbox.Counts)        {}
func (noop) Failing(string, *notify.SendError)                       {}
func (noop) Changed(string)                                          {}
func (noop) Recovered(string)                                        {}
func (noop) BatchRefused(string, int64, *notify.SendError)           {}
func (noop) ThreadLost(string, string)                               {}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
