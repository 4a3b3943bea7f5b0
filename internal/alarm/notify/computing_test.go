package notify_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// costly is a Notifier whose bodies cost 200,000 units each, and need a millisecond.
type costly struct {
	fake
	// spent is the sum of the costs. atOnce is the number of bodies that are rendered now, and
	// most the highest. All are guarded by fake.mu.
	spent        int64
	atOnce, most int
}

func (n *costly) HasTemplate() bool { return true }

func (n *costly) RenderAtCost(m message.Message) ([]byte, int64, error) {
	const cost = 200_000
	n.mu.Lock()
	n.spent += cost
	n.atOnce++
	n.most = max(n.most, n.atOnce)
	n.mu.Unlock()
	time.Sleep(time.Millisecond)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.atOnce--
	body, err := n.Render(m)
	return body, cost, err
}

func (n *costly) total() (spent int64, most int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.spent, n.most
}

// flood configures 100 receivers of a namespace, with 20 messages each.
func (h *harness) flood(t *testing.T, store *outbox.Store, n notify.Notifier, namespace string) {
	t.Helper()
	for i := range 100 {
		key := fmt.Sprintf("AlarmReceiver/%s/r-%d", namespace, i)
		h.Configure(notify.Receiver{Key: key, Namespace: namespace, Notifier: n})
		h.submit(t, store, key, 0, 20)
	}
}

// The limit is 500,000 units per second, and 2,500,000 at once. Messages that wait for it become
// digests.
func TestBodiesOfANamespaceUseLimitedCPU(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &costly{}
		begin := clock.RealClock{}.Now()
		h.flood(t, store, n, "attacker")
		for range 20 {
			after(time.Second)
			spent, most := n.total()
			if limit := 2_500_000 + 500_000*int64(clock.RealClock{}.Since(begin)/time.Second+1) + 220_000; spent > limit {
				t.Fatalf("%d units after %s, want %d at most", spent, clock.RealClock{}.Since(begin), limit)
			}
			if most > 1 {
				t.Fatalf("%d bodies of AlarmReceivers were rendered at the same time", most)
			}
		}
		after(2 * time.Minute)
		if got := h.observer.deliveredCount(); got != 2000 {
			t.Errorf("%d of 2000 occurrences were delivered", got)
		}
	})
}

func TestCostlyBodiesOfANamespaceDelayNoOther(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		h.flood(t, store, &costly{}, "attacker")
		after(time.Second)
		victims := map[string]string{"AlarmReceiver/shop/team": "shop", ops: "", "ClusterAlarmReceiver//other": ""}
		for key, namespace := range victims {
			n := &costly{}
			begin := clock.RealClock{}.Now()
			h.Configure(notify.Receiver{Key: key, Namespace: namespace, Notifier: n})
			h.submit(t, store, key, 0, 5)
			after(100 * time.Millisecond)
			all := n.all()
			if len(all) != 5 {
				t.Fatalf("%s got %d of 5 messages", key, len(all))
			}
			took := all[4].At.Sub(begin)
			if took > 20*time.Millisecond {
				t.Errorf("%s got the last message after %s", key, took)
			}
		}
	})
}

func TestAReceiverThatWaitsForCPUStopsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		h.flood(t, store, &costly{}, "attacker")
		after(time.Second)
		begin := clock.RealClock{}.Now()
		h.stop()
		took := clock.RealClock{}.Since(begin)
		if took > 10*time.Millisecond {
			t.Errorf("stopped after %s", took)
		}
	})
}

// Only one of them can prepare a message at a time, and each of the first ones uses what is left.
func TestAMessageThatWaitsForCPUUsesOnePermission(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &costly{}
		for i := range 30 {
			key := fmt.Sprintf("AlarmReceiver/shop/r-%d", i)
			h.Configure(notify.Receiver{Key: key, Namespace: "shop", Notifier: n, Limits: []notify.Limit{{Key: key, Every: time.Hour, Burst: 1}}})
			h.submit(t, store, key, 0, 1)
		}
		after(time.Minute)
		if got := len(n.all()); got != 30 {
			t.Errorf("%d of 30 messages were sent", got)
		}
	})
}

// signing returns a Notifier that signs with a key that needs a tenth of a second.
func signing() *fake {
	return &fake{answer: func(ctx context.Context, _ int) error {
		return notify.InTurn(ctx, func() { time.Sleep(100 * time.Millisecond) })
	}}
}

func TestSignaturesOfANamespaceUseLimitedCPUAndDelayNoOther(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		attacker := signing()
		h.flood(t, store, attacker, "attacker")
		victim, operators := signing(), signing()
		h.Configure(notify.Receiver{Key: shop, Namespace: "shop", Notifier: victim})
		h.Configure(notify.Receiver{Key: ops, Notifier: operators})
		h.submit(t, store, shop, 0, 1)
		h.submit(t, store, ops, 0, 1)
		// Its turn comes after one signature of the attacker, while ClusterAlarmReceivers wait for none.
		after(201 * time.Millisecond)
		for name, n := range map[string]*fake{"AlarmReceiver": victim, "ClusterAlarmReceiver": operators} {
			if got := len(n.all()); got != 1 {
				t.Errorf("the %s got %d messages, want 1", name, got)
			}
		}
		// A twentieth of a CPU, a quarter of a second at once, and the requests that were in flight.
		after(time.Minute)
		if got, limit := len(attacker.all()), 60/2+3+32; got > limit {
			t.Errorf("%d signatures within a minute, want %d at most", got, limit)
		}
	})
}
