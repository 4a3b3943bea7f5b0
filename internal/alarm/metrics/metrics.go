package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// Metrics of delivery. Their labels are bounded: no name of an alarm, receiver or
// namespace is among them.
type Metrics struct {
	matched, unresolved, delivered, expressionFailures, overBudget, resets prometheus.Counter
	messages, dropped, suppressed, failures                                *prometheus.CounterVec
	latency                                                                prometheus.Histogram
}

// latencies are the buckets of what a message waits: from what one request takes to
// the day after which it is dropped.
var latencies = []float64{.01, .05, .1, .5, 1, 5, 15, 60, 5 * 60, 15 * 60, 3600, 6 * 3600, 24 * 3600}

// NewMetrics registers the metrics. With each collection the gauges ask load.
func New(registry prometheus.Registerer, load Load) *Metrics {
	factory := promauto.With(registry)
	counter := func(name, help string) prometheus.Counter {
		return factory.NewCounter(prometheus.CounterOpts{Namespace: "bongsu", Name: name, Help: help})
	}
	vector := func(name, help, label string) *prometheus.CounterVec {
		return factory.NewCounterVec(prometheus.CounterOpts{Namespace: "bongsu", Name: name, Help: help}, []string{label})
	}
	load.register(factory)
	return &Metrics{
		matched:            counter("occurrences_matched_total", "Occurrences that matched an alarm, once for each alarm."),
		unresolved:         counter("occurrences_unresolved_total", "Occurrences that could not be judged because the object is gone, once for each alarm."),
		delivered:          counter("occurrences_delivered_total", "Occurrences that a receiver accepted, once for each receiver."),
		expressionFailures: counter("expression_failures_total", "Expressions that failed while they ran."),
		overBudget:         counter("alarms_over_budget_total", "Alarms that were not asked about some Events, because those of their namespace cost too much together."),
		resets:             counter("feed_resets_total", "Positions found not to be of this cluster's history."),
		messages:           vector("messages_delivered_total", "Messages that receivers accepted.", "kind"),
		dropped:            vector("occurrences_dropped_total", "Occurrences that were given up, once for each receiver.", "cause"),
		suppressed:         vector("occurrences_suppressed_total", "Occurrences that matched and were not sent, once for each alarm; of the cause group, messages saved, once for each receiver.", "cause"),
		failures:           vector("delivery_failures_total", "Receivers that began to fail, by what can be done about it.", "class"),
		latency: factory.NewHistogram(prometheus.HistogramOpts{
			Namespace: "bongsu", Name: "delivery_latency_seconds", Buckets: latencies,
			Help: "How long delivered messages had waited, from when the oldest of what they tell could first be sent.",
		}),
	}
}

// Load tells what waits and what is open, of a replica that leads. In the ledger of
// any other there is what another one has long dealt with: it is to tell of nothing.
type Load struct {
	// Size of the ledger.
	Size func() outbox.Size
	// OldestSeconds is for how long the message waits that has waited longest; 0 if
	// none does.
	OldestSeconds func() float64
}

func (l Load) register(factory promauto.Factory) {
	gauge := func(name, help string, value func() float64) {
		factory.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "bongsu", Name: name, Help: help}, value)
	}
	of := func(number func(outbox.Size) int64) func() float64 {
		return func() float64 { return float64(number(l.Size())) }
	}
	gauge("outbox_messages", "Messages that wait to be delivered.",
		of(func(s outbox.Size) int64 { return s.Entries }))
	gauge("outbox_oldest_message_seconds", "For how long the message waits that has waited longest; 0 if none does.", l.OldestSeconds)
	gauge("held_occurrences", "Occurrences that wait in groups, or in messages of groups, once for each receiver.",
		of(func(s outbox.Size) int64 { return s.Held }))
	gauge("open_groups", "Groups that are open, once for each receiver.",
		of(func(s outbox.Size) int64 { return s.Groups }))
	gauge("open_windows", "Windows of thresholds in which something is counted.",
		of(func(s outbox.Size) int64 { return s.Windows }))
}
