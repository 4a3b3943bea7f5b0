// Package accounting hears what became of occurrences and messages, and keeps
// the three accounts of it: the metrics, which are exact; the counts in status;
// and what owners must be told in an Event.
package metrics

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/counters"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/pipeline"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/events"
)

// Accountant keeps the accounts.
type Recorder struct {
	tally     *counters.Counters
	metrics   *Metrics
	recorder  *events.Recorder
	namespace string
	clock     clock.PassiveClock
	log       logr.Logger
}

var (
	_ notify.Observer   = (*Recorder)(nil)
	_ pipeline.Reporter = (*Recorder)(nil)
)

// New returns an Accountant. What concerns the operator itself becomes an Event on
// the mirror, in the operator's namespace.
func NewRecorder(t *counters.Counters, m *Metrics, recorder *events.Recorder, namespace string, clk clock.PassiveClock, log logr.Logger) *Recorder {
	return &Recorder{tally: t, metrics: m, recorder: recorder, namespace: namespace, clock: clk, log: log}
}

// Judged implements pipeline.Reporter.
func (a *Recorder) Evaluated(id alarm.ID, outcome match.Outcome, err error, occurrences int64) {
	subject := kube.Key(id).String()
	now := a.clock.Now()
	switch outcome {
	case match.Matched:
		a.metrics.matched.Add(float64(occurrences))
		a.tally.Add(subject, counters.Change{Matched: occurrences, At: now})
	case match.Unresolved:
		a.metrics.unresolved.Add(float64(occurrences))
		a.tally.Add(subject, counters.Change{Unresolved: occurrences, At: now})
	case match.NotMatched, match.Failed: // a failure is told below
	}
	switch {
	case errors.Is(err, match.ErrOverBudget):
		a.metrics.overBudget.Inc()
		a.tally.Notify(subject, counters.Notice{Reason: v1alpha1.ReasonOverBudget, Text: err.Error(), Since: now})
	case err != nil:
		a.metrics.expressionFailures.Inc()
		a.tally.Notify(subject, counters.Notice{Reason: v1alpha1.ReasonExpressionFailed, Text: err.Error(), Since: now})
	}
}

// Suppressed implements pipeline.Reporter.
func (a *Recorder) Suppressed(id alarm.ID, why pipeline.Suppression, occurrences int64) {
	a.metrics.suppressed.WithLabelValues(string(why)).Add(float64(occurrences))
	a.tally.Add(kube.Key(id).String(), counters.Change{Suppressed: occurrences, At: a.clock.Now()})
}

// Merged implements pipeline.Reporter. In no status: what is told in another message
// is told.
func (a *Recorder) Merged(messages int64) {
	a.metrics.suppressed.WithLabelValues(string(pipeline.SuppressedByGroup)).Add(float64(messages))
}

// Folded implements pipeline.Reporter.
func (a *Recorder) Folded(id alarm.ID) {
	a.tally.Notify(kube.Key(id).String(), counters.Notice{
		Reason: v1alpha1.ReasonTooManyGroups, Since: a.clock.Now(),
		Text: "too many groups are open: what belongs to none of them is one group; group by something that has fewer values",
	})
}

// Queued implements pipeline.Reporter.
func (a *Recorder) Queued(receiver string, occurrences int64) {
	a.tally.Add(receiver, counters.Change{Matched: occurrences, At: a.clock.Now()})
}

// Reset implements pipeline.Reporter.
func (a *Recorder) Reset(ctx context.Context, text string) {
	a.metrics.resets.Inc()
	a.tellOperator(ctx, v1alpha1.ReasonPositionReset, text)
}

// LedgerReset tells that the ledger's file was set aside.
func (a *Recorder) LedgerReset(ctx context.Context, r *outbox.Recovery) {
	a.tellOperator(ctx, v1alpha1.ReasonOutboxReset,
		fmt.Sprintf("the ledger could not be read and was set aside as %s (%v); alarms continue from the mirror in the cluster", r.Path, r.Cause))
}

// tellOperator says something to whoever runs the operator.
func (a *Recorder) tellOperator(ctx context.Context, reason, text string) {
	a.log.Info(text, "reason", reason)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: checkpoint.Name}}
	err := a.recorder.Emit(ctx, object, events.Event{
		Type: corev1.EventTypeWarning, Reason: reason, Action: "TakeOver", Note: text, Since: a.clock.Now(),
	})
	if err != nil {
		a.log.Error(err, "the event could not be created", "reason", reason)
	}
}

// Delivered implements notify.Observer.
func (a *Recorder) Delivered(receiver string, d notify.Delivery, alarms outbox.Counts) {
	a.metrics.messages.WithLabelValues(string(d.Kind)).Inc()
	a.metrics.latency.Observe(d.Latency.Seconds())
	now := a.clock.Now()
	for subject, n := range alarms {
		a.metrics.delivered.Add(float64(n))
		a.tally.Add(subject, counters.Change{Delivered: n, At: now})
		a.tally.Add(receiver, counters.Change{Delivered: n, At: now})
	}
}

// Dropped implements notify.Observer.
func (a *Recorder) Dropped(receiver string, alarms outbox.Counts, cause notify.DropCause, text string) {
	now := a.clock.Now()
	notice := counters.Notice{Reason: v1alpha1.ReasonMessageDropped, Text: text, Since: now}
	for subject, n := range alarms {
		a.metrics.dropped.WithLabelValues(string(cause)).Add(float64(n))
		a.tally.Add(subject, counters.Change{Dropped: n, At: now})
		a.tally.Add(receiver, counters.Change{Dropped: n, At: now})
		a.tally.Notify(subject, notice)
	}
	a.tally.Notify(receiver, notice)
	a.log.Info("messages dropped", "receiver", receiver, "cause", cause, "text", text)
}

// Failing implements notify.Observer.
func (a *Recorder) Failing(receiver string, err *notify.SendError) {
	a.metrics.failures.WithLabelValues(err.Class.String()).Inc()
	a.tally.Touch(receiver)
	a.log.Info("delivery fails", "receiver", receiver, "reason", err.Reason, "text", err.Text)
}

// Recovered implements notify.Observer.
func (a *Recorder) Recovered(receiver string) {
	a.tally.Touch(receiver)
	a.log.Info("delivery works again", "receiver", receiver)
}

// ThreadLost implements notify.Observer.
func (a *Recorder) ThreadLost(receiver, text string) {
	a.tally.Notify(receiver, counters.Notice{Reason: v1alpha1.ReasonThreadLost, Text: text, Since: a.clock.Now()})
	a.log.Info("thread lost", "receiver", receiver, "text", text)
}
