package secretshare

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics of copying. Their labels are bounded: no name of a rule or namespace is
// among them.
type metrics struct {
	writes   *prometheus.CounterVec
	failures prometheus.Counter
}

func newMetrics(registry prometheus.Registerer, b *book) *metrics {
	factory := promauto.With(registry)
	gauge := func(name, help string, value func() float64) {
		factory.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "bongsu", Subsystem: "secretshare", Name: name, Help: help}, value)
	}
	gauge("copies", "Copies of Secrets that there are.", func() float64 { return float64(b.total()) })
	gauge("conflicts", "Copies that are not there because a Secret of the same name is somebody else's.", func() float64 {
		return b.sum(func(r result) int { return r.conflicted })
	})
	gauge("failing", "Copies that could not be written or removed.", func() float64 {
		return b.sum(func(r result) int { return r.failed })
	})
	return &metrics{
		writes: factory.NewCounterVec(prometheus.CounterOpts{
			Namespace: "bongsu", Subsystem: "secretshare", Name: "writes_total",
			Help: "Copies written, by what was done: create, update, delete, release.",
		}, []string{"operation"}),
		failures: factory.NewCounter(prometheus.CounterOpts{
			Namespace: "bongsu", Subsystem: "secretshare", Name: "write_failures_total",
			Help: "Attempts to write or to remove a copy that the API server refused.",
		}),
	}
}

func (b *book) total() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.copies)
}

func (b *book) sum(of func(result) int) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, e := range b.rules {
		for _, r := range e.results {
			n += of(r)
		}
	}
	return float64(n)
}
