// Package sink is an HTTP server for tests that stands in for Slack or a webhook. It
// records requests and can fail in the ways of real servers. By default it listens on a
// free port of the loopback interface.
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

// maxBody is the limit for the recorded body of a request, in bytes.
const maxBody = 4 << 20

// Request is a request to the sink.
type Request struct {
	// Key is the value of the Idempotency-Key header.
	Key    string
	Method string
	// Path of the URL.
	Path   string
	Header http.Header
	Body   []byte
	// Accepted reports whether the answer was a 2xx.
	Accepted bool
	// Received is the time of arrival.
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
	clients  map[net.Conn]int // open connections, numbered in order of their arrival
}

// Start starts a Sink that accepts everything. The caller must close it.
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

// NewAt is New at another address of this machine, for senders whose loopback interface is
// a different one.
func NewAt(t testing.TB, ip string) *Sink {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		t.Fatal(err)
	}
	s := unstarted()
	_ = s.server.Listener.Close() // of the loopback interface
	s.server.Listener = listener
	s.server.Start()
	t.Cleanup(s.Close)
	return s
}

// New starts a Sink that is closed when the test ends.
func New(t testing.TB) *Sink {
	s := Start()
	t.Cleanup(s.Close)
	return s
}

// Close aborts open requests and stops the server.
func (s *Sink) Close() {
	close(s.closing)
	s.server.CloseClientConnections()
	s.server.Close()
}

// URL returns the URL of the server. Its path looks like a secret one.
func (s *Sink) URL() string { return s.server.URL + "/services/T0/B0/secret" }

// Always sets the answer to all requests after the script.
func (s *Sink) Always(b Behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.always = b
}

// Script adds the answers to the next requests, one for each. They come before the answer
// of Always, and after the rest of earlier scripts.
func (s *Sink) Script(behaviours ...Behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = append(s.script, behaviours...)
}

// Requests returns all requests so far, in order of arrival.
func (s *Sink) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Accepted returns the requests whose answer was a 2xx.
func (s *Sink) Accepted() []Request {
	return slices.DeleteFunc(s.Requests(), func(r Request) bool { return !r.Accepted })
}

// Wait waits until condition is true of the requests so far. It returns false after the
// time limit.
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

// AwaitHangUp waits until all present clients have disconnected and their requests are
// recorded. It returns false after the time limit.
func (s *Sink) AwaitHangUp(atMost time.Duration) bool {
	// Connections are accepted in order: with this one, all earlier ones are known.
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

// isFirst reports whether a client is connected and no earlier one is left.
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
		return // the client disconnected
	}
	index, behaviour := s.record(Request{
		Key:    r.Header.Get("Idempotency-Key"),
		Method: r.Method, Path: r.URL.Path,
		Header:   r.Header.Clone(),
		Body:     body,
		Received: time.Now(), // the wall clock, because latency is measured with it
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

// announce wakes the callers of Wait. The caller holds s.mu.
func (s *Sink) announce() {
	close(s.arrived)
	s.arrived = make(chan struct{})
}

// Report compares accepted with expected deliveries.
type Report struct {
	// Delivered is the number of different deliveries that were accepted.
	Delivered int
	// Duplicates is the number of repetitions of each delivery that was accepted repeatedly.
	Duplicates map[string]int
	// Lost are the deliveries that were expected and never accepted.
	Lost []string
	// Unexpected are the deliveries that were accepted but not expected.
	Unexpected []string
}

// String returns one line for the log of a test.
func (r Report) String() string {
	return fmt.Sprintf("%d delivered, %d lost, %d duplicates, %d unexpected",
		r.Delivered, len(r.Lost), r.DuplicateCount(), len(r.Unexpected))
}

// DuplicateCount returns the number of all repetitions.
func (r Report) DuplicateCount() int {
	count := 0
	for _, n := range r.Duplicates {
		count += n
	}
	return count
}

// Audit compares the accepted requests with the expected deliveries. identify returns the
// deliveries in a request.
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

// ByKey identifies a delivery by its Idempotency-Key.
func ByKey(r Request) []string { return []string{r.Key} }

// ByEvent identifies deliveries of a webhook by their Events, as "NAMESPACE/NAME REASON" of
// the regarding object. It does not see Events that a digest only counts.
func ByEvent(r Request) []string {
	var ids []string
	for _, m := range Messages(r) {
		for _, e := range m.Events {
			ids = append(ids, fmt.Sprintf("%s/%s %s", e.Regarding.Namespace, e.Regarding.Name, e.Reason))
		}
	}
	return ids
}

// Messages returns the messages of a request to a webhook: one, or those of a batch.
func Messages(r Request) []message.Message {
	var m message.Message
	if json.Unmarshal(r.Body, &m) == nil {
		return []message.Message{m}
	}
	var all []message.Message
	for _, e := range Batch(r) {
		all = append(all, e.Data)
	}
	return all
}

// CloudEvent is a part of a CloudEvent of a batch.
type CloudEvent struct {
	ID   string          `json:"id"`
	Data message.Message `json:"data"`
}

// Batch returns the CloudEvents of a request in batched mode, nil if it is in another mode.
func Batch(r Request) (all []CloudEvent) {
	if json.Unmarshal(r.Body, &all) != nil {
		return nil
	}
	return all
}

// ByID identifies the deliveries in a request in batched mode by the IDs of the CloudEvents.
func ByID(r Request) (ids []string) {
	for _, e := range Batch(r) {
		ids = append(ids, e.ID)
	}
	return ids
}
