package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

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
