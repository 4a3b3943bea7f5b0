package source

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/apiwatch"
	"github.com/bongsu-io/bongsu/internal/testing/eventstream"
)

// memory is an outbox in memory that records every batch.
type memory struct {
	mu          sync.Mutex
	batches     []Batch
	position    uint64
	time        time.Time
	counts      map[string]alarm.EventCount
	occurrences []alarm.Occurrence
	resets      []string
}

func newMemory() *memory {
	return &memory{counts: map[string]alarm.EventCount{}}
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

// start resumes after the last batch.
func (m *memory) start() Start {
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := slices.Collect(maps.Values(m.counts))
	return Start{Position: m.position, Time: m.time, CountsKnown: true, Counts: func(yield func(alarm.EventCount, error) bool) {
		for _, c := range counts {
			if !yield(c, nil) {
				return
			}
		}
	}}
}

// increases returns the sum of the occurrences of each Event, by name.
func (m *memory) increases() map[string]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	sums := map[string]int64{}
	for _, o := range m.occurrences {
		sums[o.Event.Name] += o.Increase
	}
	return sums
}

// countsKnown returns the CountsKnown of the last batch.
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

// quick returns a source that retries at once.
func quick(tb testing.TB, cfg *rest.Config) *Source {
	tb.Helper()
	source, err := New(cfg, clock.RealClock{}, logr.Discard())
	if err != nil {
		tb.Fatal(err)
	}
	source.backoff.Duration, source.backoff.Cap = time.Millisecond, 20*time.Millisecond
	source.earlyClose = time.Hour // even on a slow machine
	return source
}

// run runs the source until the returned function is called, or until the test ends.
func run(tb testing.TB, source *Source, start Start, handle Handler) (stop func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- source.Run(ctx, start, handle) }()
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

// event returns an Event with only the fields that matter. Event n has the UID UID(n).
func event(n int, position uint64, count int32) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name: nameOf(n), UID: eventstream.UID(n), ResourceVersion: apiwatch.FormatPosition(position),
			CreationTimestamp: metav1.NewTime(eventstream.Epoch.Add(time.Duration(n) * time.Second)),
		},
		DeprecatedCount: count,
	}
}

func nameOf(n int) string { return "event-" + strconv.Itoa(n) }

// script is the behavior of a fake API server for each watch. The last one is repeated.
type script struct {
	list    eventstream.Lister
	watches []eventstream.Watcher

	mu   sync.Mutex
	seen []url.Values
}

// serve runs a script. position is the current position of the server.
func serve(tb testing.TB, position uint64, watches ...eventstream.Watcher) (*script, *rest.Config) {
	tb.Helper()
	return serveList(tb, holds(position), watches...)
}

func serveList(tb testing.TB, list eventstream.Lister, watches ...eventstream.Watcher) (*script, *rest.Config) {
	tb.Helper()
	s := &script{list: list, watches: watches}
	return s, eventstream.New(tb, list, s.watch)
}

func (s *script) watch(query url.Values, stream *eventstream.Stream) {
	s.mu.Lock()
	next := s.watches[min(len(s.seen), len(s.watches)-1)]
	s.seen = append(s.seen, query)
	s.mu.Unlock()
	next(query, stream)
}

// asked returns the queries of the watches so far.
func (s *script) asked() []url.Values {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// holds lists events as of a position.
func holds(position uint64, events ...*eventsv1.Event) eventstream.Lister {
	return func(url.Values) (*eventsv1.EventList, *apierrors.StatusError) {
		list := &eventsv1.EventList{ListMeta: metav1.ListMeta{ResourceVersion: apiwatch.FormatPosition(position)}}
		for _, e := range events {
			list.Items = append(list.Items, *e)
		}
		return list, nil
	}
}

// brings sends entries and continues with then.
func brings(then eventstream.Watcher, frames ...[]byte) eventstream.Watcher {
	return func(query url.Values, s *eventstream.Stream) {
		for _, f := range frames {
			s.Write(f)
		}
		then(query, s)
	}
}

func added(e *eventsv1.Event) []byte { return eventstream.Frame(watch.Added, e) }

func modified(e *eventsv1.Event) []byte { return eventstream.Frame(watch.Modified, e) }

func deleted(e *eventsv1.Event) []byte { return eventstream.Frame(watch.Deleted, e) }

// bookmark ends the initial Events of a streaming list.
func bookmark(position uint64, annotations map[string]string) []byte {
	return eventstream.Frame(watch.Bookmark, &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: apiwatch.FormatPosition(position), Annotations: annotations,
	}})
}

func listEnd(position uint64) []byte {
	return bookmark(position, map[string]string{metav1.InitialEventsAnnotationKey: "true"})
}

// The ways in which a watch may go on.
var (
	stays  eventstream.Watcher = func(_ url.Values, s *eventstream.Stream) { s.Wait() }
	closes eventstream.Watcher = func(_ url.Values, s *eventstream.Stream) { s.Write(nil) }
	aborts eventstream.Watcher = func(_ url.Values, s *eventstream.Stream) { s.Abort() }
)

// fails answers with an error instead of a stream.
func fails(err *apierrors.StatusError) eventstream.Watcher {
	return func(_ url.Values, s *eventstream.Stream) {
		if after := apierrors.IsTooManyRequests(err); after {
			s.Header().Set("Retry-After", strconv.Itoa(int(err.ErrStatus.Details.RetryAfterSeconds)))
		}
		s.Fail(err)
	}
}

// status sends an error within the stream, which then ends.
func status(err *apierrors.StatusError) eventstream.Watcher {
	return brings(closes, eventstream.Frame(watch.Error, &err.ErrStatus))
}

var (
	expired  = apierrors.NewResourceExpired("too old resource version")
	internal = &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: "etcd event received with PrevKv=nil",
	}}
	errNoStreamingList = apierrors.NewInvalid(eventsv1.SchemeGroupVersion.WithKind("Event").GroupKind(), "", nil)
)
