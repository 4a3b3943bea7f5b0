package source

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

// ErrNotConnected reports that there is no watch.
var ErrNotConnected = errors.New("no watch of Events on the API server")

// ErrStuck reports that the handler has not returned for Patience.
var ErrStuck = errors.New("a commit of Events has not ended for a minute: check the disk of the data directory")

// State is the status of the source.
type State struct {
	// Position is the last position that the handler committed.
	Position uint64
	// LastEvent is the time at which the last Event was read, zero before the first.
	LastEvent time.Time
	// ConnectedSince is the start of the current watch, zero without one.
	ConnectedSince time.Time
	// Live is the number of Events that are remembered.
	Live int
	// Pending is the number of changes that waited when the last batch was taken.
	Pending int
	// Behind is the age of the oldest change that is read and not committed, 0 if there
	// is none. The API server's times are in whole seconds.
	Behind time.Duration
	// HandlerFailing is true if the handler refused the last batch.
	HandlerFailing bool
	// Events is the number of changes of Events that were read. Occurrences is the sum of
	// the increases that were committed.
	Events, Occurrences int64
	// Connects is the number of watches. Relists is the number of lists after an expired
	// position or an early close. Resets is the number of changes of the history.
	// IdleReconnects is the number of watches that were replaced because they brought
	// nothing. Malformed is the number of Events that were skipped because they could not
	// be decoded.
	Connects, Relists, Resets, IdleReconnects, Malformed int64
}

// State returns the present status.
func (s *Source) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.state
	state.HandlerFailing = s.failure != nil
	if !s.uncommitted.IsZero() {
		state.Behind = s.age(s.uncommitted)
	}
	return state
}

// age returns how long ago a time was. It is never negative: the API server has its own
// clock.
func (s *Source) age(at time.Time) time.Duration { return max(s.clock.Since(at), 0) }

// Patience is how long a batch can stay uncommitted until the source is stuck.
const Patience = time.Minute

// Stuck reports whether a batch has been uncommitted for Patience. The handler returned
// errors, or it hangs, for example in a write to the disk.
func (s *Source) Stuck() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stuck()
}

func (s *Source) stuck() bool { return !s.taken.IsZero() && s.age(s.taken) >= Patience }

// Healthy returns why the source makes no progress, or nil. It is the error of the
// handler, ErrStuck, or ErrNotConnected.
func (s *Source) Healthy() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.failure != nil:
		return fmt.Errorf("commit Events: %w", s.failure)
	case s.stuck():
		return ErrStuck
	case s.state.ConnectedSince.IsZero():
		return ErrNotConnected
	default:
		return nil
	}
}

func (s *Source) update(change func(*State)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.state)
}

// batchTaken records the oldest time of a batch and how many changes wait after it.
func (s *Source) batchTaken(oldest time.Time, pending int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uncommitted, s.state.Pending = oldest, pending
	s.taken = s.clock.Now()
}

// committed records that the handler committed a batch.
func (s *Source) committed(b Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure != nil {
		s.log.Info("Events are committed again")
	}
	s.failure = nil
	s.uncommitted, s.taken = time.Time{}, time.Time{}
	s.state.Position = b.Position
	for i := range b.Occurrences {
		s.state.Occurrences += b.Occurrences[i].Increase
		s.lag.Observe(s.age(b.Occurrences[i].ObservedAt).Seconds())
	}
}

// stopped clears the failure and the batch, because no goroutine handles them any more.
func (s *Source) stopped() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = nil
	s.uncommitted, s.taken = time.Time{}, time.Time{}
}

// commitFailed records that the handler refused a batch. It logs the first of several
// failures.
func (s *Source) commitFailed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == nil {
		s.log.Error(err, "Events could not be committed; retrying")
	}
	s.failure = err
}

var _ prometheus.Collector = (*Source)(nil)

// metric is one number of State.
type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(State) float64
}

func newMetric(kind prometheus.ValueType, name, help string, value func(State) float64) metric {
	desc := prometheus.NewDesc(prometheus.BuildFQName("bongsu", "events", name), help, nil, nil)
	return metric{desc: desc, kind: kind, value: value}
}

var metrics = []metric{
	newMetric(prometheus.GaugeValue, "position", "resourceVersion up to which Events are committed.",
		func(s State) float64 { return float64(s.Position) }),
	newMetric(prometheus.GaugeValue, "last_event_timestamp_seconds", "Time at which the last Event was read.",
		func(s State) float64 { return unixSeconds(s.LastEvent) }),
	newMetric(prometheus.GaugeValue, "connected_since_timestamp_seconds", "Start of the current watch; 0 without a watch.",
		func(s State) float64 { return unixSeconds(s.ConnectedSince) }),
	newMetric(prometheus.GaugeValue, "live", "Events whose count is remembered.",
		func(s State) float64 { return float64(s.Live) }),
	newMetric(prometheus.GaugeValue, "pending_changes", "Changes that waited when the last batch was taken.",
		func(s State) float64 { return float64(s.Pending) }),
	newMetric(prometheus.GaugeValue, "behind_seconds", "Age of the oldest change that is read and not committed; 0 if there is none.",
		func(s State) float64 { return s.Behind.Seconds() }),
	newMetric(prometheus.GaugeValue, "commit_failing", "1 while Events cannot be committed.",
		func(s State) float64 { return oneIf(s.HandlerFailing) }),
	newMetric(prometheus.CounterValue, "read_total", "Changes of Events read.",
		func(s State) float64 { return float64(s.Events) }),
	newMetric(prometheus.CounterValue, "occurrences_total", "Increases of Events' counts committed.",
		func(s State) float64 { return float64(s.Occurrences) }),
	newMetric(prometheus.CounterValue, "connects_total", "Watches started.",
		func(s State) float64 { return float64(s.Connects) }),
	newMetric(prometheus.CounterValue, "relists_total", "Lists because a position had expired or a watch closed early.",
		func(s State) float64 { return float64(s.Relists) }),
	newMetric(prometheus.CounterValue, "idle_reconnects_total", "Watches replaced on a new connection because nothing came for 100 seconds.",
		func(s State) float64 { return float64(s.IdleReconnects) }),
	newMetric(prometheus.CounterValue, "malformed_total", "Events that could not be decoded and were skipped.",
		func(s State) float64 { return float64(s.Malformed) }),
}

// newLag returns the histogram of Source.lag. Its smallest bucket is a second: see
// observedAt.
func newLag() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: "bongsu", Subsystem: "events", Name: "lag_seconds",
		Help:    "Time from the API server's write to the commit of an occurrence.",
		Buckets: []float64{1, 2, 5, 10, 30, 60, 300, 900, 3600},
	})
}

// Describe implements prometheus.Collector.
func (s *Source) Describe(out chan<- *prometheus.Desc) {
	for _, m := range metrics {
		out <- m.desc
	}
	s.lag.Describe(out)
}

// Collect implements prometheus.Collector.
func (s *Source) Collect(out chan<- prometheus.Metric) {
	state := s.State()
	for _, m := range metrics {
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(state))
	}
	s.lag.Collect(out)
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

// Source reads the Events of one API server. It is safe for concurrent use, but only one
// call of Run can be active.
type Source struct {
	client  *client
	clock   clock.Clock
	log     logr.Logger
	backoff wait.Backoff
	// earlyClose is apiwatch.EarlyClose, except in tests.
	earlyClose time.Duration
	lag        prometheus.Histogram

	mu    sync.Mutex
	state State
	// uncommitted is the time of the oldest change in the batch that is being committed.
	uncommitted time.Time
	// taken is when this batch was offered for the first time; zero if there is none.
	taken time.Time
	// failure is the last error of the handler, nil after a success.
	failure error
}

// Batch contains the next changes. Commit all of it in one transaction.
type Batch struct {
	// Position is where to resume after the commit. It grows with each batch, except with
	// a Reset. It stays the same during a list, so that an unfinished list is repeated.
	Position uint64
	// Time is the creation time of the newest Event that was read, by the API server's
	// clock.
	Time time.Time
	// ReadUpTo is a time up to which all Events are read after this batch, by the clock of this
	// machine. It is zero if the batch does not show that.
	ReadUpTo time.Time
	// Occurrences are in order of position, 512 at most. Occurrences of a list are in
	// order within windows of 10,000. The API server lists by name, and a list is too large
	// for memory.
	Occurrences []alarm.Occurrence
	// Counts are the counts that changed, each UID once, 4,096 at most.
	Counts []alarm.EventCount
	// CountsKnown is true if all counts as of Position are known after this batch. It
	// becomes the next Start.CountsKnown.
	CountsKnown bool
	// Forget contains the UIDs of deleted Events. None of them is in Counts.
	Forget []string
	// Reset is set if Position belongs to another history than the position before. All
	// Occurrences then belong to the new history.
	Reset *Reset
}

// Reset reports that the former position does not belong to the history of the API
// server.
type Reset struct {
	// Reason is a text for users.
	Reason string
}

// Handler commits a batch, which must be durable when Handler returns nil. After an
// error, it gets the same batch again after a backoff, until it succeeds. The handler can
// keep the batch.
type Handler func(ctx context.Context, b Batch) error

// ClockDifference is the assumed maximum difference between the clocks of this machine and of the
// API server. It is also how late the API server sends an Event at most.
const ClockDifference = 5 * time.Second
