// Package jupyterserver is a Jupyter server for tests. It serves /api/status, /api/kernels
// and /api/terminals, as jupyter_server 2 does. Like the real server, it counts some
// requests as activity.
package jupyterserver

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// Kernel is a running kernel.
type Kernel struct {
	State        string
	LastActivity time.Time
}

// State is the activity that the server reports.
type State struct {
	LastActivity time.Time
	Kernels      []Kernel
	// Terminals contains the time of the last activity of each terminal.
	Terminals []time.Time
	// NoTerminals disables terminals.
	NoTerminals bool
}

// Server is a Jupyter server.
type Server struct {
	server *httptest.Server
	token  string

	mu        sync.Mutex
	state     State
	misbehave http.HandlerFunc
	questions int
}

// New starts a server that requires a token. It stops with the test.
func New(tb testing.TB, token string) *Server {
	tb.Helper()
	s := &Server{token: token}
	s.server = httptest.NewServer(s)
	tb.Cleanup(s.server.Close)
	return s
}

// Address returns the server's address and port.
func (s *Server) Address() string { return s.server.Listener.Addr().String() }

// Set changes the activity that the server reports.
func (s *Server) Set(state State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = state
}

// Misbehave answers all requests with a handler until it is called with nil.
func (s *Server) Misbehave(h http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.misbehave = h
}

// Questions returns the number of requests so far.
func (s *Server) Questions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.questions
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.questions++
	misbehave := s.misbehave
	s.mu.Unlock()
	if misbehave != nil {
		misbehave(w, r)
		return
	}
	s.Answer(w, r)
}

// Answer answers a request as a real server does.
func (s *Server) Answer(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Header.Get("Authorization") != "token "+s.token {
		reply(w, http.StatusForbidden, map[string]any{"message": "Forbidden", "reason": nil})
		return
	}
	switch {
	case r.URL.Path == "/api/status":
		s.track(r, false)
		reply(w, http.StatusOK, map[string]any{
			"started": stamp(s.state.LastActivity), "last_activity": stamp(s.state.LastActivity),
			"kernels": len(s.state.Kernels), "connections": 0,
		})
	case r.URL.Path == "/api/kernels":
		s.track(r, true)
		reply(w, http.StatusOK, s.kernels())
	case r.URL.Path == "/api/terminals" && !s.state.NoTerminals:
		s.track(r, true)
		reply(w, http.StatusOK, s.terminals())
	default:
		reply(w, http.StatusNotFound, map[string]any{"message": "Not Found"})
	}
}

// track counts a request as activity, unless the request opts out. The real server does
// the same.
func (s *Server) track(r *http.Request, tracked bool) {
	if tracked && !r.URL.Query().Has("no_track_activity") {
		s.state.LastActivity = time.Now()
	}
}

func (s *Server) kernels() []map[string]any {
	models := []map[string]any{}
	for _, k := range s.state.Kernels {
		models = append(models, map[string]any{
			"id": "4b1c0f6e-5c39-4bd5-8d1e-1a3f5b7f0f4e", "name": "python3",
			"last_activity": stamp(k.LastActivity), "execution_state": k.State, "connections": 1,
		})
	}
	return models
}

func (s *Server) terminals() []map[string]any {
	models := []map[string]any{}
	for _, last := range s.state.Terminals {
		models = append(models, map[string]any{"name": "1", "last_activity": stamp(last)})
	}
	return models
}

// stamp formats a time like Python.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }

func reply(w http.ResponseWriter, code int, model any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(model) // the client may have disconnected
}
