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

// Recorder implements the interfaces through which the pipeline and notify report.
type Recorder struct {
	counters  *counters.Counters
	metrics   *Metrics
	events    *events.Recorder
	namespace string
	clock     clock.PassiveClock
	log       logr.Logger
}

var (
	_ notify.Observer   = (*Recorder)(nil)
	_ pipeline.Reporter = (*Recorder)(nil)
)

// NewRecorder returns a Recorder. It emits Events about the operator itself for the
// checkpoint, in the operator's namespace.
func NewRecorder(c *counters.Counters, m *Metrics, recorder *events.Recorder, namespace string, clk clock.PassiveClock, log logr.Logger) *Recorder {
	return &Recorder{counters: c, metrics: m, events: recorder, namespace: namespace, clock: clk, log: log}
}

// Evaluated implements pipeline.Reporter.
func (r *Recorder) Evaluated(id alarm.ID, outcome match.Outcome, err error, occurrences int64) {
	subject := kube.Key(id).String()
	now := r.clock.Now()
	switch outcome {
	case match.Matched:
		r.metrics.matched.Add(float64(occurrences))
		r.counters.Add(subject, counters.Change{Matched: occurrences, At: now})
	case match.Unresolved:
		r.metrics.unresolved.Add(float64(occurrences))
		r.counters.Add(subject, counters.Change{Unresolved: occurrences, At: now})
	case match.NotMatched, match.Failed: // failures are reported below
	}
	switch {
	case errors.Is(err, match.ErrOverBudget):
		r.metrics.overBudget.Inc()
		r.counters.Notify(subject, counters.Notice{Reason: v1alpha1.ReasonOverBudget, Text: err.Error(), Since: now})
	case err != nil:
		r.metrics.expressionFailures.Inc()
		r.counters.Notify(subject, counters.Notice{Reason: v1alpha1.ReasonExpressionFailed, Text: err.Error(), Since: now})
	}
}

// Suppressed implements pipeline.Reporter.
func (r *Recorder) Suppressed(id alarm.ID, why pipeline.Suppression, occurrences int64) {
	r.metrics.suppressed.WithLabelValues(string(why)).Add(float64(occurrences))
	r.counters.Add(kube.Key(id).String(), counters.Change{Suppressed: occurrences, At: r.clock.Now()})
}

// Merged implements pipeline.Reporter. The status does not count these messages as
// suppressed, because other messages contain their occurrences.
func (r *Recorder) Merged(messages int64) {
	r.metrics.suppressed.WithLabelValues(string(pipeline.SuppressedByGroup)).Add(float64(messages))
}

// GroupLimitReached implements pipeline.Reporter.
func (r *Recorder) GroupLimitReached(id alarm.ID) {
	r.counters.Notify(kube.Key(id).String(), counters.Notice{
		Reason: v1alpha1.ReasonTooManyGroups, Since: r.clock.Now(),
		Text: "too many groups are open, so occurrences of further groups share one: group by a key with fewer values",
	})
}

// Queued implements pipeline.Reporter.
func (r *Recorder) Queued(receiver string, occurrences int64) {
	r.counters.Add(receiver, counters.Change{Matched: occurrences, At: r.clock.Now()})
}

// Reset implements pipeline.Reporter.
func (r *Recorder) Reset(ctx context.Context, text string) {
	r.metrics.resets.Inc()
	r.emitOperatorEvent(ctx, v1alpha1.ReasonEventPositionReset, text)
}

// OutboxReset reports that the file of the outbox was set aside.
func (r *Recorder) OutboxReset(ctx context.Context, recovery *outbox.Recovery) {
	r.emitOperatorEvent(ctx, v1alpha1.ReasonOutboxReset,
		fmt.Sprintf("the outbox could not be read and was set aside as %s (%v): alarms continue from the checkpoint in the cluster", recovery.Path, recovery.Cause))
}

// emitOperatorEvent logs a text and emits it as an Event for the administrator.
func (r *Recorder) emitOperatorEvent(ctx context.Context, reason, text string) {
	r.log.Info(text, "reason", reason)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: checkpoint.Name}}
	err := r.events.Emit(ctx, object, events.Event{
		Type: corev1.EventTypeWarning, Reason: reason, Action: "TakeOver", Note: text, Since: r.clock.Now(),
	})
	if err != nil {
		r.log.Error(err, "the Event could not be created", "reason", reason)
	}
}

// Delivered implements notify.Observer.
func (r *Recorder) Delivered(receiver string, d notify.Delivery, alarms outbox.Counts) {
	r.metrics.messages.WithLabelValues(string(d.Kind)).Inc()
	r.metrics.latency.Observe(d.Latency.Seconds())
	now := r.clock.Now()
	for subject, n := range alarms {
		r.metrics.delivered.Add(float64(n))
		r.counters.Add(subject, counters.Change{Delivered: n, At: now})
		r.counters.Add(receiver, counters.Change{Delivered: n, At: now})
	}
}

// Dropped implements notify.Observer.
func (r *Recorder) Dropped(receiver string, alarms outbox.Counts, cause notify.DropCause, text string) {
	now := r.clock.Now()
	notice := counters.Notice{Reason: v1alpha1.ReasonMessageDropped, Text: text, Since: now}
	for subject, n := range alarms {
		r.metrics.dropped.WithLabelValues(string(cause)).Add(float64(n))
		r.counters.Add(subject, counters.Change{Dropped: n, At: now})
		r.counters.Add(receiver, counters.Change{Dropped: n, At: now})
		r.counters.Notify(subject, notice)
	}
	r.counters.Notify(receiver, notice)
	r.log.Info("messages dropped", "receiver", receiver, "cause", cause, "text", text)
}

// Failing implements notify.Observer.
func (r *Recorder) Failing(receiver string, err *notify.SendError) {
	r.metrics.failures.WithLabelValues(err.Class.String()).Inc()
	r.counters.MarkChanged(receiver)
	r.log.Info("delivery fails", "receiver", receiver, "reason", err.Reason, "text", err.Text)
}

// Recovered implements notify.Observer.
func (r *Recorder) Recovered(receiver string) {
	r.counters.MarkChanged(receiver)
	r.log.Info("delivery works again", "receiver", receiver)
}

// ThreadLost implements notify.Observer.
func (r *Recorder) ThreadLost(receiver, text string) {
	r.counters.Notify(receiver, counters.Notice{Reason: v1alpha1.ReasonThreadLost, Text: text, Since: r.clock.Now()})
	r.log.Info("thread lost", "receiver", receiver, "text", text)
}
