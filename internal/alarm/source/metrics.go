package source

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

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
