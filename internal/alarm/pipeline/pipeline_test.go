package pipeline

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox/file"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
)

func TestAlarmsAreLoadedBeforeEventsAreRead(t *testing.T) {
	store, err := outbox.Open(t.Context(), t.TempDir())
	must(t, err)
	defer func() { must(t, store.Close()) }()
	s := newSimulation(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	loaded, read := false, false
	p := New(Config{
		ClusterUID: "cluster", Outbox: store, Checkpoint: &simulatedCheckpoint{s: s},
		Source: sourceFunc(func(context.Context, source.Handler) {
			read = true
			if !loaded {
				t.Error("the alarms are not loaded")
			}
			cancel()
		}),
		Dispatcher: noop{}, Alarms: NewAlarms(), Enricher: noop{}, Reporter: noop{},
		LoadAlarms: func(context.Context) error { loaded = true; return nil },
		Observe:    func(context.Context, []alarm.Occurrence) {},
		Clock:      s.clock, Log: logr.Discard(),
	})
	must(t, p.Start(ctx))
	if !read {
		t.Error("the source was not started")
	}
}

// A damaged outbox is set aside when it is opened the next time. The operator must therefore
// end, and not retry forever.
func TestDamagedOutboxEndsTheRun(t *testing.T) {
	for name, use := range map[string]func(t *testing.T, s *outbox.Store, handle source.Handler){
		"writes": func(t *testing.T, _ *outbox.Store, handle source.Handler) {
			_ = handle(t.Context(), source.Batch{Position: 2, Counts: manyCounts()})
		},
		"reads of baselines": func(t *testing.T, s *outbox.Store, _ source.Handler) {
			for _, err := range s.Streams.Baselines(t.Context(), deployments) {
				if err != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) { testDamagedOutbox(t, use) })
	}
}

func testDamagedOutbox(t *testing.T, use func(t *testing.T, s *outbox.Store, handle source.Handler)) {
	dir := t.TempDir()
	store, err := outbox.Open(t.Context(), dir)
	must(t, err)
	defer func() { _ = store.Close() }() // can fail, because it is damaged
	s := newSimulation(t, 1)
	events := sourceFunc(func(ctx context.Context, handle source.Handler) {
		must(t, handle(ctx, source.Batch{Position: 1, Counts: manyCounts()}))
		must(t, store.Commit(ctx, scaledBaselines(5_000)))
		damage(t, dir)
		for ctx.Err() == nil { // as the sources do
			use(t, store, handle)
		}
	})
	p := New(Config{
		ClusterUID: "cluster", Source: events, Outbox: store, Checkpoint: &simulatedCheckpoint{s: s},
		Dispatcher: noop{}, Alarms: NewAlarms(), Enricher: noop{}, Reporter: noop{},
		LoadAlarms: func(context.Context) error { return nil },
		Observe:    func(context.Context, []alarm.Occurrence) {},
		Clock:      clocktesting.NewFakeClock(s.clock.Now()), Log: logr.Discard(),
	})
	if err := p.Start(t.Context()); !errors.Is(err, file.ErrCorrupt) {
		t.Errorf("Start returned %v", err)
	}
}

// scaledBaselines returns a batch with the baselines of n objects.
func scaledBaselines(n int) outbox.Change {
	b := outbox.Change{Objects: &outbox.ObjectStep{Stream: outbox.Stream{Name: deployments, Version: "v1", Position: 1, Complete: true}}}
	for range n {
		b.Objects.Put = append(b.Objects.Put, outbox.Baseline{UID: uuid.NewString(), Namespace: "shop", Data: bytes.Repeat([]byte("x"), 1000)})
	}
	return b
}

// manyCounts returns more counts than SQLite keeps in memory, so that it must read the disk.
func manyCounts() []alarm.EventCount {
	counts := make([]alarm.EventCount, 250_000)
	for i := range counts {
		counts[i] = alarm.EventCount{UID: uuid.NewString(), Count: 1, Position: 1}
	}
	return counts
}

// at is the newest position of an API server.
type at uint64

func (p at) Position(context.Context) (uint64, error) { return uint64(p), nil }

func (at) Run(context.Context, source.Start, source.Handler) error { return nil }

type sourceFunc func(ctx context.Context, handle source.Handler)

func (f sourceFunc) Position(context.Context) (uint64, error) { return 1, nil }

func (f sourceFunc) Run(ctx context.Context, _ source.Start, handle source.Handler) error {
	f(ctx, handle)
	return nil
}

// damage overwrites the files of the outbox, like a failing disk.
func damage(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{file.Name, file.Name + "-wal"} {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
		must(t, err)
		info, err := f.Stat()
		must(t, err)
		_, err = f.WriteAt(bytes.Repeat([]byte("x"), int(info.Size())), 0)
		must(t, err)
		must(t, f.Close())
	}
}
