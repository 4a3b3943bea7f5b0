package notify_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// commitOf commits messages of a tenant.
func commitOf(t testing.TB, store *outbox.Store, tenant string, first, n int) {
	t.Helper()
	c := outbox.Change{Events: &outbox.EventStep{Position: store.State().Position + 1}}
	for i := first; i < first+n; i++ {
		e := entry(t, ops, i, c.Events.Position)
		e.Tenant = tenant
		c.Entries = append(c.Entries, e)
	}
	if err := store.Commit(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// threeTenants commits messages of a tenant with many, and then of two others.
func threeTenants(t testing.TB, store *outbox.Store) {
	t.Helper()
	commitOf(t, store, "many", 100, 100)
	commitOf(t, store, "one", 1, 1)
	commitOf(t, store, "two", 21, 2)
}

func TestTenantsTakeTurns(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &fake{}
		threeTenants(t, store)
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		wait()
		if diff := cmp.Diff([]string{"node-100", "node-1", "node-21", "node-101", "node-22", "node-102"}, n.bodies()[:6]); diff != "" {
			t.Error(diff)
		}
		var many []string
		for _, body := range n.bodies() {
			if len(body) == len("node-100") {
				many = append(many, body)
			}
		}
		if len(many) != 100 || !slices.IsSorted(many) {
			t.Errorf("those of the tenant with many are not in order: %v", many)
		}
	})
}

func TestABatchHasMessagesOfEachTenant(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &batches{max: 50}
		threeTenants(t, store)
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		wait()
		join := func(names ...[]string) string { return strings.Join(slices.Concat(names...), " ") }
		want := []string{
			join(names(100, 124), names(1, 1), names(21, 22), names(125, 146)),
			join(names(147, 196)), join(names(197, 199)),
		}
		if diff := cmp.Diff(want, n.contents()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestADigestHasMessagesOfEachTenant(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &fake{}
		h.Configure(notify.Receiver{Key: ops, Notifier: n, Limits: []notify.Limit{everySecond}})
		commitOf(t, store, "many", 1_000, 3_000)
		commitOf(t, store, "one", 1, 1)
		h.Wake(ops)
		after(1500 * time.Millisecond)
		if diff := cmp.Diff([]string{"node-1000", "digest of 1000"}, n.bodies()); diff != "" {
			t.Error(diff)
		}
		pending, err := store.Pending(t.Context(), outbox.Query{Receiver: ops, Lane: outbox.MainLane, Limit: 3_000})
		if err != nil || len(pending) != 2_000 || slices.ContainsFunc(pending, func(e outbox.Entry) bool { return e.Tenant == "one" }) {
			t.Errorf("%d wait: the tenant with one message waits for the other, %v", len(pending), err)
		}
	})
}

func TestARefusedBatchOfSeveralTenantsIsDividedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &batches{max: 50}
		refused := 0
		n.answerBatch = func(bodies []string) error {
			if slices.Contains(bodies, "node-101") {
				refused++
				return failure(notify.Reject, "400")
			}
			return nil
		}
		threeTenants(t, store)
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		after(time.Hour)
		if refused != 1 || store.Backlog(ops).Entries != 0 {
			t.Errorf("%d batches refused, %d messages wait", refused, store.Backlog(ops).Entries)
		}
		if alone := n.bodiesAlone(); !slices.Contains(alone, "node-101") || !slices.Contains(alone, "node-1") {
			t.Errorf("sent alone: %v", alone)
		}
	})
}

// The prepared message is younger than others, which wait for their turn.
func TestMessagesThatWaitForTheirTurnExpire(t *testing.T) {
	inBubbleWith(t, notify.Options{MaxAge: time.Hour}, func(t *testing.T, store *outbox.Store, h *harness) {
		var accepts atomic.Bool
		n := &fake{answer: func(context.Context, int) error {
			if accepts.Load() {
				return nil
			}
			return failure(notify.Retry, "500")
		}}
		commitOf(t, store, "b", 100, 10)
		after(30 * time.Minute)
		commitOf(t, store, "a", 1, 2)
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		after(40 * time.Minute)
		accepts.Store(true)
		after(time.Minute)
		if got := h.observer.droppedBy[notify.DropExpired]; got != 10 {
			t.Errorf("%d messages expired, want 10", got)
		}
		bodies := n.bodies()
		if diff := cmp.Diff([]string{"node-1", "node-2"}, bodies[len(bodies)-2:]); diff != "" {
			t.Error(diff)
		}
	})
}

// A receiver that is set up with many namespaces costs each message the same.
func TestTheNextTurnIsFoundAmongManyTenants(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &fake{}
		for i := range 200 {
			commitOf(t, store, fmt.Sprintf("tenant-%03d", i), i, 1)
		}
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		wait()
		if got := n.bodies(); len(got) != 200 || got[199] != "node-199" {
			t.Errorf("%d messages: %v", len(got), got)
		}
	})
}
