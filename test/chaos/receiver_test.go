package chaos

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/testing/progress"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

// receiver is a sink that remembers what it has read already: polling it is cheap.
type receiver struct {
	*sink.Sink
	name string
	key  string     // of its object
	read [][]string // by request
}

func newReceiver(t *testing.T, name string) *receiver {
	t.Helper()
	return &receiver{Sink: sink.New(t), name: name}
}

// identify says which Events a request tells of: by their notes, which are unique.
func identify(request sink.Request) []string {
	var m message.Message
	if json.Unmarshal(request.Body, &m) != nil {
		return []string{"what cannot be read"}
	}
	var notes []string
	for _, e := range m.Events {
		notes = append(notes, e.Note)
	}
	return notes
}

// receipts are the times at which each Event came and was accepted.
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

// missing is how many of the expected were not accepted so far.
func (r *receiver) missing(expected []string) int {
	receipts, missing := r.receipts(), 0
	for _, id := range expected {
		if len(receipts[id]) == 0 {
			missing++
		}
	}
	return missing
}

// awaitMore returns when so many more requests have come.
func (r *receiver) awaitMore(t *testing.T, n int) {
	t.Helper()
	have := len(r.Requests())
	for want := have + n; have < want; have = len(r.Requests()) {
		if !r.Wait(patience, func(requests []sink.Request) bool { return len(requests) > have }) {
			t.Fatalf("receiver %s got %d requests and then none for %v, want %d", r.name, have, patience, want)
		}
	}
}

// awaitFresh returns when it has accepted so many Events that it did not know.
func (r *receiver) awaitFresh(t *testing.T, n int) {
	t.Helper()
	want := len(r.receipts()) + n
	if err := progress.UntilNoneIsLeft(patience, func() int { return want - len(r.receipts()) }); err != nil {
		t.Fatalf("fresh at receiver %s: %v", r.name, err)
	}
}

// repetition is an Event that came more than once: at first, and then again.
type repetition struct {
	id           string
	first, again time.Time
}

func (r repetition) String() string { return fmt.Sprintf("%s at %v and %v", r.id, r.first, r.again) }

func (r *receiver) repetitions() []repetition {
	var all []repetition
	for id, times := range r.receipts() {
		for i := 1; i < len(times); i++ {
			all = append(all, repetition{id: id, first: times[i-1], again: times[i]})
		}
	}
	return all
}

// unexplained are the repetitions that are left when each kill has explained one.
func unexplained(again []repetition, kills []kill) []repetition {
	// Kills in their order, and what came again soonest first: no later kill can
	// explain it.
	slices.SortFunc(again, func(a, b repetition) int { return a.again.Compare(b.again) })
	for _, k := range kills {
		if i := slices.IndexFunc(again, k.between); i >= 0 {
			again = slices.Delete(again, i, i+1)
		}
	}
	return again
}

// between says whether an Event came both before a kill and after it.
func (k kill) between(again repetition) bool {
	return !again.first.After(k.gone) && again.again.After(k.begun)
}

// explains says whether an Event at a position may come again because of a kill
// that costs the ledger: it came before, and the mirror did not know that.
func (k kill) explains(again repetition, receiver string, position uint64) bool {
	served, behind := k.mirror.Behind[receiver]
	if !behind {
		served = k.mirror.Position
	}
	return k.between(again) && position > served
}
