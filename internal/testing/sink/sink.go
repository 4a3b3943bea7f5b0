// Package sink is an HTTP server that stands in for Slack or a webhook in tests:
// it records what it is sent and fails in the ways that real servers do, when told
// to. It runs on the loopback interface, unless told otherwise, on a port that was free.
package sink

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
)

// maxBody bounds what is kept of a request.
const maxBody = 4 << 20

// Request is what the sink was sent.
type Request struct {
	// Key is the Idempotency-Key.
	Key string
	// Path of the URL.
	Path   string
	Header http.Header
	Body   []byte
	// Accepted says that a 2xx was answered.
	Accepted bool
	// Received is when.
	Received time.Time
}

// Sink is the server. Its methods are safe for concurrent use.
type Sink struct {
	server  *httptest.Server
	closing chan struct{}

	mu       sync.Mutex
	requests []Request
	script   []Behaviour
	always   Behaviour
	arrived  chan struct{} // closed and replaced when a request arrives or is answered
	accepted int
	clients  map[net.Conn]int // connections that are open, in the order of their coming
}

// Start starts a Sink that accepts everything. Close it.
func Start() *Sink {
	s := unstarted()
	s.server.Start()
	return s
}

func unstarted() *Sink {
	s := &Sink{closing: make(chan struct{}), always: Accept(), arrived: make(chan struct{}), clients: map[net.Conn]int{}}
	s.server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.server.Config.ConnState = s.count
	return s
}

// NewAt is New at another address of this machine, for senders to whom loopback is not
// this process.
func NewAt(t testing.TB, ip string) *Sink {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		t.Fatal(err)
	}
	s := unstarted()
	_ = s.server.Listener.Close() // that on loopback
	s.server.Listener = listener
	s.server.Start()
	t.Cleanup(s.Close)
	return s
}

// New is Start for the time of a test.
func New(t testing.TB) *Sink {
	s := Start()
	t.Cleanup(s.Close)
	return s
}

// Close lets go of whoever hangs and stops the server.
func (s *Sink) Close() {
	close(s.closing)
	s.server.CloseClientConnections()
	s.server.Close()
}

// URL of the server, with a path as secret ones have it.
func (s *Sink) URL() string { return s.server.URL + "/services/T0/B0/secret" }

// Always sets how all requests are answered that no script is left for.
func (s *Sink) Always(b Behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.always = b
}

// Script says how the next requests are answered, one after the other, before
// what Always says. It adds to what is left of former scripts.
func (s *Sink) Script(behaviours ...Behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = append(s.script, behaviours...)
}

// Requests returns all requests so far, in the order of their arrival.
func (s *Sink) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Accepted returns the requests that were answered 2xx.
func (s *Sink) Accepted() []Request {
	return slices.DeleteFunc(s.Requests(), func(r Request) bool { return !r.Accepted })
}

// Wait blocks until condition holds of the requests so far, and reports whether
// it did before the time was over.
func (s *Sink) Wait(atMost time.Duration, condition func([]Request) bool) bool {
	over := time.After(atMost)
	for {
		s.mu.Lock()
		requests, arrived := slices.Clone(s.requests), s.arrived
		s.mu.Unlock()
		if condition(requests) {
			return true
		}
		select {
		case <-arrived:
		case <-over:
			return false
		}
	}
}

// AwaitHangUp blocks until the clients that are connected now have hung up and all
// that they sent is recorded, and reports whether that was before the time was over.
func (s *Sink) AwaitHangUp(atMost time.Duration) bool {
	// Connections are accepted in their order: when this one is, all others are known.
	probe, err := net.Dial("tcp", s.server.Listener.Addr().String())
	if err != nil {
		return false
	}
	defer func() { _ = probe.Close() }()
	over := time.Now().Add(atMost)
	for ; time.Now().Before(over); time.Sleep(time.Millisecond) {
		if s.isFirst(probe.LocalAddr().String()) {
			return true
		}
	}
	return false
}

// isFirst says whether a client was accepted and no other from before it is left.
func (s *Sink) isFirst(address string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, at := "", 0
	for conn, n := range s.clients {
		if at == 0 || n < at {
			first, at = conn.RemoteAddr().String(), n
		}
	}
	return first == address
}

// count implements http.Server.ConnState.
func (s *Sink) count(conn net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		s.accepted++
		s.clients[conn] = s.accepted
	case http.StateClosed, http.StateHijacked:
		delete(s.clients, conn)
	default: // still open
	}
}

func (s *Sink) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return // the client went away
	}
	index, behaviour := s.record(Request{
		Key:      r.Header.Get("Idempotency-Key"),
		Path:     r.URL.Path,
		Header:   r.Header.Clone(),
		Body:     body,
		Received: time.Now(), // the wall clock on purpose: latency is measured by it
	})
	behaviour(answer{ResponseWriter: w, request: r, body: body, sink: s, index: index})
}

func (s *Sink) record(r Request) (index int, b Behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
	s.announce()
	b = s.always
	if len(s.script) > 0 {
		b, s.script = s.script[0], s.script[1:]
	}
	return len(s.requests) - 1, b
}

func (s *Sink) accept(index int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[index].Accepted = true
	s.announce()
}

// announce wakes those who wait. s.mu is held.
func (s *Sink) announce() {
	close(s.arrived)
	s.arrived = make(chan struct{})
}

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
