package pipeline

import (
	"context"
	"testing"

	"github.com/go-logr/logr"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
)

func TestNoEventIsReadBeforeAlarmsAreInForce(t *testing.T) {
	books, err := outbox.Open(t.Context(), t.TempDir())
	must(t, err)
	defer func() { must(t, books.Close()) }()
	w := newWorld(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	primed, read := false, false
	p := New(Config{
		ClusterUID: "cluster", Outbox: books, Checkpoint: &mirrorStore{w: w},
		Source: feedFunc(func(context.Context, source.Handler) {
			read = true
			if !primed {
				t.Error("alarms are not in force")
			}
			cancel()
		}),
		Dispatcher: silent{}, Alarms: NewAlarms(), Enricher: silent{}, Reporter: silent{},
		LoadAlarms: func(context.Context) error { primed = true; return nil },
		Observe:    func(context.Context, []alarm.Occurrence) {},
		Clock:      w.clock, Log: logr.Discard(),
	})
	must(t, p.Start(ctx))
	if !read {
		t.Error("nothing was read")
	}
}
