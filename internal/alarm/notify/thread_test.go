package notify_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// threader is a fake whose bodies include the reference that it received. Its own
// reference is the body.
type threader struct {
	fake
	lost string
	next string // replaces the reference if not empty
}

func (f *threader) SendInGroup(ctx context.Context, key string, body []byte, reference string) (notify.Threaded, error) {
	err := f.Send(ctx, key, fmt.Appendf(nil, "%s after %q", body, reference))
	next := string(body)
	if f.next != "" {
		next = f.next
	}
	return notify.Threaded{Reference: next, Lost: f.lost}, err
}

// commitGroups stores one message of each group for a receiver.
func commitGroups(t testing.TB, store *outbox.Store, receiver string, groups ...string) {
	t.Helper()
	for _, group := range groups {
		position := store.State().Position + 1
		e := entry(t, receiver, int(position), position)
		e.Member = &outbox.Membership{Group: group, At: clock.RealClock{}.Now().Add(-time.Hour)}
		if err := store.Commit(t.Context(), outbox.Batch{Position: position, Entries: []outbox.Entry{e}}); err != nil {
			t.Fatal(err)
		}
		_, err := store.Release(t.Context(), func(g outbox.Group, parts []outbox.Entry, count int64) (string, []byte, error) {
			m := message.Message{Title: g.ID, Count: count, Group: &message.Group{Key: g.ID, Total: g.Total}}
			payload, err := json.Marshal(m)
			return parts[0].Key, payload, err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheNextMessageOfAGroupGetsTheLastReference(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &threader{fake: fake{answer: answers(nil, failure(notify.Retry, "500"))}}
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		commitGroups(t, store, ops, "a", "b", "a")
		h.Wake(ops)
		after(time.Minute)
		// The second fails once. The reference of a failed attempt is ignored.
		want := []string{`a after ""`, `b after ""`, `b after ""`, `a after "a"`}
		if diff := cmp.Diff(want, n.bodies()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAReferenceThatIsTooLongIsNotKept(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &threader{next: strings.Repeat("x", notify.MaxReference+1)}
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		commitGroups(t, store, ops, "a", "a")
		h.Wake(ops)
		wait()
		if diff := cmp.Diff([]string{`a after ""`, `a after ""`}, n.bodies()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestALostThreadIsReportedOnceItsMessageIsAcknowledged(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &threader{lost: "it was deleted"}
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		commitGroups(t, store, ops, "a")
		h.Wake(ops)
		wait()
		if diff := cmp.Diff([]string{ops + ": it was deleted"}, h.observer.lostThreads); diff != "" {
			t.Error(diff)
		}
	})
}

func TestGroupsThatTheLimitHoldsBackKeepTheirThreads(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &threader{}
		h.Configure(notify.Receiver{Key: ops, Notifier: n, Limit: everySecond})
		commitGroups(t, store, ops, "a", "b", "a")
		commit(t, store, ops, 100, 3)
		commitGroups(t, store, ops, "b")
		h.Wake(ops)
		after(time.Minute)
		want := []string{`a after ""`, `b after ""`, `a after "a"`, "digest of 3", `b after "b"`}
		if diff := cmp.Diff(want, n.bodies()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAFloodOfGroupsIsADigest(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &threader{fake: fake{render: func(m message.Message) string {
			return fmt.Sprintf("%d of a group: %t", m.Count, m.Group != nil)
		}}}
		h.Configure(notify.Receiver{Key: ops, Notifier: n, Limit: everySecond})
		for i := range 40 {
			commitGroups(t, store, ops, fmt.Sprint(i))
		}
		h.Wake(ops)
		after(time.Minute)
		want := []string{`1 of a group: true after ""`, "39 of a group: false"}
		if diff := cmp.Diff(want, n.bodies()); diff != "" {
			t.Error(diff)
		}
	})
}

// forgetful is an outbox that cannot read a group's reference at first.
type forgetful struct {
	*outbox.Store
	asked int
}

func (f *forgetful) Reference(ctx context.Context, receiver, group string) (string, error) {
	if f.asked++; f.asked < 3 {
		return "", errors.New("no disk")
	}
	return f.Store.Reference(ctx, receiver, group)
}

func TestAnUnreadableReferenceIsNotReportedAsAFailureOfTheReceiver(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		h.stop()
		n := &threader{}
		again := start(t, &forgetful{Store: store}, notify.Options{})
		defer again.stop()
		again.Configure(notify.Receiver{Key: ops, Notifier: n})
		commitGroups(t, store, ops, "a")
		again.Wake(ops)
		after(time.Minute)
		failures, _ := again.observer.statusChanges()
		if diff := cmp.Diff([]string{`a after ""`}, n.bodies()); diff != "" || len(failures) > 0 {
			t.Errorf("failures %q; %s", failures, diff)
		}
	})
}
