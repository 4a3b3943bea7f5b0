package notify_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// hang configures receivers of a namespace, each with a message, whose requests never end.
func hang(t *testing.T, store *outbox.Store, h *harness, n *fake, namespace string, receivers int) {
	t.Helper()
	batch := outbox.Change{Events: &outbox.EventStep{Position: store.State().Position + 1}}
	for i := range receivers {
		key := fmt.Sprintf("AlarmReceiver/%s/r-%d", namespace, i)
		h.Configure(notify.Receiver{Key: key, Namespace: namespace, Notifier: n})
		batch.Entries = append(batch.Entries, entry(t, key, i, batch.Events.Position))
	}
	if err := store.Commit(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	for _, e := range batch.Entries {
		h.Wake(e.Receiver)
	}
	wait()
}

func hanging() *fake {
	return &fake{answer: func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }}
}

func TestReceiversThatHangDelayNoOtherNamespace(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		attacker, n := hanging(), &fake{}
		hang(t, store, h, attacker, "attacker", 200)
		if got := len(attacker.all()); got != 32 {
			t.Errorf("%d requests of one namespace are in flight, want 32", got)
		}
		h.Configure(notify.Receiver{Key: shop, Namespace: "shop", Notifier: n})
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		h.submit(t, store, shop, 0, 5)
		h.submit(t, store, ops, 0, 5)
		wait()
		if got := len(n.all()); got != 10 {
			t.Errorf("%d of 10 messages of others were sent", got)
		}
	})
}

func TestAReceiverThatPausesLeavesItsPlaceToOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &fake{answer: func(context.Context, int) error { return failure(notify.Stop, "404") }}
		hang(t, store, h, n, "shop", 200)
		if got := len(n.all()); got != 200 {
			t.Errorf("%d of 200 receivers were tried", got)
		}
	})
}

func TestAWaitingReceiverThatChangesOrStopsLeavesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		hang(t, store, h, hanging(), "shop", 33)
		h.Forget("AlarmReceiver/shop/r-32")
		h.Forget("AlarmReceiver/shop/r-31")
		wait()
		h.stop()
		if granted, waiting := notify.InFlight(h.Dispatcher); granted != 0 || waiting != 0 {
			t.Errorf("%d requests are counted as in flight, %d as waiting", granted, waiting)
		}
	})
}

func TestTheRequestsOfAllNamespacesAreLimitedAndEachCanMakeOne(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		const namespaces = 60
		for i := range namespaces {
			n := hanging()
			hang(t, store, h, n, fmt.Sprintf("tenant-%d", i), 40)
			if got := len(n.all()); got < 1 {
				t.Errorf("namespace %d has no request in flight", i)
			}
		}
		if granted, _ := notify.InFlight(h.Dispatcher); granted > 512+namespaces {
			t.Errorf("%d requests are in flight", granted)
		}
	})
}
