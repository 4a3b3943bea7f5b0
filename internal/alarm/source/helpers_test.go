package source

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/testing/eventstream"
)

// memory is a ledger that forgets nothing but what it is told to.
type memory struct {
	mu          sync.Mutex
	batches     []Batch
	position    uint64
	time        time.Time
	counts      map[string]Count
	occurrences []alarm.Occurrence
	resets      []string
}

func newMemory() *memory {
	return &memory{counts: map[string]Count{}}
}

func (m *memory) commit(_ context.Context, b Batch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.batches = append(m.batches, b)
	m.position, m.time = b.Position, b.Time
	m.occurrences = append(m.occurrences, b.Occurrences...)
	for _, c := range b.Counts {
		m.counts[c.UID] = c
	}
	for _, uid := range b.Forget {
		delete(m.counts, uid)
	}
	if b.Reset != nil {
		m.resets = append(m.resets, b.Reset.Reason)
	}
	return nil
}

// start resumes where the memory ends.
func (m *memory) start() Start {
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := slices.Collect(maps.Values(m.counts))
	return Start{Position: m.position, Time: m.time, CountsKnown: true, Counts: func(yield func(Count, error) bool) {
		for _, c := range counts {
			if !yield(c, nil) {
				return
			}
		}
	}}
}

// increases sums the occurrences of each Event by its name.
func (m *memory) increases() map[string]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	sums := map[string]int64{}
	for _, o := range m.occurrences {
		sums[o.Event.Name] += o.Increase
	}
	return sums
}

// countsKnown is what the last batch said of it.
func (m *memory) countsKnown() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.batches) > 0 && m.batches[len(m.batches)-1].CountsKnown
}

func (m *memory) at() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.position
}

// quick returns a feed that retries at once.
func quick(tb testing.TB, cfg *rest.Config) *Source {
	tb.Helper()
	f, err := New(cfg, clock.RealClock{}, logr.Discard())
	if err != nil {
		tb.Fatal(err)
	}
	f.backoff.Duration, f.backoff.Cap = time.Millisecond, 20*time.Millisecond
	f.earlyClose = time.Hour // however slow the machine is
	return f
}

// run runs the feed until the returned function, or the end of the test, stops it.
func run(tb testing.TB, f *Source, start Start, handle Handler) (stop func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx, start, handle) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			tb.Errorf("Run: %v", err)
		}
	})
	tb.Cleanup(stop)
	return stop
}

func eventually(tb testing.TB, f any) gomega.AsyncAssertion {
	tb.Helper()
	return gomega.NewWithT(tb).Eventually(f, "60s", "10ms")
}

// event is an Event of which only what matters is set: name n has UID(n).
func event(n int, position uint64, count int32) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name: nameOf(n), UID: eventstream.UID(n), ResourceVersion: formatPosition(position),
			CreationTimestamp: metav1.NewTime(eventstream.Epoch.Add(time.Duration(n) * time.Second)),
		},
		DeprecatedCount: count,
	}
}

func nameOf(n int) string { return "event-" + strconv.Itoa(n) }
