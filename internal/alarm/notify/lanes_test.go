package notify_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// submitAbout stores one entry for each subject, and wakes the Dispatcher. The names of the
// entries are "node-FIRST" and so on.
func (h *harness) submitAbout(t testing.TB, store *outbox.Store, first int, subjects ...string) {
	t.Helper()
	batch := outbox.Change{Events: &outbox.EventStep{Position: store.State().Position + 1}}
	for i, subject := range subjects {
		e := entry(t, ops, first+i, batch.Events.Position)
		e.Subject = subject
		batch.Entries = append(batch.Entries, e)
	}
	if err := store.Commit(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	h.Wake(ops)
}

// refuses is a Notifier whose receiver answers 5xx to the messages with these bodies.
type refuses struct {
	fake
	bodies []string
	all    bool
	// accepted are the bodies that it accepted.
	accepted []string
}

func (r *refuses) Send(ctx context.Context, key string, body []byte) error {
	_ = r.fake.Send(ctx, key, body)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all || slices.Contains(r.bodies, string(body)) {
		return failure(notify.Retry, "500")
	}
	r.accepted = append(r.accepted, string(body))
	return nil
}

func (r *refuses) set(all bool, bodies ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all, r.bodies = all, bodies
}

func (r *refuses) got() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.accepted)
}

func (r *refuses) tries(body string) int {
	n := 0
	for _, s := range r.fake.all() {
		if s.Body == body {
			n++
		}
	}
	return n
}

func TestAPoisonMessageDelaysOnlyMessagesOfItsObject(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &refuses{bodies: []string{"node-0"}}
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		h.submitAbout(t, store, 0, "a", "b", "a", "c")
		after(15 * time.Minute)
		if diff := cmp.Diff([]string{"node-1", "node-3"}, n.got()); diff != "" {
			t.Errorf("accepted behind the poison message: %s", diff)
		}
		if got := h.SetAside(ops); got != 1 || h.Failure(ops) != nil {
			t.Errorf("%d are set aside, and the failure is %v", got, h.Failure(ops))
		}
		h.submitAbout(t, store, 4, "a", "d")
		before := n.tries("node-0")
		after(12 * time.Hour)
		if tries := n.tries("node-0") - before; tries < 11 || tries > 40 {
			t.Errorf("tried %d times in 12 hours, want once in 5 minutes to 1 hour", tries)
		}
		n.set(false)
		after(time.Hour + 2*time.Minute)
		if diff := cmp.Diff([]string{"node-1", "node-3", "node-5", "node-0", "node-2", "node-4"}, n.got()); diff != "" {
			t.Errorf("accepted in the end: %s", diff)
		}
		if got := h.SetAside(ops); got != 0 || store.Backlog(ops).Entries != 0 {
			t.Errorf("%d are set aside, %d left", got, store.Backlog(ops).Entries)
		}
	})
}

func TestAReceiverThatAcceptsNothingHasNothingSetAside(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &refuses{all: true}
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		var subjects []string
		for i := range 200 {
			subjects = append(subjects, fmt.Sprint("object ", i))
		}
		h.submitAbout(t, store, 0, subjects...)
		after(8 * time.Hour)
		if got := h.SetAside(ops); got != 0 || h.Failure(ops) == nil {
			t.Errorf("%d are set aside, and the failure is %v", got, h.Failure(ops))
		}
		attempts := n.fake.all()
		for i := 1; i < len(attempts); i++ {
			if pause := attempts[i].At.Sub(attempts[i-1].At); pause < time.Second {
				t.Fatalf("two attempts within %v", pause)
			}
		}
		different := map[string]bool{}
		for _, a := range attempts {
			different[a.Body] = true
		}
		if len(different) > 13 {
			t.Errorf("%d messages were tried in 8 hours, want at most 13", len(different))
		}
		n.set(false)
		after(2 * time.Minute)
		if got := n.got(); len(got) != 200 {
			t.Errorf("accepted %d, want all", len(got))
		}
	})
}

// poisonous is a Notifier whose receiver answers 5xx to each message that contains node-20.
type poisonous struct{ fake }

func (p *poisonous) Render(m message.Message) ([]byte, error) {
	var names []string
	for _, e := range m.Events {
		names = append(names, e.Regarding.Name)
	}
	return []byte(strings.Join(names, " ")), nil
}

func (p *poisonous) Send(_ context.Context, _ string, body []byte) error {
	if slices.Contains(strings.Fields(string(body)), "node-20") {
		return failure(notify.Retry, "500")
	}
	return nil
}

func TestADigestThatAlwaysFailsIsDivided(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &poisonous{}
		h.Configure(notify.Receiver{Key: ops, Notifier: n, Limits: []notify.Limit{everySecond}})
		var subjects []string
		for i := range 100 {
			subjects = append(subjects, fmt.Sprint("object ", i))
		}
		h.submitAbout(t, store, 0, "first")
		wait()
		h.submitAbout(t, store, 1, subjects...)
		after(6 * time.Hour)
		if got := store.Backlog(ops).Entries; got != 1 || h.SetAside(ops) != 1 {
			t.Errorf("%d are left, and %d set aside, want the poison message", got, h.SetAside(ops))
		}
		if got := h.observer.deliveredCount(); got != 100 {
			t.Errorf("%d were delivered, want 100", got)
		}
	})
}

func TestSetAsideSurvivesARestart(t *testing.T) {
	n := &refuses{bodies: []string{"node-0"}}
	acrossRestart(t, func(store *outbox.Store, h *harness) {
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		h.submitAbout(t, store, 0, "a", "b")
		after(15 * time.Minute)
	}, func(store *outbox.Store, h *harness) {
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		h.submitAbout(t, store, 2, "c", "a")
		wait()
		if got := h.SetAside(ops); got != 1 {
			t.Errorf("%d are set aside", got)
		}
		if diff := cmp.Diff([]string{"node-1", "node-2"}, n.got()); diff != "" {
			t.Error(diff)
		}
		n.set(false)
		h.Configure(notify.Receiver{Key: ops, Notifier: n, Fingerprint: "annotated"})
		wait()
		if diff := cmp.Diff([]string{"node-1", "node-2", "node-0", "node-3"}, n.got()); diff != "" {
			t.Errorf("after a change of the receiver: %s", diff)
		}
		for _, s := range n.fake.all() {
			if want := ops + " " + strings.TrimPrefix(s.Body, "node-"); s.Key != want {
				t.Errorf("%s has the key %q", s.Body, s.Key)
			}
		}
	})
}

func TestAUserDropsMessagesThatAreSetAside(t *testing.T) {
	for name, tc := range map[string]struct {
		drop string
		left int64
	}{
		"all":         {drop: "all"},
		"one":         {drop: ops + " 1", left: 1},
		"another one": {drop: "unknown", left: 2},
		"no full ID":  {drop: ops, left: 2},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
				n := &refuses{bodies: []string{"node-0", "node-1"}}
				h.Configure(notify.Receiver{Key: ops, Notifier: n})
				h.submitAbout(t, store, 0, "a", "b", "c", "a")
				after(40 * time.Minute)
				if got := h.SetAside(ops); got != 2 {
					t.Fatalf("%d are set aside", got)
				}
				h.Configure(notify.Receiver{Key: ops, Notifier: n, Fingerprint: "annotated", Drop: tc.drop})
				wait()
				if got := int64(h.SetAside(ops)); got != tc.left || h.Dropped(ops) != tc.drop || h.observer.dropped(notify.DropByUser) != 2-tc.left {
					t.Errorf("%d are left, %q was handled, %d dropped", got, h.Dropped(ops), h.observer.dropped(notify.DropByUser))
				}
				if sent := slices.Contains(n.got(), "node-3"); sent != (tc.drop == "all") {
					t.Errorf("what waited behind the dropped message was sent: %t", sent)
				}
				again := h.observer.dropped(notify.DropByUser)
				h.submitAbout(t, store, 4, "c")
				after(10 * time.Minute)
				if got := h.observer.dropped(notify.DropByUser); got != again {
					t.Errorf("%d more were dropped without a new annotation", got-again)
				}
			})
		})
	}
}

func TestAnAnnotationIsHandledOnceAcrossRestarts(t *testing.T) {
	n := &refuses{bodies: []string{"node-0"}}
	acrossRestart(t, func(store *outbox.Store, h *harness) {
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		h.submitAbout(t, store, 0, "a", "b")
		after(15 * time.Minute)
	}, func(_ *outbox.Store, h *harness) {
		h.Configure(notify.Receiver{Key: ops, Notifier: n, Drop: "all", Dropped: "all"})
		after(time.Minute)
		if got := h.SetAside(ops); got != 1 {
			t.Errorf("%d are left, want the one that was set aside after the annotation was handled", got)
		}
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		h.Configure(notify.Receiver{Key: ops, Notifier: n, Drop: "all"})
		after(time.Minute)
		if got := h.SetAside(ops); got != 0 {
			t.Errorf("%d are left after the annotation was removed and set again", got)
		}
	})
}

// poison is a Notifier whose receiver answers 5xx to messages with an even number, and to all
// while it is down.
type poison struct {
	fake
	down atomic.Bool
}

func (p *poison) Send(ctx context.Context, key string, body []byte) error {
	var i int
	_, _ = fmt.Sscanf(string(body), "node-%d", &i)
	if i%2 == 0 || p.down.Load() {
		return failure(notify.Retry, "500")
	}
	return p.fake.Send(ctx, key, body)
}

// submitPoison stores n messages that are refused, each before one that is accepted.
func (h *harness) submitPoison(t *testing.T, store *outbox.Store, n int) {
	t.Helper()
	var subjects []string
	for i := range 2 * n {
		subjects = append(subjects, fmt.Sprint("object ", i))
	}
	h.submitAbout(t, store, 0, subjects...)
}

// expectAside expects that about a hundred of the poison messages are still set aside, and that
// the others were dropped. The last ones wait for a retry.
func (h *harness) expectAside(t *testing.T, poison int64) {
	t.Helper()
	aside, dropped := int64(h.SetAside(ops)), h.observer.dropped(notify.DropSetAside)
	if aside < 100 || aside > 105 || aside+dropped != poison {
		t.Errorf("%d are set aside and %d were dropped, want about 100, and %d together", aside, dropped, poison)
	}
}

func TestMoreThanAHundredPoisonMessagesDelayNoOther(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &poison{}
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		h.submitPoison(t, store, 110)
		after(16 * time.Hour)
		if got := len(n.all()); got != 110 {
			t.Errorf("%d messages arrived, want 110", got)
		}
		h.expectAside(t, 110)
	})
}

// The limit of the outbox for messages that are set aside is 200.
func TestPoisonMessagesOneAfterAnotherBlockNoOther(t *testing.T) {
	skipIfShort(t)
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &poison{}
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		h.submitPoison(t, store, 230)
		after(23 * time.Hour) // less than the maximum age
		if got := len(n.all()); got != 230 {
			t.Errorf("%d messages arrived, want 230", got)
		}
		h.expectAside(t, 230)
	})
}

// The receiver has no other messages, so that only those that are set aside fail.
func TestAQuietReceiverThatFailsDropsNoMessageThatIsSetAside(t *testing.T) {
	skipIfShort(t)
	for name, fail := range map[string]func(*harness, *poison){
		"an outage": func(_ *harness, n *poison) { n.down.Store(true) },
		"a configuration that fails": func(h *harness, _ *poison) {
			broken := &poison{}
			broken.down.Store(true)
			h.Configure(notify.Receiver{Key: ops, Notifier: broken, Fingerprint: "broken"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
				n := &poison{}
				h.Configure(notify.Receiver{Key: ops, Notifier: n})
				h.submitPoison(t, store, 110)
				for range 20 * 60 {
					if after(time.Minute); len(n.all()) == 110 {
						break
					}
				}
				before := h.observer.dropped(notify.DropSetAside)
				fail(h, n)
				after(6 * time.Hour)
				if dropped := h.observer.dropped(notify.DropSetAside) - before; dropped > 0 {
					t.Errorf("%d messages were dropped, want none", dropped)
				}
			})
		})
	}
}

// Messages are set aside too while a receiver accepts nothing. None is dropped for that.
func TestAnOutageDropsNoMessageThatIsSetAside(t *testing.T) {
	skipIfShort(t)
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &poison{}
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		h.submitPoison(t, store, 100)
		after(13 * time.Hour)
		n.down.Store(true)
		for i := range 20 {
			e := fmt.Sprint("late object ", i)
			h.submitAbout(t, store, 201+2*i, e)
		}
		after(6 * time.Hour)
		n.down.Store(false)
		after(3 * time.Hour)
		if got := len(n.all()); got != 120 {
			t.Errorf("%d messages arrived, want 120", got)
		}
		if got, dropped := h.SetAside(ops), h.observer.dropped(notify.DropSetAside); got != 100 || dropped != 0 {
			t.Errorf("%d are set aside and %d were dropped, want 100 and none", got, dropped)
		}
	})
}

func TestTheOutboxLimitsTheMessagesThatAreSetAside(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store := openOutbox(t, dir)
		h := &harness{Dispatcher: notify.NewDispatcher(store, &observer{}, clock.RealClock{}, logr.Discard(), notify.Options{})}
		var subjects []string
		for i := range outbox.MaxSetAside + 2 {
			subjects = append(subjects, fmt.Sprint("object ", i))
		}
		h.submitAbout(t, store, 0, subjects...)
		for i := range subjects {
			head, err := store.Pending(t.Context(), outbox.Query{Receiver: ops, Lane: outbox.MainLane, Limit: 1})
			if err != nil {
				t.Fatal(err)
			}
			a, err := store.Prepare(t.Context(), ops, outbox.MainLane, []int64{head[0].ID}, head[0].Key, nil)
			if err != nil {
				t.Fatal(err)
			}
			if moved, err := store.SetAside(t.Context(), a); moved != (i < outbox.MaxSetAside) {
				t.Fatalf("message %d: moved %t, %v", i, moved, err)
			} else if !moved {
				break
			}
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Messages of an object stay in order whatever fails, and all arrive.
func TestMessagesOfAnObjectStayInOrder(t *testing.T) {
	seeds := uint64(20)
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
				random := rand.New(rand.NewPCG(seed, 1))
				n := &batches{max: int(seed % 2 * 5)} // or no batches
				h.Configure(notify.Receiver{Key: ops, Notifier: n})
				subjectOf, total := map[string]string{}, 0
				for range 30 {
					var subjects []string
					for range random.IntN(8) {
						subjects = append(subjects, fmt.Sprint(random.IntN(5)))
						subjectOf[fmt.Sprint("node-", total+len(subjects)-1)] = subjects[len(subjects)-1]
					}
					h.submitAbout(t, store, total, subjects...)
					total += len(subjects)
					var refused []string
					for range random.IntN(6) {
						refused = append(refused, fmt.Sprint("node-", random.IntN(total+1)))
					}
					n.set(random.IntN(4) == 0, refused...)
					after(time.Duration(random.IntN(40)) * time.Minute)
				}
				n.set(false)
				after(3 * time.Hour)
				last, got := map[string]int{}, n.got()
				for _, body := range got {
					var i int
					_, _ = fmt.Sscanf(body, "node-%d", &i)
					subject := subjectOf[body]
					if before, ok := last[subject]; ok && before >= i {
						t.Errorf("%s came after node-%d of the same object", body, before)
					}
					last[subject] = i
				}
				if len(got) != total {
					t.Errorf("%d of %d arrived", len(got), total)
				}
			})
		})
	}
}

func TestAMessageThatIsSetAsideIsNoPartOfADigest(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &refuses{all: true}
		h.Configure(notify.Receiver{Key: ops, Notifier: n, Limits: []notify.Limit{everySecond}})
		h.submitAbout(t, store, 0, "a")
		after(time.Second)
		h.submitAbout(t, store, 1, "b", "a", "a", "a", "a", "a")
		after(12 * time.Minute)
		n.set(false)
		after(2 * time.Hour)
		sum := 0
		for _, body := range n.got() {
			count := 1
			_, _ = fmt.Sscanf(body, "digest of %d", &count)
			sum += count
		}
		if sum != 7 || store.Backlog(ops).Entries != 0 {
			t.Errorf("%d occurrences arrive and %d wait, want 7 and none: %q", sum, store.Backlog(ops).Entries, n.got())
		}
	})
}

// noSpace is an outbox that has no space for a prepared message of the main lane.
type noSpace struct {
	*outbox.Store
	full atomic.Bool
}

func (s *noSpace) Prepare(ctx context.Context, receiver string, lane int64, entries []int64, key string, body []byte) (*outbox.Attempt, error) {
	if s.full.Load() && lane == outbox.MainLane {
		return nil, outbox.ErrTooManyPrepared
	}
	return s.Store.Prepare(ctx, receiver, lane, entries, key, body)
}

// Messages that are set aside use the space of prepared messages.
func TestAMessageThatIsSetAsideIsTriedWhileOthersHaveNoSpace(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store := openOutbox(t, dir)
		s := &noSpace{Store: store}
		h := start(t, s, notify.Options{})
		n := &refuses{bodies: []string{"node-0"}}
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		h.submitAbout(t, store, 0, "a", "b")
		after(15 * time.Minute)
		s.full.Store(true)
		h.submitAbout(t, store, 2, "c")
		after(90 * time.Minute)
		n.set(false)
		after(10 * time.Hour)
		if !slices.Contains(n.got(), "node-0") {
			t.Errorf("accepted %q, want the message that was set aside too", n.got())
		}
		h.stop()
		_ = store.Close()
	})
}
