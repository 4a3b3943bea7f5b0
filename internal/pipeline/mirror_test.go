package pipeline

import (
	"context"
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

// diary is a Mirror that notes what was written when.
type diary struct {
	last    mirror.Mirror
	written []time.Time
}

func (d *diary) Read(context.Context) (mirror.Mirror, bool, error) {
	return d.last, len(d.written) > 0, nil
}

func (d *diary) Write(_ context.Context, m mirror.Mirror) error {
	d.last, d.written = m, append(d.written, clock.RealClock{}.Now())
	return nil
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
		d.written = d.written[len(d.written)-1:]
		go func() { _ = p.keepMirror(t.Context()) }()

		const promised = 5 * time.Second
		for range 300 {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			if age := time.Since(d.written[len(d.written)-1]); age > promised {
				t.Fatalf("the mirror is %v old", age)
			}
			position++
			must(t, p.handle(t.Context(), eventfeed.Batch{Position: position}))
		}
		for i := range d.written[1:] {
			if pause := d.written[i+1].Sub(d.written[i]); pause != promised {
				t.Errorf("it was written again after %v", pause)
			}
		}

		time.Sleep(promised)
		synctest.Wait()
		settled := len(d.written)
		time.Sleep(time.Hour)
		synctest.Wait()
		if d.last.Position != position || len(d.written) != settled {
			t.Errorf("after an hour without news it was written %d times more, and has position %d, want %d",
				len(d.written)-settled, d.last.Position, position)
		}
	})
}
