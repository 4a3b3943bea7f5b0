package pipeline

import (
	"context"
	"maps"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
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
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
	"github.com/bongsu-io/bongsu/internal/testing/eventstream"
)

// A new leader without the disk of the last one knows no counts. The API server no longer
// has the position of the checkpoint.
func TestAnOldEventThatRoseByOneIsOneOccurrenceAfterFailover(t *testing.T) {
	var compacted atomic.Bool
	expired := apierrors.NewResourceExpired("too old resource version")
	list := func(query url.Values) (*eventsv1.EventList, *apierrors.StatusError) {
		switch {
		case !compacted.Load():
			return &eventsv1.EventList{ListMeta: metav1.ListMeta{ResourceVersion: "20"}, Items: []eventsv1.Event{*counted("old", 1, 7, 500)}}, nil
		case query.Get("resourceVersion") != "":
			return nil, expired
		default:
			return &eventsv1.EventList{ListMeta: metav1.ListMeta{ResourceVersion: "40"}}, nil
		}
	}
	watched := func(query url.Values, s *eventstream.Stream) {
		switch {
		case compacted.Load() && query.Get("sendInitialEvents") == "":
			s.Send(watch.Error, &expired.ErrStatus)
			return
		case compacted.Load():
			s.Send(watch.Added, counted("old", 1, 31, 501))
			s.Send(watch.Added, counted("new", 2, 32, 3))
			s.Send(watch.Bookmark, &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{
				ResourceVersion: "40", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
			}})
		}
		s.Wait()
	}
	cfg := eventstream.New(t, list, watched)
	m := &memoryCheckpoint{}
	store, stop, _ := leadAt(t, cfg, m)
	g := gomega.NewWithT(t)
	g.Eventually(func() bool { return store.State().CountsKnown }, "30s").Should(gomega.BeTrue())
	stop()

	compacted.Store(true)
	_, stop, increases := leadAt(t, cfg, m)
	defer stop()
	g.Eventually(increases, "30s").Should(gomega.Equal(map[string]int64{"old": 1, "new": 3}))
}

// counted returns an Event that was created in the given minute.
func counted(name string, minute, position int, count int32) *eventsv1.Event {
	e := eventstream.Event(minute)
	e.Name, e.ResourceVersion, e.DeprecatedCount = name, strconv.Itoa(position), count
	e.CreationTimestamp = metav1.NewTime(eventstream.Epoch.Add(time.Duration(minute) * time.Minute))
	return e
}

// leadAt starts a leader with an empty outbox. increases returns the occurrences that it has
// read, by Event.
func leadAt(t *testing.T, cfg *rest.Config, m *memoryCheckpoint) (store *outbox.Store, stop func(), increases func() map[string]int64) {
	t.Helper()
	store, err := outbox.Open(t.Context(), t.TempDir())
	must(t, err)
	events, err := source.New(cfg, clock.RealClock{}, logr.Discard())
	must(t, err)
	var mu sync.Mutex
	sums := map[string]int64{}
	// The first Event is a minute old.
	begun := clocktesting.NewFakeClock(eventstream.Epoch.Add(time.Minute + source.ClockDifference))
	p := New(Config{
		ClusterUID: "cluster", Source: events, Outbox: store, Checkpoint: m, Dispatcher: noop{}, Alarms: NewAlarms(),
		Enricher: noop{}, Reporter: noop{}, Clock: begun, Log: logr.Discard(),
		LoadAlarms: func(context.Context) error { return nil },
		Observe: func(_ context.Context, occurrences []alarm.Occurrence) {
			mu.Lock()
			defer mu.Unlock()
			for i := range occurrences {
				sums[occurrences[i].Event.Name] += occurrences[i].Increase
			}
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		must(t, <-ended)
		must(t, store.Close())
	})
	return store, stop, func() map[string]int64 {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(sums)
	}
}
