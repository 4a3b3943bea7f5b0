// Package metrics records what happens to occurrences and messages: in Prometheus
// metrics, in the counters of alarms and receivers, and in notices and Events.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// Metrics are the metrics of delivery. Their labels have few values: they contain no
// names of alarms, receivers or namespaces.
type Metrics struct {
	matched, unresolved, undecided, delivered, expressionFailures, overBudget, resets prometheus.Counter
	messages, dropped, suppressed, failures                                           *prometheus.CounterVec
	latency                                                                           prometheus.Histogram
}

// latencies are the buckets of the delivery latency, from the time of one request to the
// day after which messages are dropped.
var latencies = []float64{.01, .05, .1, .5, 1, 5, 15, 60, 5 * 60, 15 * 60, 3600, 6 * 3600, 24 * 3600}

// New registers the metrics. The gauges read load at each collection.
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
		unresolved:         counter("occurrences_unresolved_total", "Occurrences that could not be evaluated because their object is gone, once for each alarm."),
		undecided:          counter("occurrences_undecided_total", "Occurrences that were not sent because something that their alarm needs could not be read, once for each alarm."),
		delivered:          counter("occurrences_delivered_total", "Occurrences that a receiver accepted, once for each receiver."),
		expressionFailures: counter("expression_failures_total", "Expressions that failed during evaluation."),
		overBudget:         counter("alarms_over_budget_total", "Alarms not evaluated for some Events, or late for states, because the Alarms of their namespace are too expensive together."),
		resets:             counter("events_resets_total", "Positions that do not belong to this cluster's history."),
		messages:           vector("messages_delivered_total", "Messages that receivers accepted.", "kind"),
		dropped:            vector("occurrences_dropped_total", "Occurrences that were dropped, once for each receiver.", "cause"),
		suppressed:         vector("occurrences_suppressed_total", "Occurrences that matched and were not sent, once for each alarm. For the cause group: messages saved, once for each receiver.", "cause"),
		failures:           vector("delivery_failures_total", "Receivers that began to fail, and batches that were refused, by class of error.", "class"),
		latency: factory.NewHistogram(prometheus.HistogramOpts{
			Namespace: "bongsu", Name: "delivery_latency_seconds", Buckets: latencies,
			Help: "Waiting time of delivered messages, from when their oldest occurrence could first be sent.",
		}),
	}
}

// RegisterReceivers registers the numbers of receivers whose last attempt failed, and of
// messages that are set aside.
func RegisterReceivers(registry prometheus.Registerer, failing, setAside func() int) {
	gauge := func(name, help string, number func() int) {
		promauto.With(registry).NewGaugeFunc(prometheus.GaugeOpts{Namespace: "bongsu", Name: name, Help: help},
			func() float64 { return float64(number()) })
	}
	gauge("receivers_failing", "Receivers whose last attempt failed.", failing)
	gauge("outbox_messages_set_aside", "Messages that are set aside, because their receiver accepts others only.", setAside)
}

// Load reads what waits and what is open, on the replica that leads. On other replicas
// the numbers of messages must be zero, because the leader has already handled them.
type Load struct {
	// Size returns the size of the outbox.
	Size func() outbox.Size
	// UsedBytes and LimitBytes return the used size of the outbox and its limit, on every
	// replica.
	UsedBytes, LimitBytes func() float64
	// OldestSeconds returns the waiting time of the oldest message, or 0 if none waits.
	OldestSeconds func() float64
}

func (l Load) register(factory promauto.Factory) {
	gauge := func(name, help string, value func() float64) {
		factory.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "bongsu", Name: name, Help: help}, value)
	}
	sizeOf := func(number func(outbox.Size) int64) func() float64 {
		return func() float64 { return float64(number(l.Size())) }
	}
	gauge("outbox_messages", "Messages that wait for delivery.",
		sizeOf(func(s outbox.Size) int64 { return s.Entries }))
	gauge("outbox_oldest_message_seconds", "Waiting time of the oldest message; 0 if none waits.", l.OldestSeconds)
	gauge("outbox_bytes", "Size of the outbox that is in use.", l.UsedBytes)
	gauge("outbox_limit_bytes", "Largest size of the outbox.", l.LimitBytes)
	gauge("held_occurrences", "Occurrences that wait in groups, or in messages of groups, once for each receiver.",
		sizeOf(func(s outbox.Size) int64 { return s.Held }))
	gauge("parked_occurrences", "Occurrences that wait for an object that cannot be read, once for each alarm.",
		sizeOf(func(s outbox.Size) int64 { return s.Parked }))
	gauge("open_groups", "Groups that are open, once for each receiver. Includes groups without a message, because all occurrences were suppressed.",
		sizeOf(func(s outbox.Size) int64 { return s.Groups }))
	gauge("open_windows", "Windows of thresholds that count occurrences.",
		sizeOf(func(s outbox.Size) int64 { return s.Windows }))
}
