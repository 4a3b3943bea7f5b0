package pipeline

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/eventfeed"
	"github.com/bongsu-io/bongsu/internal/ledger"
	"github.com/bongsu-io/bongsu/internal/mirror"
)

// diary is a Mirror that notes what was written when. To wait for another goroutine
// does not tell the race detector that what it does later comes later: hence the lock.
type diary struct {
	mu      sync.Mutex
	last    mirror.Mirror
	written []time.Time
}

func (d *diary) Read(context.Context) (mirror.Mirror, bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last, len(d.written) > 0, nil
}

func (d *diary) Write(_ context.Context, m mirror.Mirror) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last, d.written = m, append(d.written, clock.RealClock{}.Now())
	return nil
}

// times returns when it was written, and the position that was written last.
func (d *diary) times() ([]time.Time, uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.written), d.last.Position
}

func TestTheMirrorIsWrittenEvery5SecondsWhileThereIsSomethingNew(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		books, err := ledger.Open(t.Context(), dir)
		must(t, err)
		defer func() { must(t, books.Close()) }()
		d := &diary{}
		p := New(Config{
			Hear:       func(context.Context, []alarm.Occurrence) {},
			ClusterUID: "cluster", Ledger: books, Mirror: d, Dispatcher: silent{}, Alarms: NewAlarms(),
			Enricher: silent{}, Reporter: silent{}, Clock: clock.RealClock{}, Log: logr.Discard(),
		})
		_, err = p.takeOver(t.Context())
		must(t, err)
		position := uint64(1)
		must(t, p.handle(t.Context(), eventfeed.Batch{Position: position})) // the first one is written at once
		first, _ := d.times()
		go func() { _ = p.keepMirror(t.Context()) }()

		const promised = 5 * time.Second
		for range 300 {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			written, _ := d.times()
			if age := time.Since(written[len(written)-1]); age > promised {
				t.Fatalf("the mirror is %v old", age)
			}
			position++
			must(t, p.handle(t.Context(), eventfeed.Batch{Position: position}))
		}
		written, _ := d.times()
		written = written[len(first)-1:]
		for i := range written[1:] {
			if pause := written[i+1].Sub(written[i]); pause != promised {
				t.Errorf("it was written again after %v", pause)
			}
		}

		time.Sleep(promised)
		synctest.Wait()
		settled, _ := d.times()
		time.Sleep(time.Hour)
		synctest.Wait()
		if after, last := d.times(); last != position || len(after) != len(settled) {
			t.Errorf("after an hour without news it was written %d times more, and has position %d, want %d",
				len(after)-len(settled), last, position)
		}
	})
}
