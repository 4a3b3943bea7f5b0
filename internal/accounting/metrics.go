package accounting

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics of delivery. Their labels are bounded: no name of an alarm, receiver or
// namespace is among them.
type Metrics struct {
	matched, unresolved, delivered, expressionFailures, overBudget, resets prometheus.Counter
	dropped, suppressed, failures                                          *prometheus.CounterVec
}

// NewMetrics registers the metrics. pending tells how many messages wait.
func NewMetrics(registry prometheus.Registerer, pending func() float64) *Metrics {
	factory := promauto.With(registry)
	counter := func(name, help string) prometheus.Counter {
		return factory.NewCounter(prometheus.CounterOpts{Namespace: "bongsu", Name: name, Help: help})
	}
	vector := func(name, help, label string) *prometheus.CounterVec {
		return factory.NewCounterVec(prometheus.CounterOpts{Namespace: "bongsu", Name: name, Help: help}, []string{label})
	}
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "bongsu", Name: "outbox_messages", Help: "Messages that wait to be delivered.",
	}, pending)
	return &Metrics{
		matched:            counter("occurrences_matched_total", "Occurrences that matched an alarm, once for each alarm."),
		unresolved:         counter("occurrences_unresolved_total", "Occurrences that could not be judged because the object is gone, once for each alarm."),
		delivered:          counter("occurrences_delivered_total", "Occurrences that a receiver accepted, once for each receiver."),
		expressionFailures: counter("expression_failures_total", "Expressions that failed while they ran."),
		overBudget:         counter("alarms_over_budget_total", "Alarms that were not asked about some Events, because those of their namespace cost too much together."),
		resets:             counter("feed_resets_total", "Positions found not to be of this cluster's history."),
		dropped:            vector("occurrences_dropped_total", "Occurrences that were given up, once for each receiver.", "cause"),
		suppressed:         vector("occurrences_suppressed_total", "Occurrences that matched and were not sent, once for each alarm.", "cause"),
		failures:           vector("delivery_failures_total", "Receivers that began to fail, by what can be done about it.", "class"),
	}
}
