package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/group"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
)

// memoryCheckpoint is a CheckpointStore that records when it was written. It needs the lock
// because the race detector does not understand synctest.Wait.
type memoryCheckpoint struct {
	mu      sync.Mutex
	last    checkpoint.Checkpoint
	written []time.Time
	// err is returned by Write, if set, readErr by Read.
	err, readErr error
}

func (m *memoryCheckpoint) Read(context.Context) (checkpoint.Checkpoint, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last, len(m.written) > 0, m.readErr
}

func (m *memoryCheckpoint) Write(_ context.Context, next checkpoint.Checkpoint) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	m.last, m.written = next, append(m.written, clock.RealClock{}.Now())
	return nil
}

// times returns the times of all writes, and the last written position.
func (m *memoryCheckpoint) times() ([]time.Time, uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.written), m.last.Position
}

// fail sets the error of Write.
func (m *memoryCheckpoint) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

// maxAge is the documented maximum age of the checkpoint.
const maxAge = 5 * time.Second

// withCheckpoints runs a test in a synctest bubble. Its leader has read up to position 1,
// has written the first checkpoint, and keeps it current.
func withCheckpoints(t *testing.T, test func(*testing.T, *Pipeline, *memoryCheckpoint)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store, err := outbox.Open(t.Context(), dir)
		must(t, err)
		defer func() { must(t, store.Close()) }()
		m := &memoryCheckpoint{}
		p := New(Config{
			Source:     at(1),
			Observe:    func(context.Context, []alarm.Occurrence) {},
			ClusterUID: "cluster", Outbox: store, Checkpoint: m, Dispatcher: noop{}, Alarms: NewAlarms(),
			Enricher: noop{}, Reporter: noop{}, Clock: clock.RealClock{}, Log: logr.Discard(),
		})
		_, err = p.takeOver(t.Context())
		must(t, err)
		must(t, p.handle(t.Context(), source.Batch{Position: 1}))
		ctx, stop := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer stop()
		go func() { _ = p.keepCheckpoint(ctx) }()
		test(t, p, m)
	})
}

func TestCheckpointIsWrittenAsSoonAsTheAPIServerAnswers(t *testing.T) {
	withCheckpoints(t, func(t *testing.T, p *Pipeline, m *memoryCheckpoint) {
		m.fail(errors.New("the API server is unavailable"))
		must(t, p.handle(t.Context(), source.Batch{Position: 2}))
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, last := m.times(); last != 1 {
			t.Errorf("position %d was written although writes fail: the test shows nothing", last)
		}
		m.fail(nil)
		time.Sleep(maxAge)
		synctest.Wait()
		if _, last := m.times(); last != 2 {
			t.Errorf("the checkpoint has position %d, want 2", last)
		}
	})
}

func TestCheckpointIsWrittenEvery5SecondsWhileItChanges(t *testing.T) {
	withCheckpoints(t, func(t *testing.T, p *Pipeline, m *memoryCheckpoint) {
		position := uint64(1)
		first, _ := m.times()
		for range 300 {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			written, _ := m.times()
			if age := time.Since(written[len(written)-1]); age > maxAge {
				t.Fatalf("the checkpoint is %v old", age)
			}
			position++
			must(t, p.handle(t.Context(), source.Batch{Position: position}))
		}
		written, _ := m.times()
		written = written[len(first)-1:]
		for i := range written[1:] {
			if pause := written[i+1].Sub(written[i]); pause != maxAge {
				t.Errorf("the next write came after %v", pause)
			}
		}

		time.Sleep(maxAge)
		synctest.Wait()
		before, _ := m.times()
		time.Sleep(time.Hour)
		synctest.Wait()
		if after, last := m.times(); last != position || len(after) != len(before) {
			t.Errorf("in an hour without changes it was written %d times and has position %d, want %d",
				len(after)-len(before), last, position)
		}
	})
}

func TestCheckpointContainsOccurrencesThatWaitInGroups(t *testing.T) {
	replaying := outbox.State{Position: 50, Delivered: progress.Offsets{
		Position: 90, Waiting: progress.Waiting{"ops": {"passed": 50, "ahead": 60}, "other": {"ahead": 70}},
	}}
	for name, tc := range map[string]struct {
		state         outbox.State
		held          int
		waits         progress.Waiting
		behind, wants map[string]uint64 // positions of receivers that are behind, before and after
	}{
		"nothing": {waits: progress.Waiting{}},
		"held in the outbox": {
			held: 2, waits: progress.Waiting{"ops": {"k1": 1, "k2": 2}},
		},
		"also not yet reached by a replay": {
			state: replaying, held: 1,
			waits: progress.Waiting{"ops": {"k1": 1, "ahead": 60}, "other": {"ahead": 70}},
		},
		"too many": {
			state: replaying, held: checkpoint.MaxWaiting, waits: progress.Waiting{"other": {"ahead": 70}},
			behind: map[string]uint64{"other": 65}, wants: map[string]uint64{"ops": 0, "other": 65},
		},
		"too many, and already further behind": {
			held: checkpoint.MaxWaiting + 1, waits: progress.Waiting{}, behind: map[string]uint64{"ops": 0}, wants: map[string]uint64{"ops": 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			store, err := outbox.Open(t.Context(), t.TempDir())
			must(t, err)
			defer func() { must(t, store.Close()) }()
			batch := outbox.Change{Events: &outbox.EventStep{Position: checkpoint.MaxWaiting + 10}}
			for i := range uint64(tc.held) {
				batch.Entries = append(batch.Entries, outbox.Entry{
					Receiver: "ops", Alarm: "ClusterAlarm//some", Key: fmt.Sprint("k", i+1), Position: i + 1, Count: 1,
					Member: &outbox.Membership{Group: "g", Rule: group.Rule{Wait: time.Hour}, Event: group.Event{At: time.Unix(1_800_000_000, 0)}},
				})
			}
			must(t, store.Commit(t.Context(), batch))
			c := checkpoint.Checkpoint{Offsets: progress.Offsets{Position: 90, Behind: map[string]uint64{}}}
			maps.Copy(c.Behind, tc.behind)
			p := &Pipeline{Config: Config{Outbox: store}}
			waiting, err := p.readWaiting(t.Context(), &c, outbox.Snapshot{State: tc.state})
			must(t, err)
			if diff := cmp.Diff(tc.waits, waiting[""]); diff != "" {
				t.Errorf("waits: %s", diff)
			}
			if tc.wants == nil {
				tc.wants = map[string]uint64{}
			}
			if diff := cmp.Diff(tc.wants, c.Behind); diff != "" {
				t.Errorf("behind: %s", diff)
			}
		})
	}
}

// Otherwise, a tenant would make the next leader repeat what the receivers of others got.
func TestWaitingOccurrencesOfOneTenantDisplaceNoOthers(t *testing.T) {
	const greedy, victim = "AlarmReceiver/greedy/hook", "AlarmReceiver/shop/hook"
	store, err := outbox.Open(t.Context(), t.TempDir())
	must(t, err)
	defer func() { must(t, store.Close()) }()
	batch := outbox.Change{Events: &outbox.EventStep{Position: checkpoint.MaxWaiting + 10}}
	for i := range uint64(checkpoint.MaxWaiting + 5) {
		receiver := greedy
		if i == 7 {
			receiver = victim
		}
		if key := fmt.Sprint("k", i+1); i%2 == 0 {
			batch.Parked = append(batch.Parked, outbox.Parked{
				Key: key, Alarm: "uid", Object: "some", Namespace: "some", Tenant: "Alarm/some/", Position: i + 1, Receivers: map[string]string{receiver: key}, Data: []byte("{}"),
			})
		} else {
			batch.Entries = append(batch.Entries, outbox.Entry{
				Receiver: receiver, Alarm: "Alarm/some/some", Key: key, Position: i + 1, Count: 1,
				Member: &outbox.Membership{Group: "g", Rule: group.Rule{Wait: time.Hour}, Event: group.Event{At: time.Unix(1_800_000_000, 0)}},
			})
		}
	}
	must(t, store.Commit(t.Context(), batch))
	c := checkpoint.Checkpoint{Offsets: progress.Offsets{Position: batch.Events.Position, Behind: map[string]uint64{}}}
	p := &Pipeline{Config: Config{Outbox: store}}
	waiting, err := p.readWaiting(t.Context(), &c, store.Snapshot())
	must(t, err)
	if diff := cmp.Diff(progress.Waiting{victim: {"k8": 8}}, waiting[""]); diff != "" {
		t.Errorf("waits: %s", diff)
	}
	if diff := cmp.Diff(map[string]uint64{greedy: 0}, c.Behind); diff != "" {
		t.Errorf("behind: %s", diff)
	}
}

func TestCheckpointContainsOnlyReceiversThatAreBehind(t *testing.T) {
	for name, tc := range map[string]struct {
		snapshot outbox.Snapshot
		want     checkpoint.Checkpoint
	}{
		"everything is sent": {
			snapshot: outbox.Snapshot{State: outbox.State{Position: 100}},
			want:     checkpoint.Checkpoint{Offsets: progress.Offsets{Position: 100, Behind: map[string]uint64{}}},
		},
		"one receiver has pending messages": {
			snapshot: outbox.Snapshot{
				State:    outbox.State{Position: 100},
				Backlogs: map[string]outbox.Backlog{"slow": {Entries: 3, Lowest: 41}},
			},
			want: checkpoint.Checkpoint{Offsets: progress.Offsets{Position: 100, Behind: map[string]uint64{"slow": 40}}},
		},
		"a replay that is behind most receivers": {
			snapshot: outbox.Snapshot{State: outbox.State{
				Position: 60, Delivered: progress.Offsets{Position: 100, Behind: map[string]uint64{"slow": 40, "slower": 70}},
			}},
			want: checkpoint.Checkpoint{Offsets: progress.Offsets{Position: 100, Behind: map[string]uint64{"slow": 60, "slower": 70}}},
		},
		"a replay before a late message": {
			snapshot: outbox.Snapshot{
				State: outbox.State{
					Position: 60, Delivered: progress.Offsets{Position: 100, Behind: map[string]uint64{"slow": 40}},
				},
				Backlogs: map[string]outbox.Backlog{"slow": {Entries: 1, Lowest: 101}},
			},
			want: checkpoint.Checkpoint{Offsets: progress.Offsets{Position: 100, Behind: map[string]uint64{"slow": 60}}},
		},
		"a replay that has ended": {
			snapshot: outbox.Snapshot{State: outbox.State{
				Position: 130, Delivered: progress.Offsets{Position: 100, Behind: map[string]uint64{"slow": 40}},
			}},
			want: checkpoint.Checkpoint{Offsets: progress.Offsets{Position: 130, Behind: map[string]uint64{}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, newCheckpoint(tc.snapshot, "")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A restore of etcd ends the positions. What waits then needs its Events again if another replica
// takes over, also those that were created before the newest occurrence. That is so too if the
// operator is killed before it writes the checkpoint, or if the restore is followed by another one.
func TestAfterAResetTheTimeOfThePositionIsThatOfWhatWaits(t *testing.T) {
	begin, later := time.Unix(1_800_000_000, 0).UTC(), time.Unix(1_800_000_100, 0).UTC()
	refused := errors.New("the API server does not answer")
	read := func(t *testing.T, p *Pipeline, position uint64, reset *source.Reset) {
		t.Helper()
		must(t, p.handle(t.Context(), source.Batch{Position: position, Time: later, Reset: reset}))
	}
	reset := func(t *testing.T, p *Pipeline) {
		t.Helper()
		read(t, p, alarm.ResetPosition, &source.Reset{})
	}
	waits := []checkpoint.TimedPosition{{Position: alarm.ResetPosition, Time: begin.Unix()}}
	for name, tc := range map[string]struct {
		nothingWaits bool
		restore      func(*testing.T, *Pipeline, *memoryCheckpoint)
		want         []checkpoint.TimedPosition
	}{
		"a message waits": {
			restore: func(t *testing.T, p *Pipeline, _ *memoryCheckpoint) { reset(t, p) },
			want:    waits,
		},
		"nothing waits": {
			nothingWaits: true,
			restore:      func(t *testing.T, p *Pipeline, _ *memoryCheckpoint) { reset(t, p) },
			want:         []checkpoint.TimedPosition{{Position: alarm.ResetPosition, Time: later.Unix()}},
		},
		"the operator is killed before it writes the checkpoint": {
			restore: func(t *testing.T, p *Pipeline, m *memoryCheckpoint) {
				m.fail(refused)
				reset(t, p)
				m.fail(nil)
				_, err := New(p.Config).takeOver(t.Context())
				must(t, err)
			},
			want: waits,
		},
		"the checkpoint is not written before all Events are listed": {
			restore: func(t *testing.T, p *Pipeline, m *memoryCheckpoint) {
				m.fail(refused)
				reset(t, p)
				read(t, p, 9, nil)
				m.fail(nil)
				must(t, p.writeCheckpoint(t.Context()))
			},
			want: append(waits, checkpoint.TimedPosition{Position: 9, Time: later.Unix()}),
		},
		"another restore follows before the checkpoint is written": {
			restore: func(t *testing.T, p *Pipeline, m *memoryCheckpoint) {
				m.fail(refused)
				reset(t, p)
				m.fail(nil)
				reset(t, p)
			},
			want: waits,
		},
		"another restore follows before all Events are listed": {
			restore: func(t *testing.T, p *Pipeline, _ *memoryCheckpoint) {
				reset(t, p)
				_, err := p.Outbox.DropReceiver(t.Context(), "plain")
				must(t, err)
				reset(t, p)
			},
			want: waits,
		},
		"the checkpoint is deleted afterwards": {
			restore: func(t *testing.T, p *Pipeline, m *memoryCheckpoint) {
				reset(t, p)
				*m = memoryCheckpoint{}
				_, err := New(p.Config).takeOver(t.Context())
				must(t, err)
			},
			want: waits,
		},
		"other replicas take over before all Events are listed": {
			restore: func(t *testing.T, p *Pipeline, _ *memoryCheckpoint) {
				reset(t, p)
				for range 2 {
					start, err := onNewDisk(t, p).takeOver(t.Context())
					must(t, err)
					if !start.Time.Equal(begin) {
						t.Errorf("it reads what is newer than %v, want %v", start.Time, begin)
					}
				}
			},
			want: waits,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, m := newParkingLot(t, &unreadables{}, map[string]v1alpha1.AlarmSpec{"plain": everything}), &memoryCheckpoint{}
			p.Checkpoint = m
			must(t, p.Outbox.Reset(t.Context(), "cluster", 0))
			_, err := p.takeOver(t.Context())
			must(t, err)
			events := happened("shop/web", "shop/web")
			events[1].ObservedAt = later
			for i := range events {
				p.handleAll(t, events[i:i+1])
				if i == 0 || tc.nothingWaits {
					_, err := p.Outbox.DropReceiver(t.Context(), "plain")
					must(t, err)
				}
				must(t, p.writeCheckpoint(t.Context()))
				p.Clock.(*clocktesting.FakeClock).SetTime(later)
			}
			tc.restore(t, p, m)
			if diff := cmp.Diff(tc.want, m.last.PositionHistory); diff != "" {
				t.Error(diff)
			}
			if got := m.last.TimeOf(alarm.ResetPosition).Unix(); got != tc.want[0].Time {
				t.Errorf("the time of the reset is %d, want %d", got, tc.want[0].Time)
			}
		})
	}
}

// onNewDisk returns a replica that has only the checkpoint.
func onNewDisk(t *testing.T, p *Pipeline) *Pipeline {
	t.Helper()
	store, err := outbox.Open(t.Context(), t.TempDir())
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })
	config := p.Config
	config.Outbox = store
	return New(config)
}

// Another replica takes over after a restore of etcd, and ends before it has read the Events again.
// Then a third one takes over, or the first one leads again.
func TestWhatWaitsAtAResetOutlivesTwoTakeovers(t *testing.T) {
	grouped := v1alpha1.AlarmSpec{Match: everything.Match, Group: &v1alpha1.AlarmGroup{By: []string{"regarding.name"}}}
	for name, tc := range map[string]struct {
		spec v1alpha1.AlarmSpec
		read uint64 // the position that the first leader reads after the reset
		// again: the last leader before the first one leads again has read what waits, and not sent it.
		again bool
	}{
		"a message":                        {everything, alarm.ResetPosition, false},
		"a message, and Events are listed": {everything, 9, false},
		"a group":                          {grouped, alarm.ResetPosition, false},
		"a group, and Events are listed":   {grouped, 9, false},
		"a message that is read again":     {everything, 9, true},
		"a group that is read again":       {grouped, 9, true},
	} {
		t.Run(name, func(t *testing.T) {
			p, m := newParkingLot(t, &unreadables{}, map[string]v1alpha1.AlarmSpec{"plain": tc.spec}), &memoryCheckpoint{}
			p.Checkpoint = m
			must(t, p.Outbox.Reset(t.Context(), "cluster", 0))
			_, err := p.takeOver(t.Context())
			must(t, err)
			events := happened("shop/web")
			events[0].Position = 7
			p.handleAll(t, events)
			waiting := func() int64 { return p.Outbox.Size().Held + p.Outbox.Backlog("plain").Entries }
			if waiting() != 1 {
				t.Fatalf("%d wait before the reset", waiting())
			}
			must(t, p.handle(t.Context(), source.Batch{Position: alarm.ResetPosition, Reset: &source.Reset{}}))
			if tc.read > alarm.ResetPosition {
				must(t, p.handle(t.Context(), source.Batch{Position: tc.read}))
				must(t, p.writeCheckpoint(t.Context()))
			}
			for _, next := range []*Pipeline{onNewDisk(t, p), onNewDisk(t, p)} {
				start, err := next.takeOver(t.Context())
				must(t, err)
				_, behind := m.last.Behind["plain"]
				if start.Position != alarm.ResetPosition || !behind && len(m.last.Waiting["plain"]) == 0 {
					t.Errorf("it reads from %d; behind: %v, waiting: %v", start.Position, m.last.Behind, m.last.Waiting)
				}
			}
			if tc.again {
				last := onNewDisk(t, p)
				_, err := last.takeOver(t.Context())
				must(t, err)
				must(t, last.handle(t.Context(), source.Batch{Position: 9, Occurrences: events}))
				must(t, last.writeCheckpoint(t.Context()))
			}
			_, err = New(p.Config).takeOver(t.Context())
			must(t, err)
			if waiting() != 1 {
				t.Errorf("%d wait when the first one leads again", waiting())
			}
		})
	}
}

func TestAResetSoonAfterATakeoverNeedsNothingFromBeforeIt(t *testing.T) {
	p, m := newParkingLot(t, &unreadables{}, map[string]v1alpha1.AlarmSpec{"plain": everything}), &memoryCheckpoint{}
	p.Checkpoint = m
	at := time.Unix(1_800_000_000, 0).UTC()
	must(t, m.Write(t.Context(), checkpoint.Checkpoint{ClusterUID: "cluster", Epoch: "other", Offsets: progress.Offsets{Position: 1000}, Time: at.Unix()}))
	next := onNewDisk(t, p)
	_, err := next.takeOver(t.Context())
	must(t, err)
	must(t, next.handle(t.Context(), source.Batch{Position: alarm.ResetPosition, Time: at, Reset: &source.Reset{}}))
	if got := m.last.TimeOf(alarm.ResetPosition); !got.Equal(at) {
		t.Errorf("Events since %v are needed, want %v", got, at)
	}
}
