package notify_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox/file"
)

// reopen closes the outbox and opens it again, as after a restart.
func reopen(t *testing.T, store *outbox.Store, dir string) *outbox.Store {
	t.Helper()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return openOutbox(t, dir)
}

// acrossRestart runs before with a Dispatcher and an outbox. It then runs after with a
// new Dispatcher and a new outbox in the same directory.
func acrossRestart(t *testing.T, before, after func(store *outbox.Store, h *harness)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store := openOutbox(t, dir)
		h := start(t, store, notify.Options{})
		before(store, h)
		h.stop()
		store = reopen(t, store, dir)
		h = start(t, store, notify.Options{})
		after(store, h)
		h.stop()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}

// changing renders a different body each time, as a newer release might.
func changing() func(message.Message) string {
	var rendered atomic.Int64
	return func(m message.Message) string {
		return fmt.Sprintf("%s, count %d, rendered %d", m.Title, m.Count, rendered.Add(1))
	}
}

func failAll(context.Context, int) error { return failure(notify.Retry, "500") }

func TestAnAttemptedMessageIsTheSameAfterARestart(t *testing.T) {
	for name, limit := range map[string]notify.Limit{"message": {}, "digest": everySecond} {
		t.Run(name, func(t *testing.T) {
			first := &fake{answer: failAll, render: changing()}
			if limit != (notify.Limit{}) {
				first.answer = func(_ context.Context, attempt int) error {
					if attempt == 0 {
						return nil
					}
					return failure(notify.Retry, "500")
				}
			}
			second := &fake{render: changing()}
			acrossRestart(t, func(store *outbox.Store, h *harness) {
				h.Configure(notify.Receiver{Key: ops, Notifier: first, Limits: []notify.Limit{limit}})
				h.submit(t, store, ops, 0, 3)
				after(2 * time.Second)
				commit(t, store, ops, 3, 3)
			}, func(_ *outbox.Store, h *harness) {
				h.Configure(notify.Receiver{Key: ops, Notifier: second, Limits: []notify.Limit{limit}})
				after(time.Minute)
			})
			attempts, again := first.all(), second.all()
			want, got := attempts[len(attempts)-1], again[0]
			if got.Key != want.Key || got.Body != want.Body {
				t.Errorf("sent %+v after the restart, want %+v", got, want)
			}
			for _, later := range again[1:] {
				if later.Key == want.Key {
					t.Errorf("the key %q is used for another message", want.Key)
				}
			}
		})
	}
}

func TestAReceiverOfAnotherFormatGetsTheSameMessageUnderTheSameKey(t *testing.T) {
	slack := &fake{format: "slack", answer: failAll}
	webhook := &fake{format: "webhook", render: func(m message.Message) string { return "webhook: " + m.Title }, answer: answers(failure(notify.Retry, "500"))}
	acrossRestart(t, func(store *outbox.Store, h *harness) {
		h.Configure(notify.Receiver{Key: ops, Notifier: slack})
		h.submit(t, store, ops, 0, 1)
		wait()
	}, func(_ *outbox.Store, h *harness) {
		h.Configure(notify.Receiver{Key: ops, Notifier: webhook})
		after(time.Minute)
	})
	if diff := cmp.Diff([]string{"webhook: node-0", "webhook: node-0"}, webhook.bodies()); diff != "" {
		t.Error(diff)
	}
	if want, got := slack.all()[0].Key, webhook.all()[0].Key; got != want {
		t.Errorf("the key is %q, was %q", got, want)
	}
}

// killed is the outbox of a process that is killed before it acknowledges.
type killed struct{ *outbox.Store }

func (killed) Finish(context.Context, *outbox.Attempt, outbox.Outcome) (outbox.Counts, error) {
	return nil, file.ErrClosed
}

func TestAKillBeforeAcknowledgeSendsOneDuplicateWithTheSameKey(t *testing.T) {
	dir := t.TempDir()
	n := &fake{}
	synctest.Test(t, func(t *testing.T) {
		store := openOutbox(t, dir)
		h := start(t, killed{store}, notify.Options{})
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		h.submit(t, store, ops, 0, 3)
		wait()
		h.stop()
		store = reopen(t, store, dir)
		h = start(t, store, notify.Options{})
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		wait()
		h.stop()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	count := map[string]int{}
	for _, s := range n.all() {
		count[s.Key+": "+s.Body]++
	}
	want := map[string]int{ops + " 0: node-0": 2, ops + " 1: node-1": 1, ops + " 2: node-2": 1}
	if diff := cmp.Diff(want, count); diff != "" {
		t.Error(diff)
	}
}
