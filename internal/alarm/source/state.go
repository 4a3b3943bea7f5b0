package source

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ErrNotConnected is what Healthy returns while there is no watch.
var ErrNotConnected = errors.New("no watch of Events on the API server")

// State is how the feed fares.
type State struct {
	// Position is the last one that the handler committed.
	Position uint64
	// LastEvent is when the last Event was read; zero before the first.
	LastEvent time.Time
	// ConnectedSince is when the current watch began; zero while there is none.
	ConnectedSince time.Time
	// Live is the number of Events that are remembered.
	Live int
	// Pending is the number of changes that waited when the last batch was taken.
	Pending int
	// Behind is how long ago the oldest change happened that was read and is not
	// committed; 0 if there is none. What the API server stamps is in whole seconds.
	Behind time.Duration
	// HandlerFailing says that the handler refused the batch that it was offered
	// last.
	HandlerFailing bool
	// Events counts the changes of Events read, Occurrences by how much the counts of
	// Events increased that were committed.
	Events, Occurrences int64
	// Connects counts the watches begun, Relists the lists that were needed because
	// a position had expired or a watch closed early, Resets the changes of history,
	// Malformed the Events that could not be understood and were left out.
	Connects, Relists, Resets, Malformed int64
}

// State returns how the feed fares now.
func (f *Source) State() State {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.state
	if !f.uncommitted.IsZero() {
		s.Behind = f.age(f.uncommitted)
	}
	return s
}

// ago is how long ago something happened; never less than 0, for the API server has
// a clock of its own.
func (f *Source) age(at time.Time) time.Duration { return max(f.clock.Since(at), 0) }

// Healthy returns why the feed makes no progress, or nil: the handler's error,
// or ErrNotConnected.
func (f *Source) Healthy() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.failure != nil:
		return fmt.Errorf("commit Events: %w", f.failure)
	case f.state.ConnectedSince.IsZero():
		return ErrNotConnected
	default:
		return nil
	}
}

func (f *Source) update(change func(*State)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.state)
}

// taken notes that a batch was taken, of which the oldest happened at a time, and how
// many changes wait behind it.
func (f *Source) batchTaken(oldest time.Time, pending int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.uncommitted, f.state.Pending = oldest, pending
}

// committed notes that the handler took b.
func (f *Source) committed(b Batch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failure != nil {
		f.log.Info("Events are committed again")
	}
	f.failure = nil
	f.uncommitted = time.Time{}
	f.state.HandlerFailing = false
	f.state.Position = b.Position
	for i := range b.Occurrences {
		f.state.Occurrences += b.Occurrences[i].Increase
		f.lag.Observe(f.age(b.Occurrences[i].ObservedAt).Seconds())
	}
}

// stopped forgets a failure, and a batch, that nobody works on any more.
func (f *Source) stopped() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failure = nil
	f.uncommitted = time.Time{}
	f.state.HandlerFailing = false
}

// refused notes that the handler did not take a batch, and tells so once.
func (f *Source) commitFailed(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failure == nil {
		f.log.Error(err, "Events could not be committed; retrying")
	}
	f.failure = err
	f.state.HandlerFailing = true
}

var _ prometheus.Collector = (*Source)(nil)

// metric is one number of State.
type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(State) float64
}

func newMetric(kind prometheus.ValueType, name, help string, value func(State) float64) metric {
	desc := prometheus.NewDesc(prometheus.BuildFQName("bongsu", "eventfeed", name), help, nil, nil)
	return metric{desc: desc, kind: kind, value: value}
}

var metrics = []metric{
	newMetric(prometheus.GaugeValue, "position", "resourceVersion up to which Events are committed.",
		func(s State) float64 { return float64(s.Position) }),
	newMetric(prometheus.GaugeValue, "last_event_timestamp_seconds", "When the last Event was read.",
		func(s State) float64 { return unixSeconds(s.LastEvent) }),
	newMetric(prometheus.GaugeValue, "connected_since_timestamp_seconds", "When the current watch began; 0 while there is none.",
		func(s State) float64 { return unixSeconds(s.ConnectedSince) }),
	newMetric(prometheus.GaugeValue, "live_events", "Events that are remembered.",
		func(s State) float64 { return float64(s.Live) }),
	newMetric(prometheus.GaugeValue, "pending_changes", "Changes that waited when the last batch was taken.",
		func(s State) float64 { return float64(s.Pending) }),
	newMetric(prometheus.GaugeValue, "behind_seconds", "How long ago the oldest change happened that was read and is not committed; 0 if there is none.",
		func(s State) float64 { return s.Behind.Seconds() }),
	newMetric(prometheus.GaugeValue, "commit_failing", "1 while Events cannot be committed.",
		func(s State) float64 { return oneIf(s.HandlerFailing) }),
	newMetric(prometheus.CounterValue, "events_total", "Changes of Events read.",
		func(s State) float64 { return float64(s.Events) }),
	newMetric(prometheus.CounterValue, "occurrences_total", "Increases of Events' counts committed.",
		func(s State) float64 { return float64(s.Occurrences) }),
	newMetric(prometheus.CounterValue, "connects_total", "Watches begun.",
		func(s State) float64 { return float64(s.Connects) }),
	newMetric(prometheus.CounterValue, "relists_total", "Lists needed because a position had expired.",
		func(s State) float64 { return float64(s.Relists) }),
	newMetric(prometheus.CounterValue, "resets_total", "Changes of the API server's history.",
		func(s State) float64 { return float64(s.Resets) }),
	newMetric(prometheus.CounterValue, "malformed_total", "Events that could not be understood and were left out.",
		func(s State) float64 { return float64(s.Malformed) }),
}

// newLag makes the histogram of what Feed.lag observes. Below a second there is
// nothing to tell apart: see observedAt.
func newLag() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: "bongsu", Subsystem: "eventfeed", Name: "lag_seconds",
		Help:    "How long after the API server wrote them occurrences were committed.",
		Buckets: []float64{1, 2, 5, 10, 30, 60, 300, 900, 3600},
	})
}

// Describe implements prometheus.Collector.
func (f *Source) Describe(out chan<- *prometheus.Desc) {
	for _, m := range metrics {
		out <- m.desc
	}
	f.lag.Describe(out)
}

// Collect implements prometheus.Collector.
func (f *Source) Collect(out chan<- prometheus.Metric) {
	s := f.State()
	for _, m := range metrics {
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(s))
	}
	f.lag.Collect(out)
}

func unixSeconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
