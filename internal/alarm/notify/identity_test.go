package notify_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm"
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
		inGroup.Member = &outbox.Membership{Group: "slow", At: time.Now(), Wait: time.Hour}
		if err := store.Commit(t.Context(), outbox.Batch{Position: inGroup.Position, Entries: []outbox.Entry{inGroup}}); err != nil {
			t.Fatal(err)
		}
		after(2 * time.Minute)
		if got := store.Backlog(former).Entries; got != 3 {
			t.Errorf("%d wait, want 3 as long as it is unknown whether the receiver exists", got)
		}
		gone.Store(true)
		after(2 * time.Minute)
		if got := store.Waiting(former) + store.Waiting(earlier); got != 0 || h.observer.dropped(notify.DropForgotten) != 4 {
			t.Errorf("%d wait, %d were reported as dropped; want 0 and 4", got, h.observer.dropped(notify.DropForgotten))
		}
		if diff := cmp.Diff([]string{"node-3"}, n.bodies()); diff != "" {
			t.Error(diff)
		}
	})
}

// Messages can wait for receivers of several namespaces that had the name one after the other.
func TestTheFirstReceiverGetsWhatWaitedForItInItsNamespace(t *testing.T) {
	const namespace = "shop-uid"
	awaited, ofFormer := alarm.AwaitedID(shop, namespace), alarm.AwaitedID(shop, "former-uid")
	notNow := errors.New("not now")
	for name, tc := range map[string]struct {
		// configured is the namespace of the receiver by the cache, and adopts the answer of the API
		// server about the awaited ID.
		configured string
		adopts     error
		want       []string
	}{
		"the namespace is known":             {namespace, nil, []string{"node-0", "node-2"}},
		"the namespace is not known":         {"", nil, []string{"node-0", "node-2"}},
		"the cache has the former namespace": {"former-uid", nil, []string{"node-0", "node-2"}},
		"the namespace cannot be read":       {namespace, notNow, []string{"node-2"}},
	} {
		t.Run(name, func(t *testing.T) {
			opts := notify.Options{
				Adopts:   func(id, waited string) (bool, error) { return id == present && waited == awaited, tc.adopts },
				Orphaned: func(id string) bool { return id == ofFormer },
			}
			inBubbleWith(t, opts, func(t *testing.T, store *outbox.Store, h *harness) {
				commit(t, store, awaited, 0, 1)
				commit(t, store, ofFormer, 1, 1)
				n := &fake{}
				h.Configure(notify.Receiver{Key: shop, UID: "present", NamespaceUID: tc.configured, Notifier: n})
				h.submit(t, store, present, 2, 1)
				after(3 * time.Minute)
				got := n.bodies()
				slices.Sort(got)
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Error(diff)
				}
				if waits := store.Waiting(ofFormer); waits != 0 || h.observer.dropped(notify.DropForgotten) != 1 {
					t.Errorf("%d wait for a former namespace, %d dropped", waits, h.observer.dropped(notify.DropForgotten))
				}
			})
		})
	}
}

// The pipeline stores a message for a receiver that its cache does not have yet, and the
// controller has it already.
func TestALateMessageForTheNameIsSent(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &fake{}
		h.Configure(notify.Receiver{Key: shop, UID: "present", NamespaceUID: "shop-uid", Notifier: n})
		wait()
		h.submit(t, store, alarm.AwaitedID(shop, "shop-uid"), 0, 1)
		wait()
		if diff := cmp.Diff([]string{"node-0"}, n.bodies()); diff != "" {
			t.Error(diff)
		}
	})
}
