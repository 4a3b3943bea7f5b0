package notify_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// repeatingBatches is a repeater that gets up to ten messages with one request.
type repeatingBatches struct {
	repeater
	batches []string // guarded by fake.mu
}

func (f *repeatingBatches) MaxBatch() int { return 10 }

func (f *repeatingBatches) SendBatch(_ context.Context, _ string, messages []notify.BatchMessage) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var bodies []string
	for _, m := range messages {
		bodies = append(bodies, string(m.Body))
	}
	f.batches = append(f.batches, strings.Join(bodies, ", "))
	return nil
}

// got returns the batches.
func (f *repeatingBatches) got() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.batches...)
}

func TestOpenGroupsOfABatchAreSentAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &repeatingBatches{}
		store.ReadUpTo(clock.RealClock{}.Now().Add(time.Second))
		h.happen(t, store, false, "a", "b", "c", "d")
		h.happen(t, store, true, "b", "d")
		h.happen(t, store, false, "d")
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		wait()
		if diff := cmp.Diff([]string{"a, b, c, d, b resolved, d resolved, d"}, n.got()); diff != "" {
			t.Fatal(diff)
		}
		after(70 * time.Second)
		if got := n.repeated(); len(got) != 1 || got[0].Body != "a c d" {
			t.Errorf("sent again: %+v", got)
		}
		h.happen(t, store, true, "a", "c")
		after(time.Hour)
		for _, s := range n.repeated()[1:] {
			if s.Body != "d" {
				t.Errorf("sent again after the others are resolved: %q", s.Body)
			}
		}
	})
}

func TestAfterAKillTheGroupsOfABatchAreSentAgain(t *testing.T) {
	dir := t.TempDir()
	n := &repeatingBatches{}
	synctest.Test(t, func(t *testing.T) {
		store := openOutbox(t, dir)
		h := start(t, killed{store}, notify.Options{})
		h.happen(t, store, false, "a", "b")
		h.happen(t, store, true, "a")
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		wait()
		h.stop()
		store = reopen(t, store, dir)
		store.ReadUpTo(clock.RealClock{}.Now().Add(time.Second))
		h = start(t, store, notify.Options{})
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		after(70 * time.Second)
		h.stop()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	if diff := cmp.Diff([]string{"a, b, a resolved", "a, b, a resolved"}, n.got()); diff != "" {
		t.Error(diff)
	}
	if got := n.repeated(); len(got) != 1 || got[0].Body != "b" {
		t.Errorf("sent again: %+v", got)
	}
}

func TestABatchWaitsForTheRequestThatRepeatsOneOfItsGroups(t *testing.T) {
	n := &repeatingBatches{}
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		release := make(chan struct{})
		n.answerAgain = func(_ context.Context, attempt int) error {
			if attempt == 0 {
				<-release
			}
			return nil
		}
		store.ReadUpTo(clock.RealClock{}.Now().Add(time.Second))
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		h.happen(t, store, false, "a")
		after(70 * time.Second)
		if got := n.repeated(); len(got) != 1 {
			t.Fatalf("sent again: %+v", got)
		}
		h.happen(t, store, true, "b", "a")
		if got := n.got(); len(got) != 0 {
			t.Errorf("sent %q while the group is sent again", got)
		}
		close(release)
		wait()
		if diff := cmp.Diff([]string{"a resolved, b resolved"}, n.got()); diff != "" {
			t.Error(diff)
		}
	})
}
