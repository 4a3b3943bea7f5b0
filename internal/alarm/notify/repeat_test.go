package notify_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// repeater is a fake that must get the last message of each open group every minute.
type repeater struct {
	fake
	// answerAgain returns the result of a request that repeats messages; nil accepts all.
	answerAgain func(ctx context.Context, attempt int) error
	// refused is the title of a message that it refuses.
	refused string

	again []sent // guarded by fake.mu
}

func (f *repeater) RepeatEvery() time.Duration { return time.Minute }

func (f *repeater) SendAgain(ctx context.Context, messages []message.Message) error {
	var titles []string
	for i := range messages {
		titles = append(titles, messages[i].Title)
	}
	slices.Sort(titles)
	f.mu.Lock()
	attempt := len(f.again)
	f.again = append(f.again, sent{Body: strings.Join(titles, " "), At: clock.RealClock{}.Now()})
	f.mu.Unlock()
	if f.refused != "" && slices.Contains(titles, f.refused) {
		return failure(notify.Reject, "400")
	}
	if f.answerAgain == nil {
		return nil
	}
	return f.answerAgain(ctx, attempt)
}

// repeated returns what was sent again.
func (f *repeater) repeated() []sent {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.again)
}

// happen commits and releases a message of each group.
func (h *harness) happen(t *testing.T, store *outbox.Store, resolve bool, groups ...string) {
	t.Helper()
	batch := outbox.Change{Events: &outbox.EventStep{Position: store.State().Position + 1}}
	for _, group := range groups {
		e := entry(t, ops, int(batch.Events.Position), batch.Events.Position)
		e.Key += group
		e.Member = memberOf(group, clock.RealClock{}.Now().Add(-2*time.Second), resolve)
		batch.Entries = append(batch.Entries, e)
	}
	if err := store.Commit(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.Wake(ops)
	wait()
}

// inRepeatingBubble is inBubble with a repeater for which all Events are read.
func inRepeatingBubble(t *testing.T, n *repeater, test func(t *testing.T, store *outbox.Store, h *harness)) {
	t.Helper()
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		h.Configure(notify.Receiver{Key: ops, Notifier: n, Limits: []notify.Limit{{Every: time.Hour, Burst: 2}}})
		store.ReadUpTo(clock.RealClock{}.Now().Add(time.Second))
		test(t, store, h)
	})
}

func TestOpenGroupsAreSentAgainWithoutTheRateAndTheCounts(t *testing.T) {
	n := &repeater{}
	inRepeatingBubble(t, n, func(t *testing.T, store *outbox.Store, h *harness) {
		begin := clock.RealClock{}.Now()
		h.happen(t, store, false, "a")
		after(200 * time.Second)
		h.happen(t, store, true, "a") // the rate has one message left
		after(time.Hour)
		if diff := cmp.Diff([]string{"a", "a resolved"}, n.bodies()); diff != "" {
			t.Error(diff)
		}
		var times []time.Duration
		for _, s := range n.repeated() {
			times = append(times, s.At.Sub(begin))
		}
		if diff := cmp.Diff([]time.Duration{time.Minute, 2 * time.Minute, 3 * time.Minute}, times); diff != "" {
			t.Errorf("sent again after: %s", diff)
		}
		if got := h.observer.deliveredCount(); got != 2 {
			t.Errorf("%d occurrences are counted as delivered, want 2", got)
		}
	})
}

// A group in a digest has no message of its own.
func TestAGroupInADigestIsNotSentAgain(t *testing.T) {
	n := &repeater{}
	inRepeatingBubble(t, n, func(t *testing.T, store *outbox.Store, h *harness) {
		h.happen(t, store, false, "a", "b", "c", "d")
		after(time.Hour)
		if diff := cmp.Diff([]string{"a", "b", "digest of 2"}, n.bodies()); diff != "" {
			t.Error(diff)
		}
		for _, s := range n.repeated() {
			if s.Body != "a b" {
				t.Fatalf("sent again: %q", s.Body)
			}
		}
		if len(n.repeated()) < 50 {
			t.Errorf("sent again %d times in an hour", len(n.repeated()))
		}
	})
}

func TestManyGroupsAreSentAgainInFewRequests(t *testing.T) {
	n := &repeater{}
	inRepeatingBubble(t, n, func(t *testing.T, store *outbox.Store, h *harness) {
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		var groups []string
		for i := range 250 {
			groups = append(groups, fmt.Sprintf("group-%03d", i))
		}
		h.happen(t, store, false, groups...)
		after(70 * time.Second)
		var sizes []int
		all := map[string]int{}
		for _, s := range n.repeated() {
			titles := strings.Fields(s.Body)
			sizes = append(sizes, len(titles))
			for _, title := range titles {
				all[title]++
			}
		}
		if diff := cmp.Diff([]int{100, 100, 50}, sizes); diff != "" {
			t.Errorf("groups in a request: %s", diff)
		}
		if len(all) != len(groups) {
			t.Errorf("%d groups were sent again, want all once", len(all))
		}
	})
}

func TestNothingIsSentAgainBeforeAllEventsAreRead(t *testing.T) {
	n := &repeater{}
	acrossRestart(t, func(store *outbox.Store, h *harness) {
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		h.happen(t, store, false, "a")
	}, func(store *outbox.Store, h *harness) {
		began := clock.RealClock{}.Now()
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		after(5 * time.Minute)
		store.ReadUpTo(began.Add(-time.Second))
		after(time.Minute)
		if got := n.repeated(); len(got) > 0 {
			t.Errorf("%v was sent again", got)
		}
		store.ReadUpTo(began)
		after(time.Minute)
		if got := n.repeated(); len(got) != 1 {
			t.Errorf("%v was sent again, want one message", got)
		}
	})
}

// The request that repeats the message of a group must not arrive after the message that
// resolves the group.
func TestAResolutionWaitsForTheRequestThatRepeatsItsGroupOnly(t *testing.T) {
	release := make(chan struct{})
	n := &repeater{}
	n.answerAgain = func(ctx context.Context, attempt int) error {
		if attempt > 0 {
			return nil
		}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil
	}
	inRepeatingBubble(t, n, func(t *testing.T, store *outbox.Store, h *harness) {
		release = make(chan struct{}) // of the bubble
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		h.happen(t, store, false, "a")
		after(70 * time.Second)
		if got := n.repeated(); len(got) != 1 {
			t.Fatalf("%v was sent again", got)
		}
		h.happen(t, store, false, "b")
		h.happen(t, store, true, "a")
		if diff := cmp.Diff([]string{"a", "b"}, n.bodies()); diff != "" {
			t.Errorf("while the request is in flight: %s", diff)
		}
		close(release)
		after(5 * time.Minute)
		if diff := cmp.Diff([]string{"a", "b", "a resolved"}, n.bodies()); diff != "" {
			t.Error(diff)
		}
		for _, s := range n.repeated()[1:] {
			if s.Body != "b" {
				t.Errorf("%q was sent again", s.Body)
			}
		}
	})
}

func TestAFailureToSendAgainIsReportedUntilItSucceeds(t *testing.T) {
	n := &repeater{}
	n.answerAgain = answers(failure(notify.Stop, "401"), failure(notify.Stop, "401"))
	inRepeatingBubble(t, n, func(t *testing.T, store *outbox.Store, h *harness) {
		h.happen(t, store, false, "a")
		after(61 * time.Second)
		if got := h.Failure(ops); got == nil || got.Text != "401" {
			t.Errorf("the failure is %v", got)
		}
		after(5 * time.Minute)
		if got := h.Failure(ops); got != nil {
			t.Errorf("the failure is %v after a success", got)
		}
		failures, recoveries := h.observer.statusChanges()
		if len(failures) != 1 || len(recoveries) != 1 {
			t.Errorf("reported %v and %v, want each once", failures, recoveries)
		}
		times := n.repeated()
		for i, s := range times[1:3] {
			if pause := s.At.Sub(times[i].At); pause < 10*time.Second || pause > 80*time.Second {
				t.Errorf("the next attempt came after %s", pause)
			}
		}
	})
}

// A refusal does not keep the others from being sent again.
func TestARefusedRepetitionDoesNotStopTheOthers(t *testing.T) {
	n := &repeater{}
	n.answerAgain = answers(failure(notify.Reject, "400"))
	inRepeatingBubble(t, n, func(t *testing.T, store *outbox.Store, h *harness) {
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		var groups []string
		for i := range 101 {
			groups = append(groups, fmt.Sprintf("group-%03d", i))
		}
		h.happen(t, store, false, groups...)
		after(61 * time.Second)
		if got := n.repeated(); len(got) != 4 { // two halves of the first, and the 101st message
			t.Errorf("%d requests, want 4", len(got))
		}
		if h.observer.dropped(notify.DropRejected) != 0 {
			t.Error("occurrences are counted as dropped")
		}
	})
}

// The receiver refuses one alert, and each request that has it.
func TestTheOthersOfARefusedRequestAreSentAgain(t *testing.T) {
	n := &repeater{refused: "group-042"}
	inRepeatingBubble(t, n, func(t *testing.T, store *outbox.Store, h *harness) {
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		var groups []string
		for i := range 100 {
			groups = append(groups, fmt.Sprintf("group-%03d", i))
		}
		h.happen(t, store, false, groups...)
		for period := range 3 {
			before := len(n.repeated())
			after(70 * time.Second)
			accepted := map[string]int{}
			requests := n.repeated()[before:]
			for _, s := range requests {
				if titles := strings.Fields(s.Body); !slices.Contains(titles, n.refused) {
					for _, title := range titles {
						accepted[title]++
					}
				}
			}
			if len(accepted) != 99 || len(requests) > 20 {
				t.Errorf("period %d: %d alerts were accepted in %d requests, want 99", period, len(accepted), len(requests))
			}
			if got := h.Failure(ops); got == nil || got.Class != notify.Reject {
				t.Errorf("period %d: the failure is %v", period, got)
			}
		}
		if failures, recoveries := h.observer.statusChanges(); len(failures) != 1 || len(recoveries) > 0 {
			t.Errorf("reported %v and %v, want one failure", failures, recoveries)
		}
		h.happen(t, store, true, n.refused)
		after(5 * time.Minute)
		if got := h.Failure(ops); got != nil {
			t.Errorf("the failure is %v after the end", got)
		}
	})
}

func TestAReceiverThatRefusesAllGetsFewRequests(t *testing.T) {
	n := &repeater{answerAgain: func(context.Context, int) error { return failure(notify.Reject, "400") }}
	inRepeatingBubble(t, n, func(t *testing.T, store *outbox.Store, h *harness) {
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		var groups []string
		for i := range 100 {
			groups = append(groups, fmt.Sprintf("group-%03d", i))
		}
		h.happen(t, store, false, groups...)
		after(70 * time.Second)
		if got := len(n.repeated()); got > 70 {
			t.Errorf("%d requests about 100 alerts", got)
		}
	})
}

// A leader that stops makes no further request: the next one may send already.
func TestNothingIsSentAgainAfterTheOperatorBeginsToStop(t *testing.T) {
	for range 8 { // without a check, it depends on chance
		var stopping chan struct{}
		n := &repeater{answerAgain: func(context.Context, int) error { <-stopping; return nil }}
		inRepeatingBubble(t, n, func(t *testing.T, store *outbox.Store, h *harness) {
			stopping = make(chan struct{})
			h.Configure(notify.Receiver{Key: ops, Notifier: n})
			var groups []string
			for i := range 250 {
				groups = append(groups, fmt.Sprintf("group-%03d", i))
			}
			h.happen(t, store, false, groups...)
			after(70 * time.Second)
			stopped := make(chan struct{})
			go func() { h.stop(); close(stopped) }()
			wait()
			close(stopping)
			<-stopped
			if got := len(n.repeated()); got != 1 {
				t.Errorf("%d requests, want the one in flight only", got)
			}
		})
	}
}

func TestOnlyTheReceiverThatExistsGetsMessagesAgain(t *testing.T) {
	n := &repeater{}
	inRepeatingBubble(t, n, func(t *testing.T, store *outbox.Store, h *harness) {
		h.happen(t, store, false, "a")
		h.Disable(ops)
		after(5 * time.Minute)
		h.Configure(notify.Receiver{Key: ops, Notifier: &fake{}})
		after(5 * time.Minute)
		if got := n.repeated(); len(got) > 0 {
			t.Errorf("%v was sent again", got)
		}
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		after(time.Minute)
		if got := n.repeated(); len(got) != 1 {
			t.Errorf("%v was sent again, want one message", got)
		}
	})
}

func TestAFailureToSendAgainIsForgottenWithItsMessages(t *testing.T) {
	n := &repeater{answerAgain: failAll}
	inRepeatingBubble(t, n, func(t *testing.T, store *outbox.Store, h *harness) {
		h.happen(t, store, false, "a")
		after(2 * time.Minute)
		if h.Failure(ops) == nil {
			t.Error("no failure is reported")
		}
		if err := store.Replay(t.Context(), outbox.Replay{Position: 1_000}); err != nil { // forgets all groups
			t.Fatal(err)
		}
		after(2 * time.Minute)
		if got := h.Failure(ops); got != nil {
			t.Errorf("the failure is %v", got)
		}
	})
}
