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
	gauge := func(name, help string, value func() int) {
		factory.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "bongsu", Subsystem: "secretshare", Name: name, Help: help}, func() float64 { return float64(value()) })
	}
	gauge("copies", "Copies of Secrets that exist.", func() int { return s.count(func() int { return len(s.copies.byName) }) })
	gauge("conflicts", "Copies that another Secret of the same name blocks.", func() int {
		return s.count(func() int { return s.rules.sum(func(r syncResult) int { return r.conflicted }) })
	})
	gauge("failing", "Copies that could not be written or removed.", func() int {
		return s.count(func() int { return s.rules.sum(func(r syncResult) int { return r.failed }) })
	})
	gauge("content_bytes", "Bytes of shared Secrets in memory.", c.size)
	gauge("memory_refused", "Rules that exceed the limit of memory.", func() int { return s.count(func() int { return len(s.rules.refused) }) })
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
