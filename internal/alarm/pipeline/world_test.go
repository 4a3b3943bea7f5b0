package pipeline

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
)

// world is everything outside a replica: the API server's Events, the mirror, and
// what receivers got.
type world struct {
	t         *testing.T
	rand      *rand.Rand
	clock     *clocktesting.FakeClock
	compiled  *match.Alarm
	receivers []string
	// quickly: none of them is slow or dead, so that nothing but windows holds a
	// replay's begin back.
	quickly bool
	// often is an alarm with a threshold, of the receiver of that name.
	often *match.Alarm
	// grouped is an alarm with groups, of the receiver of that name.
	grouped *match.Alarm

	events []alarm.Occurrence
	mirror checkpoint.Checkpoint
	writes int
	// got counts what each receiver accepted, by receiver and key.
	got map[string]int
	// again is how often each of them may have been sent more than once.
	again map[string]int
	// unmirrored are those accepted since the mirror was last written.
	unmirrored map[string]bool
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{
		quickly: seed%2 == 1,
		t:       t, rand: rand.New(rand.NewPCG(seed, 1)), receivers: []string{"quick", "slow", "dead"},
		clock: clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0)),
		got:   map[string]int{}, again: map[string]int{}, unmirrored: map[string]bool{},
	}
	compiler, err := match.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	w.compiled, err = compiler.Compile(match.Definition{
		ID: alarm.ID{Kind: alarm.KindClusterAlarm, Name: "all"}, UID: "alarm",
		Spec:      v1alpha1.AlarmSpec{Match: []v1alpha1.EventMatch{{}}},
		Receivers: w.receivers,
	})
	must(t, err)
	w.often, err = compiler.Compile(match.Definition{
		ID: alarm.ID{Kind: alarm.KindClusterAlarm, Name: "often"}, UID: "often",
		Spec: v1alpha1.AlarmSpec{
			Match:     []v1alpha1.EventMatch{{}},
			Threshold: &v1alpha1.AlarmThreshold{Count: oftenCount, WithinSeconds: oftenWithin},
		},
		Receivers: []string{"often"},
	})
	must(t, err)
	w.grouped, err = compiler.Compile(match.Definition{
		ID: alarm.ID{Kind: alarm.KindClusterAlarm, Name: "grouped"}, UID: "grouped",
		Spec: v1alpha1.AlarmSpec{
			Match: []v1alpha1.EventMatch{{}},
			Group: &v1alpha1.AlarmGroup{By: []string{"regarding.name"}, WaitSeconds: new(int32(5)), IntervalSeconds: new(int32(60))},
		},
		Receivers: []string{"grouped"},
	})
	must(t, err)
	return w
}

// The threshold of the alarm that is called often.
const oftenCount, oftenWithin = 10, 120

// happen adds Events to the API server; positions have gaps, as other writes do
// not show up in the feed.
func (w *world) happen(n int) {
	for range n {
		position := uint64(10)
		if len(w.events) > 0 {
			position = w.events[len(w.events)-1].Position + 1 + w.rand.Uint64N(3)
		}
		w.clock.Step(time.Duration(w.rand.IntN(20)) * time.Second)
		w.events = append(w.events, alarm.Occurrence{
			Event:    alarm.Event{UID: fmt.Sprint("event-", position), Count: 1, Namespace: "shop", Regarding: alarm.Reference{Name: fmt.Sprint("web-", w.rand.IntN(3))}},
			Increase: 1 + w.rand.Int64N(2), Position: position, ObservedAt: w.clock.Now(),
		})
	}
}

// Store of the mirror, as mirror.Store is to the API server.
type mirrorStore struct {
	w    *world
	seen int
}

func (m *mirrorStore) Read(context.Context) (checkpoint.Checkpoint, bool, error) {
	m.seen = m.w.writes
	return m.w.mirror, m.w.writes > 0, nil
}

func (m *mirrorStore) Write(_ context.Context, value checkpoint.Checkpoint) error {
	if m.seen != m.w.writes {
		return checkpoint.ErrDeposed
	}
	m.w.writes++
	m.seen = m.w.writes
	m.w.mirror = value
	clear(m.w.unmirrored)
	return nil
}

// replica is one process with a disk.
type replica struct {
	w   *world
	dir string
}

// term is the replica's leadership until it crashes.
type term struct {
	*Pipeline
	w      *world
	start  source.Start
	ledger *outbox.Store
}

func (r *replica) lead(ctx context.Context) *term {
	r.w.t.Helper()
	books, err := outbox.Open(ctx, r.dir, outbox.WithClock(r.w.clock))
	must(r.w.t, err)
	alarms := NewAlarms()
	alarms.Set("all", "1", r.w.compiled)
	alarms.Set("often", "1", r.w.often)
	alarms.Set("grouped", "1", r.w.grouped)
	p := New(Config{
		Hear:       func(context.Context, []alarm.Occurrence) {},
		ClusterUID: "cluster", Ledger: books, Mirror: &mirrorStore{w: r.w},
		Dispatcher: silent{}, Alarms: alarms, Enricher: silent{}, Reporter: silent{},
		Clock: r.w.clock, Log: logr.Discard(),
	})
	unmirrored := len(r.w.unmirrored) > 0
	last := r.w.mirror.Epoch
	state := books.State()
	if unmirrored && last != state.Epoch && last != state.NextEpoch {
		for key := range r.w.unmirrored {
			r.w.again[key]++
		}
	}
	start, err := p.takeOver(ctx)
	must(r.w.t, err)
	return &term{Pipeline: p, w: r.w, start: start, ledger: books}
}

// crash ends the term: nothing is written any more.
func (t *term) crash() { must(t.w.t, t.ledger.Close()) }

// read consumes at most n Events in batches of random sizes.
func (t *term) read(ctx context.Context, n int) {
	position := t.ledger.State().Position
	if position == 0 && t.start.Position == 0 {
		t.commitNow(ctx)
		return
	}
	var batch source.Batch
	for _, occ := range t.w.events {
		if occ.Position <= position || n == 0 {
			continue
		}
		n--
		batch.Occurrences = append(batch.Occurrences, occ)
		batch.Position = occ.Position
		if t.w.rand.IntN(3) == 0 {
			must(t.w.t, t.handle(ctx, batch))
			batch = source.Batch{}
		}
	}
	if len(batch.Occurrences) > 0 {
		must(t.w.t, t.handle(ctx, batch))
	}
}

// commitNow is what a feed that starts from now does first.
func (t *term) commitNow(ctx context.Context) {
	must(t.w.t, t.handle(ctx, source.Batch{Position: 1}))
}

// deliver sends at most n messages to a receiver. The last one may be sent and not
// marked: the crash comes in between.
func (t *term) deliver(ctx context.Context, receiver string, n int, cut bool) {
	for i := range n {
		attempt, err := t.ledger.Prepared(ctx, receiver)
		must(t.w.t, err)
		if attempt == nil {
			entries, err := t.ledger.Pending(ctx, receiver, 0, 1)
			must(t.w.t, err)
			if len(entries) == 0 {
				return
			}
			attempt, err = t.ledger.Prepare(ctx, receiver, entries[0].ID, entries[0].Key, entries[0].Payload)
			must(t.w.t, err)
		}
		last := cut && i == n-1
		for _, key := range told(receiver, attempt) {
			t.w.got[key]++
			t.w.unmirrored[key] = true
			if last {
				t.w.again[key]++
			}
		}
		if last {
			return
		}
		_, err = t.ledger.Acknowledge(ctx, attempt)
		must(t.w.t, err)
	}
}

// told are what a message tells of, by receiver and key.
func told(receiver string, a *outbox.Attempt) []string {
	var parts []string
	if a.Group == "" {
		return []string{receiver + "/" + a.Key}
	}
	for part := range strings.FieldsSeq(string(a.Body)) {
		parts = append(parts, receiver+"/"+part)
	}
	return parts
}

// deliverGroups sends what is due of groups.
func (t *term) deliverGroups(ctx context.Context, n int, cut bool) {
	_, err := t.ledger.Release(ctx, func(_ outbox.Group, parts []outbox.Entry, _ int64) (string, []byte, error) {
		var keys []byte
		for i := range parts {
			keys = append(append(keys, parts[i].Key...), ' ')
		}
		return "+" + parts[0].Key, keys, nil
	})
	must(t.w.t, err)
	t.deliver(ctx, "grouped", n, cut)
}

// deliverAll sends all that is pending.
func (t *term) deliverAll(ctx context.Context) {
	for _, receiver := range append(t.w.receivers, "often") {
		t.deliver(ctx, receiver, 1000, false)
	}
	t.deliverGroups(ctx, 1000, false)
}

// silent stands for the parts that this test is not about.
type silent struct{}

func (silent) Run(context.Context) error                               { return nil }
func (silent) Wake(...string)                                          {}
func (silent) Context(context.Context, *alarm.Event) alarm.Context     { return alarm.Context{} }
func (silent) Evaluated(alarm.ID, match.Outcome, error, int64)         {}
func (silent) Queued(string, int64)                                    {}
func (silent) Folded(alarm.ID)                                         {}
func (silent) Merged(int64)                                            {}
func (silent) Suppressed(alarm.ID, Suppression, int64)                 {}
func (silent) Dropped(string, outbox.Counts, notify.DropCause, string) {}
func (silent) Reset(context.Context, string)                           {}
func (silent) Delivered(string, notify.Delivery, outbox.Counts)        {}
func (silent) Failing(string, *notify.SendError)                       {}
func (silent) Recovered(string)                                        {}
func (silent) ThreadLost(string, string)                               {}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
