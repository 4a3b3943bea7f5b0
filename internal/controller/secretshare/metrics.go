package secretshare

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics count copies and writes. Their labels contain no names of rules or namespaces,
// so their number is bounded.
type metrics struct {
	writes   *prometheus.CounterVec
	failures prometheus.Counter
}

func newMetrics(registry prometheus.Registerer, s *store, c *contents) *metrics {
	factory := promauto.With(registry)
	gauge := func(name, help string, value func() float64) {
		factory.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "bongsu", Subsystem: "secretshare", Name: name, Help: help}, value)
	}
	gauge("copies", "Copies of Secrets that exist.", func() float64 { return float64(s.copyCount()) })
	gauge("conflicts", "Copies that another Secret of the same name blocks.", func() float64 {
		return s.sum(func(r syncResult) int { return r.conflicted })
	})
	gauge("failing", "Copies that could not be written or removed.", func() float64 {
		return s.sum(func(r syncResult) int { return r.failed })
	})
	gauge("content_bytes", "Bytes of shared Secrets in memory.", func() float64 { return float64(c.size()) })
	gauge("memory_refused", "Rules that exceed the limit of memory.", func() float64 { return float64(s.refusedCount()) })
	return &metrics{
		writes: factory.NewCounterVec(prometheus.CounterOpts{
			Namespace: "bongsu", Subsystem: "secretshare", Name: "writes_total",
			Help: "Writes of copies, by operation: create, update, delete, or release.",
		}, []string{"operation"}),
		failures: factory.NewCounter(prometheus.CounterOpts{
			Namespace: "bongsu", Subsystem: "secretshare", Name: "write_failures_total",
			Help: "Writes of copies that the API server refused.",
		}),
	}
}

func (s *store) copyCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.copies)
}

func (s *store) refusedCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.refused)
}

func (s *store) sum(value func(syncResult) int) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, state := range s.rules {
		for _, r := range state.results {
			n += value(r)
		}
	}
	return float64(n)
}
