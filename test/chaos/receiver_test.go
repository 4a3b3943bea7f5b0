package chaos

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/testing/progress"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

// receiver is a sink that decodes each request only once, so that polling is cheap.
type receiver struct {
	*sink.Sink
	name string
	key  string     // key of its object
	read [][]string // notes of each decoded request
}

func newReceiver(t *testing.T, name string) *receiver {
	t.Helper()
	return &receiver{Sink: sink.New(t), name: name}
}

// identify returns the notes of the Events in a request. Notes are unique.
func identify(request sink.Request) []string {
	messages := sink.Messages(request)
	if len(messages) == 0 {
		return []string{"undecodable request"}
	}
	var notes []string
	for _, m := range messages {
		for _, e := range m.Events {
			notes = append(notes, e.Note)
		}
	}
	return notes
}

// receipts returns the times at which each Event was accepted.
func (r *receiver) receipts() map[string][]time.Time {
	requests := r.Requests()
	for _, request := range requests[len(r.read):] {
		r.read = append(r.read, identify(request))
	}
	receipts := map[string][]time.Time{}
	for i, ids := range r.read {
		for _, id := range ids {
			if requests[i].Accepted {
				receipts[id] = append(receipts[id], requests[i].Received)
			}
		}
	}
	return receipts
}

// missing returns the number of expected Events that were not accepted yet.
func (r *receiver) missing(expected []string) int {
	receipts, missing := r.receipts(), 0
	for _, id := range expected {
		if len(receipts[id]) == 0 {
			missing++
		}
	}
	return missing
}

// awaitMore waits for n more requests.
func (r *receiver) awaitMore(t *testing.T, n int) {
	t.Helper()
	have := len(r.Requests())
	for want := have + n; have < want; have = len(r.Requests()) {
		if !r.Wait(patience, func(requests []sink.Request) bool { return len(requests) > have }) {
			t.Fatalf("receiver %s got %d requests and no other for %v, want %d", r.name, have, patience, want)
		}
	}
}

// awaitNew waits until n more different Events are accepted.
func (r *receiver) awaitNew(t *testing.T, n int) {
	t.Helper()
	want := len(r.receipts()) + n
	if err := progress.UntilNoneIsLeft(patience, func() int { return want - len(r.receipts()) }); err != nil {
		t.Fatalf("receiver %s did not accept %d new Events: %v", r.name, n, err)
	}
}

// repetition is an Event that was accepted twice in a row, and the times.
type repetition struct {
	id           string
	first, again time.Time
}

func (r repetition) String() string { return fmt.Sprintf("%s at %v and %v", r.id, r.first, r.again) }

// repetitions returns the repetitions. Events that came together in two batches are one.
func (r *receiver) repetitions() []repetition {
	type requests struct{ first, again time.Time }
	all := map[requests]repetition{}
	for id, times := range r.receipts() {
		for i := 1; i < len(times); i++ {
			both := requests{first: times[i-1], again: times[i]}
			all[both] = repetition{id: id, first: both.first, again: both.again}
		}
	}
	return slices.Collect(maps.Values(all))
}

// unexplained returns the repetitions that remain if each kill explains one.
func unexplained(again []repetition, kills []kill) []repetition {
	// Kills are in order. Each explains the earliest repetition, because a later kill cannot.
	slices.SortFunc(again, func(a, b repetition) int { return a.again.Compare(b.again) })
	for _, k := range kills {
		if i := slices.IndexFunc(again, k.between); i >= 0 {
			again = slices.Delete(again, i, i+1)
		}
	}
	return again
}

// between reports whether an Event was accepted before a kill and again after it.
func (k kill) between(again repetition) bool {
	return !again.first.After(k.gone) && again.again.After(k.begun)
}

// explains reports whether a kill with the loss of the outbox may repeat an Event at this
// position. It was accepted before the kill, and the checkpoint did not contain that.
func (k kill) explains(again repetition, receiver string, position uint64) bool {
	delivered := k.checkpoint.Position
	for id, offset := range k.checkpoint.Behind {
		if alarm.ReceiverKey(id) == receiver {
			delivered = offset
		}
	}
	return k.between(again) && position > delivered
}
