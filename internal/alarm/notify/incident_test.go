package notify_test

import (
	"context"
	"encoding/json"
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

// incidents is a Notifier whose receiver has an incident for each title without "!", which
// resolves it. The bodies are like "web 3", with the number of occurrences.
type incidents struct {
	refuses
	// each means that each message has an incident of its own.
	each bool
}

func newIncidents() *incidents {
	n := &incidents{}
	n.render = func(m message.Message) string {
		if m.Digest {
			return fmt.Sprintf("digest %d", m.Count)
		}
		return fmt.Sprintf("%s %d", m.Title, m.Count)
	}
	return n
}

func (n *incidents) Incident(m *message.Message) string {
	if n.each {
		return ""
	}
	return strings.TrimSuffix(m.Title, "!")
}

// incidentsOf commits a message for each title. Titles like "web/1" and "web/2" are about one
// object.
func incidentsOf(t testing.TB, store *outbox.Store, titles ...string) {
	t.Helper()
	batch := outbox.Change{Events: &outbox.EventStep{Position: store.State().Position + 1}}
	for i, title := range titles {
		e := entry(t, ops, i, batch.Events.Position)
		e.Key = fmt.Sprint(batch.Events.Position, " ", i)
		e.Subject, _, _ = strings.Cut(strings.TrimSuffix(title, "!"), "/")
		payload, err := json.Marshal(message.Message{Title: title, Count: 1, Group: &message.Group{Key: title, Resolved: strings.HasSuffix(title, "!")}})
		if err != nil {
			t.Fatal(err)
		}
		e.Payload = payload
		batch.Entries = append(batch.Entries, e)
	}
	if err := store.Commit(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
}

func TestAnIncidentWaitsForOneMessageOfEachOther(t *testing.T) {
	for name, tc := range map[string]struct {
		waiting string
		each    bool
		want    []string
	}{
		"repeats":              {"a,a,a,b", false, []string{"a 3", "b 1"}},
		"repeats of several":   {"a,b,a,c,b,a,new", false, []string{"a 3", "b 2", "c 1", "new 1"}},
		"resolved":             {"a,a,a!,b", false, []string{"a 2", "a! 1", "b 1"}},
		"resolved and again":   {"a,b,a!,a,a,b!", false, []string{"a 1", "b 1", "a! 1", "a 2", "b! 1"}},
		"of one object":        {"web/1,web/2,web/1,web/2,b", false, []string{"web/1 2", "web/2 2", "b 1"}},
		"a single message":     {"a", false, []string{"a 1"}},
		"without an identity":  {"a,a,b", true, []string{"a 1", "a 1", "b 1"}},
		"between other states": {"a,b,a!,b,a,b", false, []string{"a 1", "b 3", "a! 1", "a 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			inDirectory(t, func(t *testing.T, dir string, store *outbox.Store, h *harness) {
				n := newIncidents()
				n.each = tc.each
				titles := strings.Split(tc.waiting, ",")
				incidentsOf(t, store, titles...)
				h.Configure(notify.Receiver{Key: ops, Notifier: n})
				wait()
				if diff := cmp.Diff(tc.want, n.got()); diff != "" {
					t.Error(diff)
				}
				if got := h.observer.deliveredCount(); got != int64(len(titles)) || store.Backlog(ops).Entries != 0 {
					t.Errorf("%d of %d delivered, %d left", got, len(titles), store.Backlog(ops).Entries)
				}
				if got := h.observer.messages(); got[notify.KindOccurrence]+got[notify.KindGroup] != int64(len(tc.want)) {
					t.Errorf("%v messages are counted, want %d", got, len(tc.want))
				}
				view, err := outbox.Inspect(t.Context(), dir, 0, func(string) bool { return true })
				if err != nil || len(view.Receivers) != 0 {
					t.Errorf("messages are listed as parts of a digest: %+v, %v", view, err)
				}
			})
		})
	}
}

func TestOneMessageCombinesAtMostAThousandRepeats(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := newIncidents()
		incidentsOf(t, store, append(slices.Repeat([]string{"a"}, 1_100), "new")...)
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		wait()
		if diff := cmp.Diff([]string{"a 1000", "a 100", "new 1"}, n.got()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestRepeatsAreCombinedBehindThousandsAboutTheSameObject(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := newIncidents()
		titles := append([]string{"web/1"}, slices.Repeat([]string{"web/2"}, 2_500)...)
		incidentsOf(t, store, append(titles, "web/1")...)
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		wait()
		if diff := cmp.Diff([]string{"web/1 2", "web/2 1000", "web/2 1000", "web/2 500"}, n.got()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAMessageOfRepeatsIsTheSameAfterARestart(t *testing.T) {
	n := newIncidents()
	n.set(true)
	acrossRestart(t, func(store *outbox.Store, h *harness) {
		incidentsOf(t, store, "a", "b", "a")
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		after(time.Second)
		incidentsOf(t, store, "a", "b")
	}, func(_ *outbox.Store, h *harness) {
		n.set(false)
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		wait()
	})
	if diff := cmp.Diff([]string{"a 2", "b 2", "a 1"}, n.got()); diff != "" {
		t.Error(diff)
	}
	all := n.fake.all()
	for _, s := range all[:len(all)-2] {
		if s.Key != all[0].Key || s.Body != "a 2" {
			t.Errorf("sent %+v, first %+v", s, all[0])
		}
	}
}

func TestAKillBeforeAcknowledgeRepeatsOneMessageOfRepeats(t *testing.T) {
	dir := t.TempDir()
	n := newIncidents()
	synctest.Test(t, func(t *testing.T) {
		store := openOutbox(t, dir)
		incidentsOf(t, store, "a", "b", "a", "b", "a!")
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
	if diff := cmp.Diff([]string{"a 2", "a 2", "b 2", "a! 1"}, n.got()); diff != "" {
		t.Error(diff)
	}
	if all := n.fake.all(); all[0] != (sent{all[1].Key, all[1].Body, all[0].At}) {
		t.Errorf("repeated as %+v, was %+v", all[1], all[0])
	}
}

// One of the repeats can be the reason, and the first one triggers the incident.
func TestARejectedMessageOfRepeatsDropsOnlyTheRepeatThatIsRejected(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &rejectsRepeats{newIncidents()}
		incidentsOf(t, store, "a", "a", "b", "a")
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		wait()
		if diff := cmp.Diff([]string{"a 1", "a 1", "b 1", "a 1"}, n.got()); diff != "" {
			t.Error(diff)
		}
		if got := h.observer.dropped(notify.DropRejected); got != 0 || h.Failure(ops) != nil {
			t.Errorf("%d were dropped, and the failure is %v", got, h.Failure(ops))
		}
		if diff := cmp.Diff([]string{"3: 400", "2: 400"}, h.observer.refused); diff != "" {
			t.Error(diff)
		}
	})
}

// rejectsRepeats rejects each message about several occurrences.
type rejectsRepeats struct{ *incidents }

func (r *rejectsRepeats) Send(ctx context.Context, key string, body []byte) error {
	if !strings.HasSuffix(string(body), " 1") {
		return failure(notify.Reject, "400")
	}
	return r.incidents.Send(ctx, key, body)
}

func TestAnIncidentThatTheReceiverDoesNotAcceptIsSetAside(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := newIncidents()
		n.set(false, "a 1", "a 2")
		incidentsOf(t, store, "a", "b", "a", "c", "a!")
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		after(15 * time.Minute)
		if diff := cmp.Diff([]string{"b 1", "c 1"}, n.got()); diff != "" {
			t.Errorf("while it fails: %s", diff)
		}
		if h.SetAside(ops) != 1 {
			t.Errorf("%d are set aside, want 1", h.SetAside(ops))
		}
		n.set(false)
		after(3 * time.Hour)
		got := n.got()
		if got[len(got)-1] != "a! 1" || !strings.HasPrefix(got[2], "a ") || store.Backlog(ops).Entries != 0 {
			t.Errorf("in the end: %q", got)
		}
		if got := h.observer.deliveredCount(); got != 5 {
			t.Errorf("%d delivered, want 5", got)
		}
	})
}

func TestOnlyTheRepeatsThatAreTooOldAreDropped(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := newIncidents()
		n.set(true)
		incidentsOf(t, store, "a", "b")
		after(12 * time.Hour)
		incidentsOf(t, store, "a", "b")
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		wait()
		h.Disable(ops) // while the message about a is prepared
		after(13 * time.Hour)
		if got := h.observer.dropped(notify.DropExpired); got != 2 {
			t.Errorf("%d were dropped, want 2", got)
		}
		n.set(false)
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		wait()
		if diff := cmp.Diff([]string{"a 1", "b 1"}, n.got()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestRepeatsAreOneMessageForTheRateLimits(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := newIncidents()
		incidentsOf(t, store, append(slices.Repeat([]string{"a"}, 30), "b", "c", "c")...)
		h.Configure(notify.Receiver{Key: ops, Notifier: n, Limits: []notify.Limit{{Every: time.Minute, Burst: 2}}})
		begin := clock.RealClock{}.Now()
		after(2 * time.Minute)
		if diff := cmp.Diff([]string{"a 30", "b 1", "digest 2"}, n.got()); diff != "" {
			t.Error(diff)
		}
		if all := n.fake.all(); all[2].At.Sub(begin) != time.Minute {
			t.Errorf("the digest came after %s", all[2].At.Sub(begin))
		}
	})
}
