// Package jupyterserver plays a Jupyter server, as far as it tells whether it is
// used: /api/status, /api/kernels and /api/terminals, as jupyter_server 2 answers
// them. It takes questions themselves for use where the real one does.
package jupyterserver

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// Kernel is a kernel.
type Kernel struct {
	State        string
	LastActivity time.Time
}

// State is what the server tells of.
type State struct {
	LastActivity time.Time
	Kernels      []Kernel
	// Terminals are the last activities of terminals.
	Terminals []time.Time
	// NoTerminals: they are switched off.
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

// New starts a server that demands a token. It ends with the test.
func New(tb testing.TB, token string) *Server {
	tb.Helper()
	s := &Server{token: token}
	s.server = httptest.NewServer(s)
	tb.Cleanup(s.server.Close)
	return s
}

// Address is the server's address and port.
func (s *Server) Address() string { return s.server.Listener.Addr().String() }

// Set sets what the server tells of.
func (s *Server) Set(state State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = state
}

// Misbehave has a handler answer instead; nil ends that.
func (s *Server) Misbehave(h http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.misbehave = h
}

// Questions is how many requests were made.
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

// Answer answers a request as a server should.
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

// track takes a request for use of the server, as the real one does unless it is
// asked not to.
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

// stamp writes a time as Python does.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }

func reply(w http.ResponseWriter, code int, model any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(model) // the client may be gone
}
