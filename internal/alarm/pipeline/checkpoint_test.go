package pipeline

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
)

// diary is a Mirror that notes what was written when. To wait for another goroutine
// does not tell the race detector that what it does later comes later: hence the lock.
type diary struct {
	mu      sync.Mutex
	last    checkpoint.Checkpoint
	written []time.Time
	// refusal is what writes fail with.
	refusal error
}

func (d *diary) Read(context.Context) (checkpoint.Checkpoint, bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last, len(d.written) > 0, nil
}

func (d *diary) Write(_ context.Context, m checkpoint.Checkpoint) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refusal != nil {
		return d.refusal
	}
	d.last, d.written = m, append(d.written, clock.RealClock{}.Now())
	return nil
}

// times returns when it was written, and the position that was written last.
func (d *diary) times() ([]time.Time, uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.written), d.last.Position
}

// refuse has writes fail, or succeed again.
func (d *diary) refuse(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refusal = err
}

// promised is how old the mirror may be.
const promised = 5 * time.Second

// keeping tests a leader in a bubble, which has read up to position 1 and keeps its
// mirror from then on: the first one is written at once.
func keeping(t *testing.T, test func(*testing.T, *Pipeline, *diary)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		books, err := outbox.Open(t.Context(), dir)
		must(t, err)
		defer func() { must(t, books.Close()) }()
		d := &diary{}
		p := New(Config{
			Observe:    func(context.Context, []alarm.Occurrence) {},
			ClusterUID: "cluster", Outbox: books, Checkpoint: d, Dispatcher: silent{}, Alarms: NewAlarms(),
			Enricher: silent{}, Reporter: silent{}, Clock: clock.RealClock{}, Log: logr.Discard(),
		})
		_, err = p.takeOver(t.Context())
		must(t, err)
		must(t, p.handle(t.Context(), source.Batch{Position: 1}))
		ctx, stop := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer stop()
		go func() { _ = p.keepCheckpoint(ctx) }()
		test(t, p, d)
	})
}

func TestAMirrorThatCannotBeWrittenGetsOlderUntilItCan(t *testing.T) {
	keeping(t, func(t *testing.T, p *Pipeline, d *diary) {
		d.refuse(errors.New("the API server is away"))
		must(t, p.handle(t.Context(), source.Batch{Position: 2}))
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, last := d.times(); last != 1 {
			t.Errorf("position %d was written, want none but the first: the test does not test", last)
		}
		d.refuse(nil)
		time.Sleep(promised)
		synctest.Wait()
		if _, last := d.times(); last != 2 {
			t.Errorf("the mirror has position %d, want 2", last)
		}
	})
}

func TestTheMirrorIsWrittenEvery5SecondsWhileThereIsSomethingNew(t *testing.T) {
	keeping(t, func(t *testing.T, p *Pipeline, d *diary) {
		position := uint64(1)
		first, _ := d.times()
		for range 300 {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			written, _ := d.times()
			if age := time.Since(written[len(written)-1]); age > promised {
				t.Fatalf("the mirror is %v old", age)
			}
			position++
			must(t, p.handle(t.Context(), source.Batch{Position: position}))
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
