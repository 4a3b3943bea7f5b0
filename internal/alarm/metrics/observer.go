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
	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/counters"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox/file"
	"github.com/bongsu-io/bongsu/internal/alarm/pipeline"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/events"
)

// Observer implements the interfaces through which the pipeline and notify report.
type Observer struct {
	counters  *counters.Counters
	metrics   *Metrics
	events    *events.Recorder
	namespace string
	clock     clock.PassiveClock
	log       logr.Logger
}

var (
	_ notify.Observer   = (*Observer)(nil)
	_ pipeline.Reporter = (*Observer)(nil)
)

// NewObserver returns an Observer. It emits Events about the operator itself for the
// checkpoint, in the operator's namespace.
func NewObserver(c *counters.Counters, m *Metrics, recorder *events.Recorder, namespace string, clk clock.PassiveClock, log logr.Logger) *Observer {
	return &Observer{counters: c, metrics: m, events: recorder, namespace: namespace, clock: clk, log: log}
}

// Evaluated implements pipeline.Reporter.
func (r *Observer) Evaluated(id kube.Key, outcome match.Outcome, err error, occurrences int64) {
	subject := id.String()
	now := r.clock.Now()
	switch outcome {
	case match.Matched:
		r.metrics.matched.Add(float64(occurrences))
	case match.Unresolved:
		r.metrics.unresolved.Add(float64(occurrences))
	case match.Undecided:
		r.metrics.undecided.Add(float64(occurrences))
	case match.NotMatched, match.Failed: // failures are reported below
	}
	overBudget, ok := errors.AsType[*match.OverBudgetError](err)
	_, misrouted := errors.AsType[*match.NoReceiverError](err)
	switch {
	case outcome == match.Undecided:
		r.counters.Notify(subject, counters.Notice{Reason: v1alpha1.ReasonObjectUnreadable, Text: err.Error(), Since: now})
	case ok:
		r.metrics.overBudget.Inc()
		r.counters.Notify(subject, counters.Notice{Reason: v1alpha1.ReasonOverBudget, Text: overBudget.Error(), Since: now})
	case misrouted:
		r.counters.Notify(subject, counters.Notice{Reason: v1alpha1.ReasonNoReceiver, Text: err.Error(), Since: now})
	case err != nil:
		r.metrics.expressionFailures.Inc()
		r.counters.Notify(subject, counters.Notice{Reason: v1alpha1.ReasonExpressionFailed, Text: err.Error(), Since: now})
	}
}

// Suppressed implements pipeline.Reporter.
func (r *Observer) Suppressed(why pipeline.Suppression, occurrences int64) {
	r.metrics.suppressed.WithLabelValues(string(why)).Add(float64(occurrences))
}

// Merged implements pipeline.Reporter. The status does not count these messages as
// suppressed, because other messages contain their occurrences.
func (r *Observer) Merged(messages int64) {
	r.metrics.suppressed.WithLabelValues(string(pipeline.SuppressedByGroup)).Add(float64(messages))
}

// GroupLimitReached implements pipeline.Reporter.
func (r *Observer) GroupLimitReached(id kube.Key) {
	r.counters.Notify(id.String(), counters.Notice{
		Reason: v1alpha1.ReasonTooManyGroups, Since: r.clock.Now(),
		Text: "groups or thresholds reached a limit, so further occurrences share a group or have none: group by a key with fewer values",
	})
}

// Reset implements pipeline.Reporter.
func (r *Observer) Reset(ctx context.Context, text string) {
	r.metrics.resets.Inc()
	r.emitOperatorEvent(ctx, v1alpha1.ReasonEventPositionReset, text)
}

// OutboxReset reports that the file of the outbox was set aside.
func (r *Observer) OutboxReset(ctx context.Context, recovery *file.Recovery) {
	r.emitOperatorEvent(ctx, v1alpha1.ReasonOutboxReset,
		fmt.Sprintf("the outbox could not be read and was set aside as %s (%v): alarms continue from the checkpoint in the cluster", recovery.Path, recovery.Cause))
}

// emitOperatorEvent logs a text and emits it as an Event for the administrator.
func (r *Observer) emitOperatorEvent(ctx context.Context, reason, text string) {
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
func (r *Observer) Delivered(_ string, d notify.Delivery, alarms outbox.Counts) {
	r.metrics.messages.WithLabelValues(string(d.Kind)).Add(float64(d.Messages))
	r.metrics.latency.Observe(d.Latency.Seconds())
	for _, n := range alarms {
		r.metrics.delivered.Add(float64(n))
	}
}

// Dropped implements notify.Observer.
func (r *Observer) Dropped(receiver string, alarms outbox.Counts, cause notify.DropCause, text string) {
	now := r.clock.Now()
	notice := counters.Notice{Reason: v1alpha1.ReasonMessageDropped, Text: text, Since: now}
	forAlarm := notice
	if cause == notify.DropOverflow {
		forAlarm.Reason = v1alpha1.ReasonOverBudget
	}
	for subject, n := range alarms {
		r.metrics.dropped.WithLabelValues(string(cause)).Add(float64(n))
		r.counters.Notify(subject, forAlarm)
	}
	r.counters.Notify(receiver, notice)
	r.log.Info("messages dropped", "receiver", receiver, "cause", cause, "text", text)
}

// Failing implements notify.Observer.
func (r *Observer) Failing(receiver string, err *notify.SendError) {
	r.metrics.failures.WithLabelValues(err.Class.String()).Inc()
	r.counters.MarkChanged(receiver)
	r.log.Info("delivery fails", "receiver", receiver, "reason", err.Reason, "text", err.Text)
}

// Changed implements notify.Observer.
func (r *Observer) Changed(receiver string) { r.counters.MarkChanged(receiver) }

// BatchRefused implements notify.Observer.
func (r *Observer) BatchRefused(receiver string, messages int64, err *notify.SendError) {
	r.metrics.failures.WithLabelValues(err.Class.String()).Inc()
	r.log.Info("several messages refused together, they are sent alone", "receiver", receiver, "messages", messages, "reason", err.Reason, "text", err.Text)
}

// Recovered implements notify.Observer.
func (r *Observer) Recovered(receiver string) {
	r.counters.MarkChanged(receiver)
	r.log.Info("delivery works again", "receiver", receiver)
}

// ThreadLost implements notify.Observer.
func (r *Observer) ThreadLost(receiver, text string) {
	r.counters.Notify(receiver, counters.Notice{Reason: v1alpha1.ReasonThreadLost, Text: text, Since: r.clock.Now()})
	r.log.Info("thread lost", "receiver", receiver, "text", text)
}

// BodyFailed reports that an expression in the body of a webhook failed.
func (r *Observer) BodyFailed(receiver, text string) {
	r.metrics.expressionFailures.Inc()
	r.counters.Notify(receiver, counters.Notice{Reason: v1alpha1.ReasonExpressionFailed, Text: text, Since: r.clock.Now()})
}
