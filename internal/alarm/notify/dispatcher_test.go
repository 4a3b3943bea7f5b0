package notify_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox/file"
)

func TestMessagesAreSentInOrderAndLeaveTheOutbox(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &fake{}
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		h.submit(t, store, ops, 0, 3)
		wait()
		h.submit(t, store, ops, 3, 1)
		wait()
		if diff := cmp.Diff([]string{"node-0", "node-1", "node-2", "node-3"}, n.bodies()); diff != "" {
			t.Error(diff)
		}
		if got := n.all()[2].Key; got != ops+" 2" {
			t.Errorf("the key is %q, want the entry's", got)
		}
		if left := store.Backlog(ops).Entries; left != 0 || h.observer.deliveredCount() != 4 {
			t.Errorf("%d entries left, %d delivered", left, h.observer.deliveredCount())
		}
	})
}

func TestOneRequestIsInFlightPerReceiverAndNoneDelaysAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		release := make(chan struct{})
		slow := &fake{answer: func(context.Context, int) error { <-release; return nil }}
		fast := &fake{}
		h.Configure(notify.Receiver{Key: shop, Notifier: slow})
		h.Configure(notify.Receiver{Key: ops, Notifier: fast})
		commit(t, store, shop, 0, 5)
		commit(t, store, ops, 0, 100)
		h.Wake(shop, ops)
		wait()
		if got := len(slow.all()); got != 1 {
			t.Errorf("%d requests in flight", got)
		}
		if got := len(fast.all()); got != 100 {
			t.Errorf("%d of 100 messages passed the slow receiver", got)
		}
		close(release)
		wait()
		if got := len(slow.all()); got != 5 {
			t.Errorf("%d of 5 messages went out in the end", got)
		}
	})
}

func TestAFailedRequestIsRetriedAfter1To30SecondsWithTheSameBodyAndKey(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &fake{answer: answers(slices.Repeat([]error{failure(notify.Retry, "500")}, 12)...)}
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		h.submit(t, store, ops, 0, 2)
		after(10 * time.Minute)
		attempts := n.all()
		if len(attempts) != 14 {
			t.Fatalf("%d attempts, want 13 and one for the second message", len(attempts))
		}
		for i := range 12 {
			pause := attempts[i+1].At.Sub(attempts[i].At)
			if most := min(30*time.Second, time.Second<<(i+1)); pause < time.Second || pause > most {
				t.Errorf("pause %d is %s, want 1s to %s", i, pause, most)
			}
			if attempts[i+1].Key != attempts[0].Key || attempts[i+1].Body != attempts[0].Body {
				t.Errorf("attempt %d is %+v, want as the first", i+1, attempts[i+1])
			}
		}
		failures, recoveries := h.observer.statusChanges()
		if diff := cmp.Diff([][]string{{"500"}, {ops}}, [][]string{failures, recoveries}); diff != "" {
			t.Errorf("the observer was not notified once:\n%s", diff)
		}
	})
}

func TestRetryAfterIsHonouredUpToFiveMinutes(t *testing.T) {
	for name, tc := range map[string]struct{ asked, want time.Duration }{
		"two minutes": {2 * time.Minute, 2 * time.Minute},
		"a day":       {24 * time.Hour, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
				n := &fake{answer: answers(&notify.SendError{Class: notify.Retry, RetryAfter: tc.asked})}
				h.Configure(notify.Receiver{Key: ops, Notifier: n})
				h.submit(t, store, ops, 0, 1)
				after(time.Hour)
				attempts := n.all()
				if got := attempts[1].At.Sub(attempts[0].At); got != tc.want {
					t.Errorf("the pause is %s, want %s", got, tc.want)
				}
			})
		})
	}
}

// Its Notifier returns as soon as the receiver changes, and the context of Send goes on.
func TestAChangeInterruptsAnAttemptOfAnHour(t *testing.T) {
	for name, change := range map[string]func(h *harness, now *fake){
		"another configuration": func(h *harness, now *fake) { h.Configure(notify.Receiver{Key: ops, Notifier: now}) },
		"deleted":               func(h *harness, _ *fake) { h.Forget(ops) },
		"the operator stops":    func(h *harness, _ *fake) { h.stop() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
				former := &fake{answer: func(ctx context.Context, _ int) error {
					select {
					case <-notify.Early(ctx).Done():
						if ctx.Err() != nil {
							t.Error("an attempt in flight has no time left to end")
						}
						return notify.ErrInterrupted
					case <-time.After(time.Hour):
						return nil
					}
				}}
				now := &fake{}
				h.Configure(notify.Receiver{Key: ops, Notifier: former})
				h.submit(t, store, ops, 0, 1)
				wait()
				change(h, now)
				wait()
				if failures, _ := h.observer.statusChanges(); len(failures) != 0 || h.Failure(ops) != nil {
					t.Errorf("it is reported as a failure: %v", failures)
				}
				left, want := store.Backlog(ops).Entries, int64(0)
				if name == "the operator stops" {
					want = 1
				}
				if left != want || len(former.all()) != 1 {
					t.Errorf("%d messages wait after %d attempts, want %d after 1", left, len(former.all()), want)
				}
			})
		})
	}
}

func TestARejectDropsOnlyThatMessage(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &fake{answer: answers(nil, failure(notify.Reject, "400"))}
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		h.submit(t, store, ops, 0, 4)
		wait()
		if got := len(n.all()); got != 4 {
			t.Errorf("%d attempts, want each message once", got)
		}
		if d, r := h.observer.deliveredCount(), h.observer.dropped(notify.DropRejected); d != 3 || r != 1 {
			t.Errorf("%d delivered, %d rejected, want 3 and 1", d, r)
		}
	})
}

func TestAParkedReceiverIsRetriedWithinFiveMinutes(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		accepts := time.Now().Add(time.Hour)
		n := &fake{answer: func(context.Context, int) error {
			if time.Now().Before(accepts) {
				return failure(notify.Stop, "404")
			}
			return nil
		}}
		h.Configure(notify.Receiver{Key: ops, Fingerprint: "1", Notifier: n})
		h.submit(t, store, ops, 0, 2)
		after(time.Hour - time.Second)
		if got := len(n.all()); got < 12 || got > 30 {
			t.Errorf("%d attempts in an hour, want 12 to 30", got)
		}
		if got := h.FailingReceivers(); got != 1 {
			t.Errorf("%d receivers fail, want 1", got)
		}
		if e := h.Failure(ops); e == nil || e.Class != notify.Stop {
			t.Errorf("Failure is %v", e)
		}
		after(5*time.Minute + time.Second)
		if left := store.Backlog(ops).Entries; left != 0 || h.Failure(ops) != nil || h.FailingReceivers() != 0 {
			t.Errorf("%d messages wait five minutes after the receiver accepts them, failure %v", left, h.Failure(ops))
		}
		if _, recoveries := h.observer.statusChanges(); len(recoveries) != 1 {
			t.Errorf("recoveries %v, want one", recoveries)
		}
	})
}

func TestNextAttemptIsTheTimeOfTheNextAttempt(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		parked := slices.Repeat([]error{failure(notify.Stop, "404")}, 5)
		n := &fake{answer: answers(append(parked, &notify.SendError{Text: "404", Class: notify.Stop, RetryAfter: 5 * time.Minute})...)}
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		h.submit(t, store, ops, 0, 1)
		for attempt := 1; attempt <= 6; attempt++ {
			wait()
			next := h.NextAttempt(ops)
			if got := len(n.all()); got != attempt || next.Before(time.Now().Add(30*time.Second)) {
				t.Fatalf("after %d attempts the next one is at %v", got, next)
			}
			if changes := h.observer.pauses(); changes != attempt-1 {
				t.Errorf("%d changes were reported after %d pauses, want one for each but the first", changes, attempt)
			}
			after(time.Until(next))
			if got := n.all(); len(got) != attempt+1 || !got[attempt].At.Equal(next) {
				t.Fatalf("attempt %d was not at %v", attempt+1, next)
			}
		}
		if next := h.NextAttempt(ops); !next.IsZero() {
			t.Errorf("it works, and the next attempt is at %v", next)
		}
	})
}

func TestShortPausesChangeNoStatus(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &fake{answer: func(context.Context, int) error { return failure(notify.Retry, "500") }}
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		h.submit(t, store, ops, 0, 1)
		after(time.Hour)
		if failures, _ := h.observer.statusChanges(); len(failures) != 1 || h.observer.pauses() != 0 || !h.NextAttempt(ops).IsZero() {
			t.Errorf("%d attempts caused %d and %d changes", len(n.all()), len(failures), h.observer.pauses())
		}
	})
}

func TestAChangeEndsThePauseOfAParkedReceiver(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &fake{answer: answers(failure(notify.Stop, "404"))}
		h.Configure(notify.Receiver{Key: ops, Fingerprint: "1", Notifier: n})
		h.submit(t, store, ops, 0, 2)
		wait()
		h.Wake(ops)
		h.Configure(notify.Receiver{Key: ops, Fingerprint: "1", Notifier: n})
		wait()
		if got := len(n.all()); got != 1 {
			t.Errorf("%d attempts without a change, want 1", got)
		}
		if h.NextAttempt(ops).IsZero() {
			t.Error("there is no time of the next attempt")
		}
		h.Configure(notify.Receiver{Key: ops, Fingerprint: "2", Notifier: n})
		wait()
		if diff := cmp.Diff([]string{"node-0", "node-0", "node-1"}, n.bodies()); diff != "" {
			t.Errorf("after the change:\n%s", diff)
		}
		if next := h.NextAttempt(ops); !next.IsZero() {
			t.Errorf("the next attempt is at %v", next)
		}
	})
}

func TestAReceiverChangedDuringAnAttemptIsNotParkedByItsResult(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		release := make(chan struct{})
		former := &fake{answer: func(context.Context, int) error { <-release; return failure(notify.Stop, "401") }}
		now := &fake{}
		h.Configure(notify.Receiver{Key: ops, Notifier: former})
		h.submit(t, store, ops, 0, 1)
		wait()
		h.Configure(notify.Receiver{Key: ops, Notifier: now})
		close(release)
		wait()
		if got := len(now.all()); got != 1 || h.Failure(ops) != nil {
			t.Errorf("%d attempts by the new receiver, failure %v", got, h.Failure(ops))
		}
	})
}

func TestConfigureEndsABackOff(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &fake{answer: answers(&notify.SendError{Class: notify.Retry, RetryAfter: time.Minute})}
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		h.submit(t, store, ops, 0, 1)
		wait()
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		wait()
		if got := len(n.all()); got != 2 {
			t.Errorf("%d attempts, want one at once after the change", got)
		}
	})
}

func TestPendingMessagesWaitForAMissingOrDisabledReceiver(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &fake{}
		h.submit(t, store, ops, 0, 1)
		h.Forget(ops) // as the controller does for a receiver that it does not find
		after(time.Hour)
		h.Configure(notify.Receiver{Key: ops, Fingerprint: "1", Notifier: n})
		wait()
		h.Disable(ops)
		h.submit(t, store, ops, 1, 1)
		after(time.Hour)
		if got := len(n.all()); got != 1 {
			t.Fatalf("%d attempts, want only the one before Disable", got)
		}
		h.Configure(notify.Receiver{Key: ops, Fingerprint: "1", Notifier: n})
		wait()
		if got := len(n.all()); got != 2 {
			t.Errorf("%d attempts, want 2: the waiting message was not sent", got)
		}
	})
}

func TestExpiredMessagesAreDropped(t *testing.T) {
	for name, prepare := range map[string]func(h *harness){
		"receiver missing": func(*harness) {},
		"receiver parked": func(h *harness) {
			always := func(context.Context, int) error { return failure(notify.Stop, "401") }
			h.Configure(notify.Receiver{Key: ops, Notifier: &fake{answer: always}})
		},
		"receiver failing": func(h *harness) {
			always := func(context.Context, int) error { return failure(notify.Retry, "500") }
			h.Configure(notify.Receiver{Key: ops, Notifier: &fake{answer: always}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
				prepare(h)
				h.submit(t, store, ops, 0, 3)
				after(23 * time.Hour)
				h.submit(t, store, ops, 3, 1)
				after(59 * time.Minute)
				if got := h.observer.dropped(notify.DropExpired); got != 0 {
					t.Errorf("%d dropped before 24 h", got)
				}
				after(7 * time.Minute) // a pause of a parked receiver can end first
				if got := h.observer.dropped(notify.DropExpired); got != 3 {
					t.Errorf("%d dropped after 24 h, want 3", got)
				}
				if left := store.Backlog(ops).Entries; left != 1 {
					t.Errorf("%d entries left, want the new one", left)
				}
			})
		})
	}
}

func TestForgetDropsPendingMessagesAndReportsIt(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &fake{answer: answers(failure(notify.Stop, "404"))}
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		h.submit(t, store, ops, 0, 3)
		wait()
		h.Forget(ops)
		wait()
		if got := h.observer.dropped(notify.DropForgotten); got != 3 || store.Backlog(ops).Entries != 0 {
			t.Errorf("%d dropped, %d left", got, store.Backlog(ops).Entries)
		}
		commit(t, store, ops, 3, 1)
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		wait()
		if got := n.bodies(); got[len(got)-1] != "node-3" {
			t.Errorf("sent %v: a recreated receiver does not work", got)
		}
	})
}

// A recreated namespace may belong to another tenant, who must not get the messages.
func TestMessagesForADeletedNamespaceAreDropped(t *testing.T) {
	var gone atomic.Bool
	opts := notify.Options{Orphaned: func(key string) bool { return gone.Load() && key == shop }}
	inBubbleWith(t, opts, func(t *testing.T, store *outbox.Store, h *harness) {
		commit(t, store, shop, 0, 3)
		commit(t, store, ops, 3, 3)
		after(time.Hour)
		if got := store.Backlog(shop).Entries; got != 3 {
			t.Errorf("%d wait, want 3 as long as there may be a receiver", got)
		}
		gone.Store(true)
		after(2 * time.Minute)
		if got, other := store.Backlog(shop).Entries, store.Backlog(ops).Entries; got != 0 || other != 3 {
			t.Errorf("%d wait, and %d for another, want 0 and 3", got, other)
		}
		if got := h.observer.dropped(notify.DropForgotten); got != 3 {
			t.Errorf("%d were reported as dropped, want 3", got)
		}
	})
}

func TestAnUnreadableEntryIsDroppedAndBlocksNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		bad := entry(t, ops, 0, 1)
		bad.Payload = []byte("{")
		if err := store.Commit(t.Context(), outbox.Change{Events: &outbox.EventStep{Position: 1}, Entries: []outbox.Entry{bad, entry(t, ops, 1, 1)}}); err != nil {
			t.Fatal(err)
		}
		n := &fake{}
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		wait()
		if diff := cmp.Diff([]string{"node-1"}, n.bodies()); diff != "" || h.observer.dropped(notify.DropUnreadable) != 1 {
			t.Errorf("%d dropped, sent:\n%s", h.observer.dropped(notify.DropUnreadable), diff)
		}
	})
}

func TestThousandsOfReceiversEndTheirGoroutines(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		const receivers = 1000
		n := &fake{}
		batch := outbox.Change{Events: &outbox.EventStep{Position: 1}}
		for i := range receivers {
			key := fmt.Sprintf("AlarmReceiver/ns-%d/team", i)
			h.Configure(notify.Receiver{Key: key, Notifier: n})
			batch.Entries = append(batch.Entries, entry(t, key, i, 1))
		}
		if err := store.Commit(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		for _, e := range batch.Entries {
			h.Wake(e.Receiver)
		}
		wait()
		if got := len(n.all()); got != receivers {
			t.Errorf("%d of %d receivers were served", got, receivers)
		}
		if working := notify.Working(h.Dispatcher); working != 0 {
			t.Errorf("%d goroutines are still running", working)
		}
	})
}

func TestRunFinishesRequestsInFlightWithinTheGracePeriod(t *testing.T) {
	for name, tc := range map[string]struct {
		takes time.Duration
		left  int64
	}{
		"within the grace": {2 * time.Second, 1},
		"beyond the grace": {8 * time.Second, 2},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
				n := &fake{answer: func(ctx context.Context, _ int) error {
					select {
					case <-time.After(tc.takes):
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}}
				h.Configure(notify.Receiver{Key: ops, Notifier: n})
				h.submit(t, store, ops, 0, 2)
				wait()
				h.stop()
				if left := store.Backlog(ops).Entries; left != tc.left || len(n.all()) != 1 {
					t.Errorf("%d entries left after %d attempts, want %d after 1", left, len(n.all()), tc.left)
				}
				if failures, _ := h.observer.statusChanges(); len(failures) != 0 {
					t.Errorf("the shutdown is reported as a failure: %v", failures)
				}
			})
		})
	}
}

// flaky is an outbox whose Finish fails as on a full disk.
type flaky struct {
	*outbox.Store
	failures int
}

func (f *flaky) Finish(ctx context.Context, a *outbox.Attempt, o outbox.Outcome) (outbox.Counts, error) {
	if f.failures > 0 {
		f.failures--
		return nil, file.ErrFull
	}
	return f.Store.Finish(ctx, a, o)
}

func TestASentMessageIsNotSentAgainWhileAcknowledgeFails(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store := openOutbox(t, dir)
		h := start(t, &flaky{Store: store, failures: 5}, notify.Options{})
		n := &fake{}
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		h.submit(t, store, ops, 0, 2)
		after(time.Second / 2)
		if diff := cmp.Diff([]string{"node-0"}, n.bodies()); diff != "" {
			t.Errorf("while the disk is full:\n%s", diff)
		}
		after(3 * time.Minute)
		if diff := cmp.Diff([]string{"node-0", "node-1"}, n.bodies()); diff != "" {
			t.Errorf("after space was freed:\n%s", diff)
		}
		h.stop()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}

var errBroken = errors.New("dial tcp 10.0.0.1: secret")

func TestAnUnknownErrorIsRetriedAndItsTextHidden(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &fake{answer: answers(errBroken)}
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		h.submit(t, store, ops, 0, 1)
		after(time.Minute)
		failures, _ := h.observer.statusChanges()
		if diff := cmp.Diff([]string{"the message could not be sent: the operator retries it"}, failures); diff != "" || len(n.all()) != 2 {
			t.Errorf("%d attempts, failures:\n%s", len(n.all()), diff)
		}
	})
}
