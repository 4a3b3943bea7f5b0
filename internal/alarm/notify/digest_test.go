package notify_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

var everySecond = notify.Limit{Every: time.Second}

func TestMessagesHeldBackByTheLimitAreOneDigest(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &fake{}
		h.Configure(notify.Receiver{Key: ops, Notifier: n, Limits: []notify.Limit{everySecond}})
		h.submit(t, store, ops, 0, 10)
		after(500 * time.Millisecond)
		h.submit(t, store, ops, 10, 5)
		after(time.Minute)
		if diff := cmp.Diff([]string{"node-0", "digest of 14"}, n.bodies()); diff != "" {
			t.Error(diff)
		}
		if got := h.observer.deliveredCount(); got != 15 || store.Backlog(ops).Entries != 0 {
			t.Errorf("%d delivered, %d left", got, store.Backlog(ops).Entries)
		}
		attempts := n.all()
		if pause := attempts[1].At.Sub(attempts[0].At); pause != time.Second {
			t.Errorf("the digest came after %s", pause)
		}
	})
}

func TestARejectedDigestIsRecordedAsNotDelivered(t *testing.T) {
	inDirectory(t, func(t *testing.T, dir string, store *outbox.Store, h *harness) {
		n := &fake{answer: answers(nil, failure(notify.Reject, "no"))}
		h.Configure(notify.Receiver{Key: ops, Notifier: n, Limits: []notify.Limit{everySecond}})
		h.submit(t, store, ops, 0, 3)
		after(time.Minute)
		view, err := outbox.Inspect(t.Context(), dir, 0, func(string) bool { return true })
		if err != nil || len(view.Receivers) != 1 || len(view.Receivers[0].Digested) != 2 {
			t.Fatalf("%+v, %v", view, err)
		}
		if view.Receivers[0].Digested[0].Delivered {
			t.Error("it is recorded as delivered")
		}
	})
}

func TestASingleMessageHeldBackIsNoDigest(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &fake{}
		h.Configure(notify.Receiver{Key: ops, Notifier: n, Limits: []notify.Limit{everySecond}})
		h.submit(t, store, ops, 0, 2)
		after(time.Minute)
		if diff := cmp.Diff([]string{"node-0", "node-1"}, n.bodies()); diff != "" {
			t.Error(diff)
		}
		if got := n.all()[1].Key; got != ops+" 1" {
			t.Errorf("the key is %q, want the entry's", got)
		}
	})
}

func TestWithoutALimitEachOccurrenceIsAMessage(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &fake{}
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		h.submit(t, store, ops, 0, 300)
		wait()
		if got := len(n.all()); got != 300 {
			t.Errorf("%d messages for 300 occurrences", got)
		}
	})
}

func TestReceiversWithOneLimitShareIt(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &fake{}
		for _, key := range []string{ops, shop} {
			h.Configure(notify.Receiver{Key: key, Notifier: n, Limits: []notify.Limit{{Key: "channel", Every: time.Second}}})
			commit(t, store, key, 0, 1)
		}
		h.Wake(ops, shop)
		wait()
		if got := len(n.all()); got != 1 {
			t.Errorf("%d messages at once to one channel", got)
		}
		after(time.Second)
		if got := len(n.all()); got != 2 {
			t.Errorf("%d messages after a second, want 2", got)
		}
		h.Forget(ops)
		h.Forget(shop)
		after(2 * time.Minute)
		if got := notify.Limiters(h.Dispatcher); got != 0 {
			t.Errorf("%d limiters are left without a receiver", got)
		}
	})
}

func TestAReceiverThatIsCreatedAgainGetsNoNewBurst(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &fake{}
		for i := range 10 {
			h.Configure(notify.Receiver{Key: ops, Notifier: n, Limits: []notify.Limit{{Every: time.Minute, Burst: 3}}})
			h.submit(t, store, ops, i, 1)
			wait()
			h.Forget(ops)
			wait()
		}
		if got := len(n.all()); got != 3 {
			t.Errorf("%d messages, want 3", got)
		}
	})
}

func TestABurstIsSentAtOnceAndTheRestIsADigest(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &fake{}
		h.Configure(notify.Receiver{Key: ops, Notifier: n, Limits: []notify.Limit{{Every: 100 * time.Millisecond, Burst: 3}}})
		h.submit(t, store, ops, 0, 10)
		after(time.Minute)
		h.submit(t, store, ops, 10, 1)
		wait()
		if diff := cmp.Diff([]string{"node-0", "node-1", "node-2", "digest of 7", "node-10"}, n.bodies()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAMessageWaitsForEachOfItsLimits(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &fake{}
		shared := notify.Limit{Key: "shop", Every: 10 * time.Second}
		h.Configure(notify.Receiver{Key: ops, Notifier: n, Limits: []notify.Limit{shared, {Every: time.Second}}})
		h.Configure(notify.Receiver{Key: shop, Notifier: n, Limits: []notify.Limit{{Every: time.Second}, shared}})
		for i, key := range []string{ops, shop, ops} {
			h.submit(t, store, key, i, 1)
			wait()
		}
		after(time.Minute)
		var pauses []time.Duration
		for i, attempts := 1, n.all(); i < len(attempts); i++ {
			pauses = append(pauses, attempts[i].At.Sub(attempts[i-1].At))
		}
		if diff := cmp.Diff([]time.Duration{10 * time.Second, 10 * time.Second}, pauses); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAMessageThatResolvesItsGroupIsNoPartOfADigest(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &fake{}
		batch := outbox.Change{Events: &outbox.EventStep{Position: 1}}
		for i := range 6 {
			e := entry(t, ops, i, 1)
			e.Payload = fmt.Appendf(nil, `{"count":1,"title":"m-%d","events":[],"group":{"key":"g-%d","resolved":%t}}`, i, i, i == 3)
			batch.Entries = append(batch.Entries, e)
		}
		if err := store.Commit(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		h.Configure(notify.Receiver{Key: ops, Notifier: n, Limits: []notify.Limit{everySecond}, ResolvesAlone: true})
		after(time.Minute)
		if diff := cmp.Diff([]string{"m-0", "digest of 2", "m-3", "digest of 2"}, n.bodies()); diff != "" {
			t.Error(diff)
		}
		if got := n.all()[2].Key; got != ops+" 3" {
			t.Errorf("the key is %q, want the entry's", got)
		}
	})
}

func TestARejectedDigestIsDroppedWhole(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &fake{answer: answers(nil, failure(notify.Reject, "400"))}
		h.Configure(notify.Receiver{Key: ops, Notifier: n, Limits: []notify.Limit{everySecond}})
		h.submit(t, store, ops, 0, 10)
		after(time.Minute)
		if got := h.observer.dropped(notify.DropRejected); got != 9 || len(n.all()) != 2 {
			t.Errorf("%d dropped after %d attempts, want 9 after 2", got, len(n.all()))
		}
	})
}

func TestTheDigestsOfAFloodAreBounded(t *testing.T) {
	skipIfShort(t)
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store := openOutbox(t, dir)
		const flood = 20_000
		var payload = strings.Repeat("n", 500)
		batch := outbox.Change{Events: &outbox.EventStep{Position: 1}}
		for i := range flood {
			e := entry(t, ops, i, 1)
			e.Payload = fmt.Appendf(nil, `{"count":1,"title":%q,"events":[{"reason":"BackOff","note":%q,"count":1,"regarding":{"kind":"Pod","name":"p-%d"}}]}`, payload, payload, i)
			batch.Entries = append(batch.Entries, e)
		}
		if err := store.Commit(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		n := &fake{render: func(m message.Message) string {
			body, err := json.Marshal(m)
			if err != nil {
				t.Error(err)
			}
			return string(body)
		}}
		h := start(t, store, notify.Options{})
		h.Configure(notify.Receiver{Key: ops, Notifier: n, Limits: []notify.Limit{everySecond}})
		after(time.Minute)
		var digest message.Message
		if attempts := n.all(); len(attempts) != 1+flood/outbox.MaxEntries {
			t.Fatalf("%d messages, want the first and digests of %d", len(attempts), outbox.MaxEntries)
		} else if err := json.Unmarshal([]byte(attempts[1].Body), &digest); err != nil {
			t.Fatal(err)
		}
		if digest.Count != outbox.MaxEntries || len(digest.Events) != message.MaxListedEvents || !digest.Digest {
			t.Errorf("a digest of %d with %d events", digest.Count, len(digest.Events))
		}
		if want := "1000 × BackOff Pod: "; !strings.HasPrefix(digest.Text, want) {
			t.Errorf("the text is %q, want %q...", digest.Text, want)
		}
		h.stop()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}
