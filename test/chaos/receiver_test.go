package chaos

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/testing/progress"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

// receiver is a sink that remembers what it has read already: polling it is cheap.
type receiver struct {
	*sink.Sink
	name string
	read [][]string // by request
}

func newReceiver(t *testing.T, name string) *receiver {
	t.Helper()
	return &receiver{Sink: sink.New(t), name: name}
}

// identify says which Events a request tells of: by their notes, which are unique.
func identify(request sink.Request) []string {
	var m alarm.Message
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

// repetition is an Event that came twice: at first, and then once more.
type repetition struct {
	id           string
	first, again time.Time
}

func (r *receiver) repetitions() []repetition {
	var all []repetition
	for id, times := range r.receipts() {
		for i := 1; i < len(times); i++ {
			all = append(all, repetition{id: id, first: times[i-1], again: times[i]})
		}
	}
	return all
}

// underWay is how long after a kill a request may still be read from its connection.
const underWay = 500 * time.Millisecond

// beforeKill says how long before a kill it had come for the first time, if there
// was one that explains that it came again.
func (r repetition) beforeKill(kills []time.Time) (since time.Duration, killed bool) {
	for _, kill := range kills {
		if kill.Add(underWay).After(r.first) && kill.Before(r.again) {
			return kill.Sub(r.first), true
		}
	}
	return 0, false
}
