package notify_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// tested is a Notifier whose answer to each message is err.
type tested struct {
	mu   sync.Mutex
	err  error
	keys []string
	sent []string
}

func (n *tested) Format() string                           { return "tested" }
func (n *tested) Render(m message.Message) ([]byte, error) { return []byte(m.Title), nil }

func (n *tested) Send(_ context.Context, key string, body []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.keys, n.sent = append(n.keys, key), append(n.sent, string(body))
	return n.err
}

func (n *tested) got() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.sent)
}

// testOf asks for a test with this value.
func testOf(value string) notify.Test {
	return notify.Test{Value: value, Message: message.Message{Title: "test " + value}}
}

func TestATestMessageIsSentOnceForEachValue(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &tested{}
		for _, c := range []struct{ fingerprint, value string }{{"1", ""}, {"2", "a"}, {"3", "a"}, {"4", ""}, {"5", "a"}, {"6", "b"}, {"7", "b"}} {
			h.Configure(notify.Receiver{Key: ops, UID: "uid", Notifier: n, Fingerprint: c.fingerprint, Test: testOf(c.value)})
			after(time.Minute)
		}
		h.submit(t, store, alarm.ReceiverID(ops, "uid"), 0, 1)
		after(time.Minute)
		if got := n.got(); !slices.Equal(got, []string{"test a", "test b", "node-0"}) {
			t.Fatalf("sent %q", got)
		}
		if n.keys[0] == n.keys[1] || len(n.keys[0]) != 32 {
			t.Errorf("the keys are %q", n.keys)
		}
		if got := h.LastTest(ops); got.Value != "b" || got.Failure != nil || got.At.IsZero() {
			t.Errorf("the result is %+v", got)
		}
		if failure, made := h.LastAttempt(ops); failure != nil || !made {
			t.Errorf("last attempt: %v, %v", made, failure)
		}
	})
}

func TestATestMessageThatFailsIsReportedAndNotRetried(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *outbox.Store, h *harness) {
		n := &tested{err: &notify.SendError{Class: notify.Retry, Reason: v1alpha1.ReasonDeliveryFailing, Text: "the receiver has an internal error" + notify.Retried + " (HTTP 503)"}}
		h.Configure(notify.Receiver{Key: ops, Notifier: n, Test: testOf("a")})
		after(time.Hour)
		if got := n.got(); len(got) != 1 {
			t.Errorf("sent %q", got)
		}
		if got := h.LastTest(ops); got.Value != "a" || got.Failure == nil || got.Failure.Text != "the receiver has an internal error: try again later (HTTP 503)" {
			t.Errorf("the result is %+v", got)
		}
		if failure, made := h.LastAttempt(ops); !made || failure == nil {
			t.Errorf("last attempt: %v, %v", made, failure)
		}
		if failure := h.Failure(ops); failure != nil {
			t.Errorf("the receiver fails: %v", failure)
		}
	})
}

func TestATestMessageOfAnEarlierProcessIsNotSentAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *outbox.Store, h *harness) {
		n := &tested{}
		h.Configure(notify.Receiver{Key: ops, Notifier: n, Test: testOf("a"), Tested: "a"})
		after(time.Minute)
		if got := n.got(); len(got) != 0 {
			t.Errorf("sent %q", got)
		}
		if _, made := h.LastAttempt(ops); made {
			t.Error("there was an attempt")
		}
	})
}

func TestTestMessagesUseTheRateOfTheReceiver(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &tested{}
		receiver := notify.Receiver{Key: ops, Notifier: n, Limits: []notify.Limit{{Every: 10 * time.Second}}}
		for _, value := range []string{"a", "b", "c", "d"} {
			receiver.Test = testOf(value)
			h.Configure(receiver)
			after(time.Second)
		}
		if got := n.got(); !slices.Equal(got, []string{"test a"}) {
			t.Errorf("sent %q at once", got)
		}
		h.submit(t, store, ops, 0, 1)
		after(6 * time.Second)
		if got := n.got(); !slices.Equal(got, []string{"test a", "test d"}) {
			t.Errorf("sent %q after ten seconds", got)
		}
		after(time.Minute)
		if got := n.got(); !slices.Equal(got, []string{"test a", "test d", "node-0"}) {
			t.Errorf("sent %q in all", got)
		}
	})
}

// A tenant can ask for test messages again and again.
func TestBodiesOfTestMessagesUseLimitedCPU(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *outbox.Store, h *harness) {
		const receivers = 100
		n := &costly{}
		key := func(i int) string { return fmt.Sprintf("AlarmReceiver/attacker/r-%d", i) }
		for second := range 20 {
			for i := range receivers {
				h.Configure(notify.Receiver{Key: key(i), Namespace: "attacker", Notifier: n, Test: testOf(fmt.Sprint(second))})
			}
			after(time.Second)
			spent, most := n.total()
			if sent := int64(len(n.all())); spent < 200_000*sent {
				t.Fatalf("%d units for %d messages", spent, sent)
			}
			if limit := 2_500_000 + 500_000*int64(second+2) + 220_000; spent > limit {
				t.Fatalf("%d units after %d seconds, want %d at most", spent, second+1, limit)
			}
			if most > 1 {
				t.Fatalf("%d bodies of AlarmReceivers were rendered at the same time", most)
			}
		}
		after(2 * time.Minute)
		for i := range receivers {
			if got := h.LastTest(key(i)); got.Value != "19" || got.Failure != nil {
				t.Errorf("the last test of %s: %+v", key(i), got)
			}
		}
	})
}

func TestATestMessageWaitsUntilTheReceiverIsUsable(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *outbox.Store, h *harness) {
		n := &tested{}
		h.Disable(ops)
		after(time.Minute)
		h.Configure(notify.Receiver{Key: ops, Notifier: n, Test: testOf("a")})
		after(time.Minute)
		if got := n.got(); !slices.Equal(got, []string{"test a"}) {
			t.Errorf("sent %q", got)
		}
	})
}

func TestTheLastAttemptIsThatOfTheLastMessage(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &tested{}
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		after(time.Minute)
		if _, made := h.LastAttempt(ops); made {
			t.Error("an attempt before the first message")
		}
		h.submit(t, store, ops, 0, 1)
		after(time.Minute)
		if failure, made := h.LastAttempt(ops); !made || failure != nil {
			t.Errorf("after a message: %v, %v", made, failure)
		}
		n.mu.Lock()
		n.err = &notify.SendError{Class: notify.Retry, Reason: v1alpha1.ReasonDeliveryFailing, Text: "no answer"}
		n.mu.Unlock()
		h.submit(t, store, ops, 1, 1)
		after(time.Minute)
		if failure, made := h.LastAttempt(ops); !made || failure == nil {
			t.Errorf("after a failure: %v, %v", made, failure)
		}
		h.Disable(ops)
		if _, made := h.LastAttempt(ops); made {
			t.Error("an attempt since the receiver changed")
		}
	})
}
