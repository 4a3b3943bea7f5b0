package notify_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/group"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

var (
	former  = alarm.ReceiverID(shop, "former")
	present = alarm.ReceiverID(shop, "present")
)

// A request for the former receiver can hang for minutes. Its answer must not remove messages
// of the new one, which does not wait for it.
func TestARecreatedReceiverGetsNothingOfItsPredecessor(t *testing.T) {
	for name, forget := range map[string]bool{"the deletion is observed": true, "only the new one is observed": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
				answer := make(chan error)
				old := &fake{answer: func(context.Context, int) error { return <-answer }}
				h.Configure(notify.Receiver{Key: shop, UID: "former", Notifier: old})
				h.submit(t, store, former, 0, 3)
				wait()
				if forget {
					h.Forget(shop)
				}
				recreated := &fake{}
				h.submit(t, store, present, 3, 1) // before the controller has seen it
				h.Configure(notify.Receiver{Key: shop, UID: "present", Notifier: recreated})
				h.submit(t, store, present, 4, 1)
				wait()
				answer <- nil
				after(10 * time.Minute)
				if diff := cmp.Diff([]string{"node-3", "node-4"}, recreated.bodies()); diff != "" {
					t.Error(diff)
				}
				if n := len(old.all()); n != 1 {
					t.Errorf("%d requests to the former receiver, want the one that hung", n)
				}
				if left := store.Snapshot().Backlogs; len(left) > 0 {
					t.Errorf("still waiting: %v", left)
				}
				if delivered, dropped := h.observer.deliveredCount(), h.observer.dropped(notify.DropForgotten); delivered+dropped != 5 || dropped < 2 {
					t.Errorf("%d delivered, %d dropped; want all 5 reported", delivered, dropped)
				}
			})
		})
	}
}

// At the start of a process, the outbox has messages for a receiver that was recreated.
func TestMessagesForAReceiverThatIsGoneAreDropped(t *testing.T) {
	var gone atomic.Bool
	opts := notify.Options{Orphaned: func(id string) bool { return gone.Load() && id != present }}
	earlier := alarm.ReceiverID(shop, "earlier") // only a group waits for it
	inBubbleWith(t, opts, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &fake{}
		h.Configure(notify.Receiver{Key: shop, UID: "present", Notifier: n})
		commit(t, store, former, 0, 3)
		commit(t, store, present, 3, 1)
		inGroup := entry(t, earlier, 4, store.State().Position+1)
		inGroup.Member = &outbox.Membership{Group: "slow", Rule: group.Rule{Wait: time.Hour}, Event: group.Event{At: time.Now()}}
		if err := store.Commit(t.Context(), outbox.Change{Events: &outbox.EventStep{Position: inGroup.Position}, Entries: []outbox.Entry{inGroup}}); err != nil {
			t.Fatal(err)
		}
		after(2 * time.Minute)
		if got := store.Backlog(former).Entries; got != 3 {
			t.Errorf("%d wait, want 3 as long as it is unknown whether the receiver exists", got)
		}
		gone.Store(true)
		after(2 * time.Minute)
		if got := store.Backlog(former).Entries + store.Backlog(earlier).Entries + store.Size().Held; got != 0 || h.observer.dropped(notify.DropForgotten) != 4 {
			t.Errorf("%d wait, %d were reported as dropped; want 0 and 4", got, h.observer.dropped(notify.DropForgotten))
		}
		if diff := cmp.Diff([]string{"node-3"}, n.bodies()); diff != "" {
			t.Error(diff)
		}
	})
}
