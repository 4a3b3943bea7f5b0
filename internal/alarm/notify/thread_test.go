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

	"github.com/bongsu-io/bongsu/internal/alarm/group"
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

// describeGroup is the outbox.Composer of these tests.
func describeGroup(g outbox.Group, _ []outbox.Entry, count int64) ([]byte, error) {
	title := g.ID
	if g.Resolved {
		title += " resolved"
	}
	return json.Marshal(message.Message{Title: title, Count: count, Group: &message.Group{Key: g.ID, Total: g.Total, Resolved: g.Resolved}})
}

// commitGroups stores one message of each group for a receiver.
func commitGroups(t testing.TB, store *outbox.Store, receiver string, groups ...string) {
	t.Helper()
	commitOfGroups(t, store, receiver, false, groups...)
}

// memberOf returns the membership of a message in a group.
func memberOf(id string, at time.Time, resolve bool) *outbox.Membership {
	m := &outbox.Membership{Group: id, Event: group.Event{At: at}}
	if resolve {
		m.Event.Kind = group.Resolution
	}
	return m
}

// commitOfGroups stores one message of each group. They resolve the groups that are open.
func commitOfGroups(t testing.TB, store *outbox.Store, receiver string, resolve bool, groups ...string) {
	t.Helper()
	for _, group := range groups {
		position := store.State().Position + 1
		e := entry(t, receiver, int(position), position)
		e.Member = memberOf(group, clock.RealClock{}.Now().Add(-time.Hour), resolve)
		if err := store.Commit(t.Context(), outbox.Change{Events: &outbox.EventStep{Position: position}, Entries: []outbox.Entry{e}}); err != nil {
			t.Fatal(err)
		}
		_, err := store.Release(t.Context())
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheNextMessageOfAGroupGetsTheLastReference(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &threader{fake: fake{answer: answers(nil, failure(notify.Retry, "500"))}}
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		commitGroups(t, store, ops, "a", "b")
		h.Wake(ops)
		after(time.Minute)
		commitGroups(t, store, ops, "a")
		h.Wake(ops)
		wait()
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
		for range 2 {
			commitGroups(t, store, ops, "a")
			h.Wake(ops)
			wait()
		}
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
		h.Configure(notify.Receiver{Key: ops, Notifier: n, Limits: []notify.Limit{everySecond}})
		commitGroups(t, store, ops, "a", "b")
		h.Wake(ops)
		after(10 * time.Second)
		commitGroups(t, store, ops, "a")
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
		h.Configure(notify.Receiver{Key: ops, Notifier: n, Limits: []notify.Limit{everySecond}})
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

// groupNames returns n names, in alphabetical order.
func groupNames(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("g%03d", i))
	}
	return names
}

func TestEveryOpenThreadIsResolved(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &threader{}
		h.Configure(notify.Receiver{Key: ops, Notifier: n, Limits: []notify.Limit{everySecond}})
		for _, group := range groupNames(30) {
			commitGroups(t, store, ops, group)
			h.Wake(ops)
			after(2 * time.Second)
		}
		commitOfGroups(t, store, ops, true, groupNames(30)...)
		commitGroups(t, store, ops, "other", "another")
		h.Wake(ops)
		after(2 * time.Minute)
		var want []string
		for _, group := range groupNames(30) {
			want = append(want, fmt.Sprintf("%s resolved after %q", group, group))
		}
		if diff := cmp.Diff(want, n.bodies()[30:60]); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAResolvedGroupHasNoThread(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &threader{}
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		commitGroups(t, store, ops, "a")
		commitOfGroups(t, store, ops, true, "a")
		commitGroups(t, store, ops, "a")
		h.Wake(ops)
		wait()
		if diff := cmp.Diff([]string{`a after ""`, `a resolved after "a"`, `a after ""`}, n.bodies()); diff != "" {
			t.Error(diff)
		}
	})
}

// A tenant can open any number of groups, and resolve all of them at the same time. The
// messages of others wait for one message for each thread.
func TestTheGroupsOfANamespaceHaveALimitedNumberOfThreads(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &threader{}
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		commitGroups(t, store, ops, groupNames(130)...)
		h.Wake(ops)
		wait()
		h.Configure(notify.Receiver{Key: ops, Notifier: n, Limits: []notify.Limit{everySecond}})
		after(time.Second)
		commitOfGroups(t, store, ops, true, groupNames(130)...)
		commitGroups(t, store, ops, "other")
		h.Wake(ops)
		after(5 * time.Minute)
		alone := 0
		for _, body := range n.bodies()[130:] {
			if strings.Contains(body, "resolved after") {
				alone++
			}
		}
		if alone != 100 || n.bodies()[129] != "g129" {
			t.Errorf("%d threads are resolved, the last message is %q", alone, n.bodies()[129])
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
