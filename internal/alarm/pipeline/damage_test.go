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
	"github.com/bongsu-io/bongsu/internal/alarm/source"
)

// A ledger that is damaged while it is open is set aside when it is opened the next
// time: the operator must end, not try for ever.
func TestADamagedLedgerEndsTheRun(t *testing.T) {
	dir := t.TempDir()
	books, err := outbox.Open(t.Context(), dir)
	must(t, err)
	defer func() { _ = books.Close() }() // it may fail, for it is damaged
	w := newWorld(t, 1)
	feed := feedFunc(func(ctx context.Context, handle source.Handler) {
		counts := manyCounts()
		must(t, handle(ctx, source.Batch{Position: 1, Counts: counts}))
		damage(t, dir)
		for ctx.Err() == nil { // as the feed does
			_ = handle(ctx, source.Batch{Position: 2, Counts: counts})
		}
	})
	p := New(Config{
		ClusterUID: "cluster", Source: feed, Outbox: books, Checkpoint: &mirrorStore{w: w},
		Dispatcher: silent{}, Alarms: NewAlarms(), Enricher: silent{}, Reporter: silent{},
		LoadAlarms: func(context.Context) error { return nil },
		Observe:    func(context.Context, []alarm.Occurrence) {},
		Clock:      clocktesting.NewFakeClock(w.clock.Now()), Log: logr.Discard(),
	})
	if err := p.Start(t.Context()); !errors.Is(err, outbox.ErrCorrupt) {
		t.Errorf("it ended with %v", err)
	}
}

// manyCounts are more than SQLite keeps in memory: some of them it must read.
func manyCounts() []source.Count {
	counts := make([]source.Count, 250_000)
	for i := range counts {
		counts[i] = source.Count{UID: uuid.NewString(), Count: 1, Position: 1}
	}
	return counts
}

type feedFunc func(ctx context.Context, handle source.Handler)

func (f feedFunc) Run(ctx context.Context, _ source.Start, handle source.Handler) error {
	f(ctx, handle)
	return nil
}

// damage overwrites the ledger's files as a failing disk would.
func damage(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{outbox.FileName, outbox.FileName + "-wal"} {
		file, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
		must(t, err)
		info, err := file.Stat()
		must(t, err)
		_, err = file.WriteAt(bytes.Repeat([]byte("x"), int(info.Size())), 0)
		must(t, err)
		must(t, file.Close())
	}
}
