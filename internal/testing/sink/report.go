package sink

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
)

// Report says what of that which was to be delivered was.
type Report struct {
	// Delivered is how many different ones were accepted.
	Delivered int
	// Duplicates were accepted more than once: how often beyond the first.
	Duplicates map[string]int
	// Lost were expected and never accepted.
	Lost []string
	// Unexpected were accepted and not expected.
	Unexpected []string
}

// String is a line for a test's log.
func (r Report) String() string {
	return fmt.Sprintf("%d delivered, %d lost, %d duplicates, %d unexpected",
		r.Delivered, len(r.Lost), r.DuplicateCount(), len(r.Unexpected))
}

// DuplicateCount is how many deliveries were one too many.
func (r Report) DuplicateCount() int {
	count := 0
	for _, n := range r.Duplicates {
		count += n
	}
	return count
}

// Audit counts the accepted requests by what identify finds in each, and compares
// with what was expected.
func (s *Sink) Audit(expected []string, identify func(Request) []string) Report {
	count := map[string]int{}
	for _, r := range s.Accepted() {
		for _, id := range identify(r) {
			count[id]++
		}
	}
	return compare(expected, count)
}

func compare(expected []string, count map[string]int) Report {
	report := Report{Delivered: len(count), Duplicates: map[string]int{}}
	wanted := map[string]bool{}
	for _, id := range expected {
		wanted[id] = true
		if count[id] == 0 {
			report.Lost = append(report.Lost, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(count)) {
		if count[id] > 1 {
			report.Duplicates[id] = count[id] - 1
		}
		if !wanted[id] {
			report.Unexpected = append(report.Unexpected, id)
		}
	}
	return report
}

// ByKey identifies a request by its Idempotency-Key.
func ByKey(r Request) []string { return []string{r.Key} }

// ByEvent identifies a webhook's request by its Events: "namespace/name reason" of
// the object that each regards. Those that a digest does not list are not found.
func ByEvent(r Request) []string {
	var m message.Message
	if json.Unmarshal(r.Body, &m) != nil {
		return nil
	}
	var ids []string
	for _, e := range m.Events {
		ids = append(ids, fmt.Sprintf("%s/%s %s", e.Regarding.Namespace, e.Regarding.Name, e.Reason))
	}
	return ids
}
