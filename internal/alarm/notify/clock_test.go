package notify_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/testing/setclock"
)

// withSetClock runs a test with an outbox and a Dispatcher whose clock can be set.
func withSetClock(t *testing.T, test func(clk *setclock.Clock, store *outbox.Store, h *harness)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		clk, recorded := &setclock.Clock{WithTicker: clock.RealClock{}}, &observer{}
		store, err := outbox.Open(t.Context(), dir, outbox.WithComposer(describeGroup), outbox.WithClock(clk))
		if err != nil {
			t.Fatal(err)
		}
		h := startAt(t, store, clk, recorded, notify.Options{})
		h.observer = recorded
		test(clk, store, h)
		h.stop()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestAClockThatIsSetForwardDropsNoMessage(t *testing.T) {
	withSetClock(t, func(clk *setclock.Clock, store *outbox.Store, h *harness) {
		h.Configure(notify.Receiver{Key: ops, Notifier: &fake{answer: failAll}})
		h.submit(t, store, ops, 0, 3)
		after(time.Minute)
		clk.Set(48 * time.Hour)
		after(23 * time.Hour)
		if got := h.observer.dropped(notify.DropExpired); got != 0 {
			t.Errorf("%d dropped before they waited for 24 h", got)
		}
		after(time.Hour)
		if got := h.observer.dropped(notify.DropExpired); got != 3 {
			t.Errorf("%d dropped after 24 h, want 3", got)
		}
	})
}

// No operator ran for days, or it starts with a clock that is ahead. The receiver had no chance.
func TestAStartDropsNoMessageBeforeItWasTried(t *testing.T) {
	for name, tc := range map[string]struct {
		answer             func(context.Context, int) error
		delivered, dropped int64
	}{
		"the receiver accepts it": {nil, 3, 0},
		"the receiver fails":      {failAll, 0, 3},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				store := openOutbox(t, dir)
				commit(t, store, ops, 0, 3)
				store = reopen(t, store, dir)
				after(72 * time.Hour)
				h := start(t, store, notify.Options{})
				after(time.Second)
				h.Configure(notify.Receiver{Key: ops, Notifier: &fake{answer: tc.answer}})
				after(9 * time.Minute)
				if got := h.observer.dropped(notify.DropExpired); got != 0 {
					t.Errorf("%d dropped at the start", got)
				}
				after(3 * time.Minute)
				if got := h.observer.dropped(notify.DropExpired); got != tc.dropped {
					t.Errorf("%d dropped, want %d", got, tc.dropped)
				}
				if got := h.observer.delivered; got != tc.delivered {
					t.Errorf("%d delivered, want %d", got, tc.delivered)
				}
				h.stop()
				if err := store.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestAClockThatIsSetBackStopsNoRepeats(t *testing.T) {
	n := &repeater{}
	withSetClock(t, func(clk *setclock.Clock, store *outbox.Store, h *harness) {
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		h.happen(t, store, false, "a")
		clk.Set(-9 * time.Hour)
		after(time.Minute)
		store.ReadUpTo(clk.Now())
		after(3 * time.Minute)
		if got := n.repeated(); len(got) != 3 {
			t.Errorf("the message was sent again %d times, want once a minute", len(got))
		}
	})
}
