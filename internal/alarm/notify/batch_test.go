package notify_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// batches is a Notifier whose receiver gets up to max messages with one request.
type batches struct {
	refuses
	max int
	// answerBatch returns the result of a batch with these bodies; nil accepts all but those
	// that refuses refuses.
	answerBatch func(bodies []string) error
	// requests contains all batches, sizes their numbers of messages.
	requests []sent
	sizes    []int
}

func (b *batches) MaxBatch() int { return b.max }

func (b *batches) SendBatch(_ context.Context, key string, messages []notify.BatchMessage) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var bodies []string
	for _, m := range messages {
		if m.Key != keyOf(string(m.Body)) {
			return errors.New("the key is that of another message")
		}
		bodies = append(bodies, string(m.Body))
	}
	b.requests = append(b.requests, sent{Key: key, Body: strings.Join(bodies, " "), At: clock.RealClock{}.Now()})
	b.sizes = append(b.sizes, len(bodies))
	if b.answerBatch != nil {
		if err := b.answerBatch(bodies); err != nil {
			return err
		}
	}
	if b.refuses.all || slices.ContainsFunc(bodies, func(body string) bool { return slices.Contains(b.bodies, body) }) {
		return failure(notify.Retry, "500")
	}
	b.accepted = append(b.accepted, bodies...)
	return nil
}

// keyOf returns the key that commit gives to a message.
func keyOf(body string) string { return ops + " " + strings.TrimPrefix(body, "node-") }

func (b *batches) gotBatches() []sent {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.requests)
}

// bodiesAlone returns the messages that came alone.
func (b *batches) bodiesAlone() []string { return b.refuses.fake.bodies() }

// contents returns the messages of each batch.
func (b *batches) contents() []string {
	var all []string
	for _, r := range b.gotBatches() {
		all = append(all, r.Body)
	}
	return all
}

// names returns "node-FIRST" to "node-LAST".
func names(first, last int) []string {
	var all []string
	for i := first; i <= last; i++ {
		all = append(all, fmt.Sprint("node-", i))
	}
	return all
}

// subjects returns the names of n objects.
func subjects(n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprint("object ", i))
	}
	return all
}

func TestABatchContainsTheMessagesThatWaitInOrder(t *testing.T) {
	inDirectory(t, func(t *testing.T, dir string, store *outbox.Store, h *harness) {
		n := &batches{max: 60}
		h.submit(t, store, ops, 0, 121)
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		wait()
		if diff := cmp.Diff([]int{60, 60}, n.sizes); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(names(0, 119), n.got()[:120]); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"node-120"}, n.bodiesAlone()); diff != "" {
			t.Errorf("the last message alone: %s", diff)
		}
		if got := h.observer.deliveredCount(); got != 121 || store.Backlog(ops).Entries != 0 {
			t.Errorf("%d delivered, %d left", got, store.Backlog(ops).Entries)
		}
		if got := h.observer.messages(); got[notify.KindBatch] != 120 || got[notify.KindOccurrence] != 1 {
			t.Errorf("counted as %v", got)
		}
		view, err := outbox.Inspect(t.Context(), dir, 0, func(string) bool { return true })
		if err != nil || len(view.Receivers) != 0 {
			t.Errorf("messages of a batch are listed as parts of a digest: %+v, %v", view, err)
		}
	})
}

func TestWithoutABatchEachMessageIsARequest(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &batches{}
		h.submit(t, store, ops, 0, 10)
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		wait()
		if got := n.bodiesAlone(); len(got) != 10 || len(n.gotBatches()) != 0 {
			t.Errorf("%d messages alone, batches %q", len(got), n.contents())
		}
	})
}

func TestARejectedBatchDropsOnlyTheMessageThatIsRejected(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &batches{max: 20}
		n.answerBatch = func(bodies []string) error {
			if slices.Contains(bodies, "node-4") {
				return failure(notify.Reject, "400")
			}
			return nil
		}
		rejecting := &rejectsAlone{batches: n, body: "node-4"}
		h.submit(t, store, ops, 0, 100)
		h.Configure(notify.Receiver{Key: ops, Notifier: rejecting})
		wait()
		want := slices.DeleteFunc(names(0, 99), func(name string) bool { return name == "node-4" })
		if diff := cmp.Diff(want, n.got()); diff != "" {
			t.Error(diff)
		}
		if got := h.observer.dropped(notify.DropRejected); got != 1 || h.Failure(ops) != nil {
			t.Errorf("%d were dropped, and the failure is %v", got, h.Failure(ops))
		}
		// The next ones are half as large, because the size can be the cause, and then grow.
		if diff := cmp.Diff([]int{20, 10, 11, 12, 13, 14, 15, 5}, n.sizes); diff != "" {
			t.Error(diff)
		}
		if failures, _ := h.observer.statusChanges(); len(failures) != 1 {
			t.Errorf("the owner sees %q, want the failure of the message", failures)
		}
	})
}

// rejectsAlone rejects one message when it comes alone.
type rejectsAlone struct {
	*batches
	body string
}

func (r *rejectsAlone) Send(ctx context.Context, key string, body []byte) error {
	if string(body) == r.body {
		return failure(notify.Reject, "400")
	}
	return r.batches.Send(ctx, key, body)
}

func TestAPoisonMessageInABatchDelaysOnlyMessagesOfItsObject(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &batches{max: 100}
		n.set(false, "node-40")
		about := subjects(99)
		about = append(about, about[40])
		h.submitAbout(t, store, 0, about...)
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		after(20 * time.Second)
		if diff := cmp.Diff(names(0, 39), n.got()); diff != "" {
			t.Errorf("before it, after three attempts of the batch: %s", diff)
		}
		if got := n.contents(); len(got) != 3 || got[0] != got[1] || got[1] != got[2] {
			t.Errorf("batches %q", got)
		}
		after(15 * time.Minute)
		if diff := cmp.Diff(append(names(0, 39), names(41, 98)...), n.got()); diff != "" {
			t.Errorf("behind it: %s", diff)
		}
		if h.SetAside(ops) != 1 || h.observer.dropped(notify.DropSetAside) != 0 {
			t.Errorf("%d are set aside", h.SetAside(ops))
		}
		n.set(false)
		after(2 * time.Hour)
		if got := n.got(); !slices.Equal(got[98:], []string{"node-40", "node-99"}) || store.Backlog(ops).Entries != 0 {
			t.Errorf("in the end: %q", got[98:])
		}
	})
}

// The receiver accepts each request, but its answer never arrives in time.
func TestTheMessagesOfABatchWithoutAnAnswerAreRepeatedWithTheirIDs(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &batches{max: 10}
		n.answerBatch = func([]string) error { return failure(notify.Retry, "no answer in time") }
		commit(t, store, ops, 0, 5)
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		after(time.Minute)
		if diff := cmp.Diff(slices.Repeat([]string{strings.Join(names(0, 4), " ")}, 3), n.contents()); diff != "" {
			t.Error(diff)
		}
		alone := n.fake.all()
		for _, s := range alone {
			if s.Key != keyOf(s.Body) {
				t.Errorf("%s has the key %q", s.Body, s.Key)
			}
		}
		if len(alone) != 5 || store.Backlog(ops).Entries != 0 {
			t.Errorf("alone: %+v", alone)
		}
	})
}

func TestAfterAnOutageBatchesAreAsLargeAsBefore(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &batches{max: 10}
		n.set(true)
		h.submitAbout(t, store, 0, subjects(1000)...)
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		after(4 * time.Minute) // the first message is not set aside
		if got := len(n.gotBatches()); got != 3 {
			t.Errorf("%d attempts of a batch during the outage, want 3", got)
		}
		n.set(false)
		after(time.Minute)
		if diff := cmp.Diff(names(0, 999), n.got()); diff != "" {
			t.Error(diff)
		}
		if last := n.sizes[len(n.sizes)-2]; last != 10 {
			t.Errorf("the last batch but one has %d messages: %v", last, n.sizes)
		}
	})
}

func TestARetriedBatchIsTheSameAlsoAfterARestart(t *testing.T) {
	n := &batches{max: 10}
	n.set(true)
	acrossRestart(t, func(store *outbox.Store, h *harness) {
		commit(t, store, ops, 0, 5)
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		for len(n.gotBatches()) < 2 {
			after(100 * time.Millisecond)
		}
		commit(t, store, ops, 5, 5)
	}, func(_ *outbox.Store, h *harness) {
		n.set(false)
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		wait()
	})
	requests := n.gotBatches()
	last := len(requests) - 1
	for _, r := range requests[:last] {
		if r.Key != requests[0].Key || r.Body != strings.Join(names(0, 4), " ") {
			t.Errorf("sent %+v", r)
		}
	}
	if last < 2 || requests[last].Key == requests[0].Key || requests[last].Body != strings.Join(names(5, 9), " ") {
		t.Errorf("sent %+v", requests)
	}
}

func TestAKillBeforeAcknowledgeRepeatsTheBatchOnly(t *testing.T) {
	dir := t.TempDir()
	n := &batches{max: 10}
	synctest.Test(t, func(t *testing.T) {
		store := openOutbox(t, dir)
		commit(t, store, ops, 0, 30)
		h := start(t, killed{store}, notify.Options{})
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
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
	if diff := cmp.Diff(append(names(0, 9), names(0, 29)...), n.got()); diff != "" {
		t.Error(diff)
	}
	if requests := n.gotBatches(); requests[0].Key != requests[1].Key || requests[0].Body != requests[1].Body {
		t.Errorf("the batch was repeated as %+v, was %+v", requests[1], requests[0])
	}
}

func TestABatchDoesNotExceedTheRateLimits(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &batches{max: 50}
		shared := notify.Limit{Key: "shop", Every: time.Minute, Burst: 5}
		h.submit(t, store, ops, 0, 10)
		h.Configure(notify.Receiver{Key: ops, Notifier: n, Limits: []notify.Limit{shared, {Every: time.Second, Burst: 3}}})
		wait()
		if diff := cmp.Diff([]string{"node-0 node-1 node-2"}, n.contents()); diff != "" {
			t.Error(diff)
		}
		other := &fake{}
		h.Configure(notify.Receiver{Key: shop, Notifier: other, Limits: []notify.Limit{shared}})
		h.submit(t, store, shop, 0, 5)
		wait()
		// The batch took three permissions, and the digest that waits took one.
		if got := len(other.all()); got != 1 {
			t.Errorf("%d messages of another receiver with the same limit, want 1", got)
		}
		after(5 * time.Second)
		if diff := cmp.Diff([]string{"digest of 7"}, n.bodiesAlone()); diff != "" {
			t.Errorf("held back by the limit: %s", diff)
		}
	})
}

func TestABatchHasAtMost128KiB(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &large{}
		h.submit(t, store, ops, 0, 8)
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		wait()
		if diff := cmp.Diff([]string{"50000 50000", "50000 50000", "200000", "50000 50000", "50000"}, n.got); diff != "" {
			t.Error(diff)
		}
	})
}

// large is a Notifier with bodies of 50,000 bytes, except one. It records the sizes.
type large struct {
	fake
	got []string
}

func (l *large) Render(m message.Message) ([]byte, error) {
	if m.Title == "node-4" {
		return make([]byte, 200_000), nil
	}
	return make([]byte, 50_000), nil
}

func (l *large) MaxBatch() int { return 100 }

func (l *large) Send(ctx context.Context, key string, body []byte) error {
	return l.SendBatch(ctx, key, []notify.BatchMessage{{Key: key, Body: body}})
}

func (l *large) SendBatch(_ context.Context, _ string, messages []notify.BatchMessage) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var sizes []string
	for _, m := range messages {
		sizes = append(sizes, fmt.Sprint(len(m.Body)))
	}
	l.got = append(l.got, strings.Join(sizes, " "))
	return nil
}

func TestAMessageThatCannotBeReadIsNoPartOfABatch(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		batch := outbox.Change{Events: &outbox.EventStep{Position: 1}}
		for i := range 6 {
			e := entry(t, ops, i, 1)
			if i == 3 {
				e.Payload = []byte("{")
			}
			batch.Entries = append(batch.Entries, e)
		}
		if err := store.Commit(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		n := &batches{max: 10}
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		wait()
		if diff := cmp.Diff([]string{"node-0 node-1 node-2", "node-4 node-5"}, n.contents()); diff != "" {
			t.Error(diff)
		}
		if got := h.observer.dropped(notify.DropUnreadable); got != 1 {
			t.Errorf("%d were dropped, want 1", got)
		}
	})
}

func TestAPreparedBatchFollowsAChangeOfTheReceiver(t *testing.T) {
	all := names(0, 5)
	for name, tc := range map[string]struct {
		change func(*batches)
		want   []string
	}{
		"smaller batches": {func(n *batches) { n.max = 3 }, []string{strings.Join(all[:3], " "), strings.Join(all[3:], " ")}},
		"no batches":      {func(n *batches) { n.max = 0 }, nil},
		"another format":  {func(n *batches) { n.format = "other" }, []string{strings.Join(all, " ")}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
				failing := &batches{max: 10}
				failing.set(true)
				commit(t, store, ops, 0, 6)
				h.Configure(notify.Receiver{Key: ops, Notifier: failing})
				wait()
				changed := &batches{max: 10}
				tc.change(changed)
				h.Configure(notify.Receiver{Key: ops, Notifier: changed})
				wait()
				if diff := cmp.Diff(tc.want, changed.contents()); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff(all, changed.got()); diff != "" {
					t.Error(diff)
				}
				for _, s := range changed.fake.all() {
					if s.Key != keyOf(s.Body) {
						t.Errorf("%s has the key %q", s.Body, s.Key)
					}
				}
			})
		})
	}
}

func TestOnlyTheMessagesOfABatchThatAreTooOldAreDropped(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &batches{max: 10}
		n.set(true)
		commit(t, store, ops, 0, 2)
		after(12 * time.Hour)
		commit(t, store, ops, 2, 2)
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		wait()
		h.Disable(ops) // while the batch of all four is prepared
		after(13 * time.Hour)
		if got := h.observer.dropped(notify.DropExpired); got != 2 {
			t.Errorf("%d were dropped, want 2", got)
		}
		n.set(false)
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		wait()
		if diff := cmp.Diff(names(2, 3), n.got()); diff != "" {
			t.Error(diff)
		}
	})
}
