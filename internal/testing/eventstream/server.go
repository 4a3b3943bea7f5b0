// Package eventstream is an in-process server for the part of the API that serves Events.
// It speaks the protobuf of lists and watches, and misbehaves as a test demands. It keeps
// no state and knows no semantics: where these matter, use a real API server.
package eventstream

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Lister answers a list. If the list is nil, the error is sent as a Status.
type Lister func(query url.Values) (*eventsv1.EventList, *apierrors.StatusError)

// Watcher answers a watch; the stream ends when it returns.
type Watcher func(query url.Values, s *Stream)

// New starts a server on the loopback interface and returns the configuration of a client.
// The server stops with the test.
func New(tb testing.TB, list Lister, watch Watcher) *rest.Config {
	tb.Helper()
	server := httptest.NewServer(handler(list, watch))
	tb.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return &rest.Config{Host: server.URL}
}

func handler(list Lister, watch Watcher) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		if query.Get("watch") != "" {
			watch(query, &Stream{writer: w, request: r})
			return
		}
		if l, err := list(query); err != nil {
			reply(w, int(err.ErrStatus.Code), &err.ErrStatus)
		} else {
			reply(w, http.StatusOK, l)
		}
	})
}

// Empty returns a Lister without Events at this resourceVersion.
func Empty(version string) Lister {
	return func(url.Values) (*eventsv1.EventList, *apierrors.StatusError) {
		return &eventsv1.EventList{ListMeta: metav1.ListMeta{ResourceVersion: version}}, nil
	}
}

// Stream is one watch.
type Stream struct {
	writer  http.ResponseWriter
	request *http.Request
}

// Send sends an entry of the watch and flushes it.
func (s *Stream) Send(kind watch.EventType, object runtime.Object) {
	s.Write(Frame(kind, object))
}

// Write sends bytes, which need not be a valid entry.
func (s *Stream) Write(raw []byte) {
	s.writer.Header().Set("Content-Type", runtime.ContentTypeProtobuf+";stream=watch")
	// An error means that the client has disconnected; Wait then returns.
	_, _ = s.writer.Write(raw)
	s.writer.(http.Flusher).Flush()
}

// Fail sends an error instead of a stream.
func (s *Stream) Fail(err *apierrors.StatusError) {
	reply(s.writer, int(err.ErrStatus.Code), &err.ErrStatus)
}

// Header returns the response header. It can be changed before the first write.
func (s *Stream) Header() http.Header {
	return s.writer.Header()
}

// Abort breaks the connection.
func (s *Stream) Abort() {
	panic(http.ErrAbortHandler)
}

// Wait keeps the stream open until the client disconnects.
func (s *Stream) Wait() {
	s.Write(nil)
	<-s.Done()
}

// Done is closed when the client disconnects.
func (s *Stream) Done() <-chan struct{} {
	return s.request.Context().Done()
}

func reply(w http.ResponseWriter, code int, object runtime.Object) {
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
	w.WriteHeader(code)
	// An error means that the client has disconnected.
	_, _ = w.Write(Encode(object))
}

// Frame encodes an entry of a watch.
func Frame(kind watch.EventType, object runtime.Object) []byte {
	entry := metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: Encode(object)}}
	body, err := entry.Marshal()
	if err != nil {
		panic(err) // a mistake in the test
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// Encode encodes an object as protobuf, as the API server does.
func Encode(object runtime.Object) []byte {
	version := eventsv1.SchemeGroupVersion
	if _, ok := object.(*metav1.Status); ok {
		version = schema.GroupVersion{Version: "v1"}
	}
	var out bytes.Buffer
	codec := scheme.Codecs.EncoderForVersion(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), version)
	if err := codec.Encode(object, &out); err != nil {
		panic(err) // a mistake in the test
	}
	return out.Bytes()
}

// Epoch is the time of Event(0).
var Epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// First is the resourceVersion of Event(0).
const First = 1000

// fields are the managedFields that the API server stores for an Event of a kubelet.
const fields = `{"f:count":{},"f:firstTimestamp":{},"f:involvedObject":{},"f:lastTimestamp":{},"f:message":{},"f:reason":{},"f:reportingComponent":{},"f:reportingInstance":{},"f:source":{"f:component":{},"f:host":{}},"f:type":{}}`

var reasons = [...]string{"Scheduled", "Pulled", "Created", "Started", "Killing", "BackOff", "Unhealthy", "FailedMount"}

// Event returns the n-th of a series of Events as kubelets send them, each for another
// pod. Its resourceVersion is First+n.
func Event(n int) *eventsv1.Event {
	at := metav1.NewTime(Epoch.Add(time.Duration(n) * 10 * time.Millisecond).Truncate(time.Second))
	pod := fmt.Sprintf("web-%05d-7d4b9c6f5d-x2x8q", n)
	namespace := "team-" + strconv.Itoa(n%100)
	host := "node-" + strconv.Itoa(n%50)
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         namespace,
			Name:              fmt.Sprintf("%s.%016x", pod, n),
			UID:               UID(n),
			ResourceVersion:   strconv.Itoa(First + n),
			CreationTimestamp: at,
			ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1",
				Time: &at, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
			}},
		},
		Type:                corev1.EventTypeNormal,
		Reason:              reasons[n%len(reasons)],
		Note:                fmt.Sprintf("Back-off restarting failed container web in pod %s_%s(%s)", pod, namespace, UID(n)),
		ReportingController: "kubelet",
		ReportingInstance:   host,
		Regarding: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: pod, UID: UID(n + 1<<20),
			ResourceVersion: strconv.Itoa(First + n - 1), FieldPath: "spec.containers{web}",
		},
		DeprecatedSource:         corev1.EventSource{Component: "kubelet", Host: host},
		DeprecatedFirstTimestamp: at,
		DeprecatedLastTimestamp:  at,
		DeprecatedCount:          1,
	}
}

// UID returns the n-th UID.
func UID(n int) types.UID {
	return types.UID(fmt.Sprintf("%08x-5bd1-4e3a-9c64-0123456789ab", n))
}

// Added encodes a watch that adds the first n Events.
func Added(n int) []byte {
	var out bytes.Buffer
	for i := range n {
		out.Write(Frame(watch.Added, Event(i)))
	}
	return out.Bytes()
}
