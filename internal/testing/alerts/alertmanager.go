// Package alerts has a server that handles alerts as Alertmanager does.
package alerts

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"
)

// resolveTimeout is Alertmanager's default for alerts without an end.
const resolveTimeout = 5 * time.Minute

// Alertmanager stores alerts until they end. It is the API v2 of Alertmanager 0.28, without
// routes and receivers.
type Alertmanager struct {
	URL string

	clock clock.PassiveClock

	mu       sync.Mutex
	down     bool
	alerts   map[string]stored
	requests []int
}

type posted struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"startsAt"`
	EndsAt      time.Time         `json:"endsAt"`
}

// stored is an alert. timeout means that Alertmanager has set its end.
type stored struct {
	summary      string
	starts, ends time.Time
	timeout      bool
}

// New starts a server, which ends with the test.
func New(t testing.TB, clk clock.PassiveClock) *Alertmanager {
	t.Helper()
	a := &Alertmanager{clock: clk, alerts: map[string]stored{}}
	server := httptest.NewServer(http.HandlerFunc(a.serve))
	t.Cleanup(server.Close)
	a.URL = server.URL
	return a
}

// SetDown makes the server answer 503, or answer again.
func (a *Alertmanager) SetDown(down bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.down = down
}

// Forget removes all alerts, as a restart of Alertmanager does.
func (a *Alertmanager) Forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.alerts)
}

// Firing returns the summaries of the alerts that have not ended, sorted.
func (a *Alertmanager) Firing() (summaries []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	for _, s := range a.alerts {
		if s.ends.After(now) {
			summaries = append(summaries, s.summary)
		}
	}
	slices.Sort(summaries)
	return summaries
}

// Requests returns the number of alerts in each request that was accepted.
func (a *Alertmanager) Requests() []int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.requests)
}

func (a *Alertmanager) serve(w http.ResponseWriter, r *http.Request) {
	var all []posted
	if err := json.NewDecoder(r.Body).Decode(&all); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.down {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	for i := range all {
		a.put(&all[i])
	}
	a.requests = append(a.requests, len(all))
}

// put merges an alert with the one of the same labels. The newer one has the right annotations,
// and the earlier start counts. An explicit end that is later stays, unless the newer alert has
// ended.
func (a *Alertmanager) put(p *posted) {
	now := a.clock.Now()
	next := stored{summary: p.Annotations["summary"], starts: p.StartsAt, ends: p.EndsAt}
	if next.starts.IsZero() {
		next.starts = now
	}
	if next.ends.IsZero() {
		next.ends, next.timeout = now.Add(resolveTimeout), true
	}
	key := fmt.Sprint(p.Labels)
	if last, ok := a.alerts[key]; ok && last.ends.After(next.starts) {
		if last.starts.Before(next.starts) {
			next.starts = last.starts
		}
		ended := !next.ends.After(now)
		if !ended && !last.timeout && last.ends.After(next.ends) {
			next.ends = last.ends
		}
	}
	a.alerts[key] = next
}
