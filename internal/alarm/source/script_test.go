package source

import (
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/bongsu-io/bongsu/internal/testing/eventstream"
)

// script is what a stand-in for the API server does, watch after watch; the
// last one is repeated.
type script struct {
	list    eventstream.Lister
	watches []eventstream.Watcher

	mu   sync.Mutex
	seen []url.Values
}

// serve plays a script to which position is the current one.
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

// holds lists events as they stand at position.
func holds(position uint64, events ...*eventsv1.Event) eventstream.Lister {
	return func(url.Values) (*eventsv1.EventList, *apierrors.StatusError) {
		list := &eventsv1.EventList{ListMeta: metav1.ListMeta{ResourceVersion: formatPosition(position)}}
		for _, e := range events {
			list.Items = append(list.Items, *e)
		}
		return list, nil
	}
}

// brings sends entries and goes on with then.
func brings(then eventstream.Watcher, frames ...[]byte) eventstream.Watcher {
	return func(query url.Values, s *eventstream.Stream) {
		for _, f := range frames {
			s.Write(f)
		}
		then(query, s)
	}
}

func added(e *eventsv1.Event) []byte    { return eventstream.Frame(watch.Added, e) }
func modified(e *eventsv1.Event) []byte { return eventstream.Frame(watch.Modified, e) }
func deleted(e *eventsv1.Event) []byte  { return eventstream.Frame(watch.Deleted, e) }

// bookmark ends the initial Events of a streaming list.
func bookmark(position uint64, annotations map[string]string) []byte {
	return eventstream.Frame(watch.Bookmark, &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: formatPosition(position), Annotations: annotations,
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
