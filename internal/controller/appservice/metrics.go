package appservice

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics of apps. Their labels are bounded: no name of an app or namespace is among
// them.
type metrics struct {
	observations *prometheus.CounterVec
	restarts     prometheus.Counter
	backups      *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer, checked func() int) *metrics {
	factory := promauto.With(registry)
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "bongsu", Subsystem: "appservice", Name: "checked_pods", Help: "Pods that are checked.",
	}, func() float64 { return float64(checked()) })
	counter := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "bongsu", Subsystem: "appservice", Name: name, Help: help}
	}
	return &metrics{
		observations: factory.NewCounterVec(counter("checks_total", "Health checks made, by what they came to."), []string{"outcome"}),
		restarts:     factory.NewCounter(counter("restarts_total", "Unhealthy pods evicted to be replaced.")),
		backups:      factory.NewCounterVec(counter("backups_total", "Backups that are over, by how they ended."), []string{"phase"}),
	}
}
