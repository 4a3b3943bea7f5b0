package notify_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// team is the destination of a message in these tests.
func team(m *message.Message) string { return m.NamespaceLabels["team"] }

// showTeam renders a message with its destination.
func showTeam(m message.Message) string {
	if m.Digest {
		return fmt.Sprintf("digest of %d for %s", m.Count, team(&m))
	}
	return m.Title + " for " + team(&m)
}

// byTeam is a receiver whose destinations are teams.
func byTeam(n notify.Notifier) notify.Receiver {
	return notify.Receiver{Key: ops, Notifier: n, Limits: []notify.Limit{everySecond}, Destination: team}
}

// commitForTeams stores the messages first to first+n-1, for each team in turn.
func commitForTeams(t testing.TB, store *outbox.Store, first, n int, teams ...string) {
	t.Helper()
	batch := outbox.Change{Events: &outbox.EventStep{Position: store.State().Position + 1}}
	for i := range n {
		e := entry(t, ops, first+i, batch.Events.Position)
		var m message.Message
		if err := json.Unmarshal(e.Payload, &m); err != nil {
			t.Fatal(err)
		}
		m.NamespaceLabels = map[string]string{"team": teams[i%len(teams)]}
		var err error
		if e.Payload, err = message.Encode(m); err != nil {
			t.Fatal(err)
		}
		batch.Entries = append(batch.Entries, e)
	}
	if err := store.Commit(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
}

func TestADigestIsForOneDestination(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &fake{render: showTeam}
		h.Configure(byTeam(n))
		commitForTeams(t, store, 0, 90, "a", "b", "c")
		h.Wake(ops)
		after(time.Minute)
		want := []string{"node-0 for a", "digest of 30 for b", "digest of 30 for c", "digest of 29 for a"}
		if diff := cmp.Diff(want, n.bodies()); diff != "" {
			t.Error(diff)
		}
		if got := h.observer.messages()[notify.KindDigest]; got != 3 {
			t.Errorf("%d digests are counted, want 3", got)
		}
		if got := h.observer.deliveredCount(); got != 90 {
			t.Errorf("%d occurrences are delivered, want 90", got)
		}
	})
}

func TestAFloodForOneDestinationDelaysOthersByFewDigests(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &fake{render: showTeam}
		h.Configure(byTeam(n))
		commitForTeams(t, store, 0, 5000, "loud")
		commitForTeams(t, store, 5000, 1, "quiet")
		h.Wake(ops)
		after(time.Minute)
		if at := slices.Index(n.bodies(), "node-5000 for quiet"); at < 0 || at > 6 {
			t.Errorf("the quiet team's message is number %d: %v", at, n.bodies())
		}
	})
}

func TestADigestForOneDestinationIsTheSameAfterARestart(t *testing.T) {
	first := &fake{render: showTeam, answer: func(_ context.Context, attempt int) error {
		if attempt == 0 {
			return nil
		}
		return failure(notify.Retry, "500")
	}}
	second := &fake{render: showTeam}
	acrossRestart(t, func(store *outbox.Store, h *harness) {
		h.Configure(byTeam(first))
		commitForTeams(t, store, 0, 20, "a", "b")
		h.Wake(ops)
		after(10 * time.Second)
	}, func(_ *outbox.Store, h *harness) {
		h.Configure(byTeam(second))
		after(time.Minute)
	})
	tried, sent := first.all(), second.all()
	if last := tried[len(tried)-1]; last.Body != "digest of 10 for b" || sent[0].Body != last.Body || sent[0].Key != last.Key {
		t.Errorf("tried %+v before the restart, sent %+v after it", last, sent[0])
	}
	if diff := cmp.Diff([]string{"digest of 10 for b", "digest of 9 for a"}, second.bodies()); diff != "" {
		t.Error(diff)
	}
}

func TestARefusedDigestForOneDestinationIsDropped(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &fake{render: showTeam, answer: answers(nil, failure(notify.Reject, "400"))}
		h.Configure(byTeam(n))
		commitForTeams(t, store, 0, 20, "a", "b")
		h.Wake(ops)
		after(time.Minute)
		if diff := cmp.Diff([]string{"node-0 for a", "digest of 10 for b", "digest of 9 for a"}, n.bodies()); diff != "" {
			t.Error(diff)
		}
		if got := h.observer.dropped(notify.DropRejected); got != 10 {
			t.Errorf("%d occurrences are dropped, want 10", got)
		}
	})
}
