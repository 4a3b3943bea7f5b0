package notify_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// waiting returns the entries that wait for a receiver, as `bongsu-operator pending` reads them.
func waiting(t *testing.T, dir, receiver string) []outbox.WaitingEntry {
	t.Helper()
	view, err := outbox.Inspect(t.Context(), dir, 0, func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range view.Receivers {
		if r.Receiver == receiver {
			return r.Waiting
		}
	}
	return nil
}

func TestPendingEntriesShowTheLastErrorAndTheNextAttempt(t *testing.T) {
	inDirectory(t, func(t *testing.T, dir string, store *outbox.Store, h *harness) {
		long := strings.Repeat("봉", 1000)
		n := &fake{answer: answers(failure(notify.Retry, "first"), failure(notify.Stop, "the token is no longer valid"), failure(notify.Stop, long))}
		h.Configure(notify.Receiver{Key: "r", Notifier: n})
		h.submit(t, store, "r", 0, 1)
		wait()
		if w := waiting(t, dir, "r"); len(w) != 1 || w[0].Failure.Error != "first" {
			t.Fatalf("waiting: %+v", w)
		}
		for len(n.all()) < 2 {
			after(time.Second)
		}
		h.submit(t, store, "r", 1, 1)
		wait()
		w := waiting(t, dir, "r")
		if len(w) != 2 || w[0].Failure.Error != "the token is no longer valid" || w[1].Failure != (outbox.Failure{}) {
			t.Fatalf("waiting: %+v", w)
		}
		next := w[0].Failure.Next
		after(time.Until(next) - time.Second)
		if got := len(n.all()); got != 2 {
			t.Fatalf("%d attempts before the next one", got)
		}
		after(2 * time.Second)
		if got := n.all(); len(got) != 3 || got[2].At.Sub(next).Abs() > time.Second {
			t.Fatalf("attempts %+v, want the third at %s", got, next)
		}
		if w := waiting(t, dir, "r"); len(w[0].Failure.Error) > 256 || !strings.HasPrefix(long, strings.TrimSuffix(w[0].Failure.Error, "…")) {
			t.Errorf("the error has %d bytes: %s", len(w[0].Failure.Error), w[0].Failure.Error)
		}
		after(time.Hour)
		if w := waiting(t, dir, "r"); len(w) > 0 || len(n.all()) < 4 {
			t.Errorf("%d attempts, waiting: %+v", len(n.all()), w)
		}
	})
}
