// Package accounting hears what became of occurrences and messages, and keeps
// the three accounts of it: the metrics, which are exact; the counts in status;
// and what owners must be told in an Event.
package accounting

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
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/ledger"
	"github.com/bongsu-io/bongsu/internal/mirror"
	"github.com/bongsu-io/bongsu/internal/notify"
	"github.com/bongsu-io/bongsu/internal/pipeline"
	"github.com/bongsu-io/bongsu/internal/tally"
)

// Accountant keeps the accounts.
type Accountant struct {
	tally     *tally.Tally
	metrics   *Metrics
	recorder  *kube.Recorder
	namespace string
	clock     clock.PassiveClock
	log       logr.Logger
}

var (
	_ notify.Observer   = (*Accountant)(nil)
	_ pipeline.Reporter = (*Accountant)(nil)
)

// New returns an Accountant. What concerns the operator itself becomes an Event on
// the mirror, in the operator's namespace.
func New(t *tally.Tally, m *Metrics, recorder *kube.Recorder, namespace string, clk clock.PassiveClock, log logr.Logger) *Accountant {
	return &Accountant{tally: t, metrics: m, recorder: recorder, namespace: namespace, clock: clk, log: log}
}

// Judged implements pipeline.Reporter.
func (a *Accountant) Judged(id alarm.ID, outcome alarm.Outcome, err error, occurrences int64) {
	subject := kube.Key(id).String()
	now := a.clock.Now()
	switch outcome {
	case alarm.Matched:
		a.metrics.matched.Add(float64(occurrences))
		a.tally.Add(subject, tally.Change{Matched: occurrences, At: now})
	case alarm.Unresolved:
		a.metrics.unresolved.Add(float64(occurrences))
		a.tally.Add(subject, tally.Change{Unresolved: occurrences, At: now})
	case alarm.NotMatched, alarm.Failed: // a failure is told below
	}
	switch {
	case errors.Is(err, alarm.ErrOverBudget):
		a.metrics.overBudget.Inc()
		a.tally.Notify(subject, tally.Notice{Reason: v1alpha1.ReasonOverBudget, Text: err.Error(), Since: now})
	case err != nil:
		a.metrics.expressionFailures.Inc()
		a.tally.Notify(subject, tally.Notice{Reason: v1alpha1.ReasonExpressionFailed, Text: err.Error(), Since: now})
	}
}

// Suppressed implements pipeline.Reporter.
func (a *Accountant) Suppressed(id alarm.ID, why pipeline.Suppression, occurrences int64) {
	a.metrics.suppressed.WithLabelValues(string(why)).Add(float64(occurrences))
	a.tally.Add(kube.Key(id).String(), tally.Change{Suppressed: occurrences, At: a.clock.Now()})
}

// Merged implements pipeline.Reporter. In no status: what is told in another message
// is told.
func (a *Accountant) Merged(messages int64) {
	a.metrics.suppressed.WithLabelValues(string(pipeline.SuppressedByGroup)).Add(float64(messages))
}

// Folded implements pipeline.Reporter.
func (a *Accountant) Folded(id alarm.ID) {
	a.tally.Notify(kube.Key(id).String(), tally.Notice{
		Reason: v1alpha1.ReasonTooManyGroups, Since: a.clock.Now(),
		Text: "too many groups are open: what belongs to none of them is one group; group by something that has fewer values",
	})
}

// Queued implements pipeline.Reporter.
func (a *Accountant) Queued(receiver string, occurrences int64) {
	a.tally.Add(receiver, tally.Change{Matched: occurrences, At: a.clock.Now()})
}

// Reset implements pipeline.Reporter.
func (a *Accountant) Reset(ctx context.Context, text string) {
	a.metrics.resets.Inc()
	a.tellOperator(ctx, v1alpha1.ReasonFeedReset, text)
}

// LedgerReset tells that the ledger's file was set aside.
func (a *Accountant) LedgerReset(ctx context.Context, r *ledger.Recovery) {
	a.tellOperator(ctx, v1alpha1.ReasonLedgerReset,
		fmt.Sprintf("the ledger could not be read and was set aside as %s (%v); alarms continue from the mirror in the cluster", r.Path, r.Cause))
}

// tellOperator says something to whoever runs the operator.
func (a *Accountant) tellOperator(ctx context.Context, reason, text string) {
	a.log.Info(text, "reason", reason)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: mirror.Name}}
	err := a.recorder.Emit(ctx, object, kube.Event{
		Type: corev1.EventTypeWarning, Reason: reason, Action: "TakeOver", Note: text, Since: a.clock.Now(),
	})
	if err != nil {
		a.log.Error(err, "the event could not be created", "reason", reason)
	}
}

// Delivered implements notify.Observer.
func (a *Accountant) Delivered(receiver string, d notify.Delivery, alarms ledger.Tally) {
	a.metrics.messages.WithLabelValues(string(d.Kind)).Inc()
	a.metrics.latency.Observe(d.Latency.Seconds())
	now := a.clock.Now()
	for subject, n := range alarms {
		a.metrics.delivered.Add(float64(n))
		a.tally.Add(subject, tally.Change{Delivered: n, At: now})
		a.tally.Add(receiver, tally.Change{Delivered: n, At: now})
	}
}

// Dropped implements notify.Observer.
func (a *Accountant) Dropped(receiver string, alarms ledger.Tally, cause notify.DropCause, text string) {
	now := a.clock.Now()
	notice := tally.Notice{Reason: v1alpha1.ReasonMessageDropped, Text: text, Since: now}
	for subject, n := range alarms {
		a.metrics.dropped.WithLabelValues(string(cause)).Add(float64(n))
		a.tally.Add(subject, tally.Change{Dropped: n, At: now})
		a.tally.Add(receiver, tally.Change{Dropped: n, At: now})
		a.tally.Notify(subject, notice)
	}
	a.tally.Notify(receiver, notice)
	a.log.Info("messages dropped", "receiver", receiver, "cause", cause, "text", text)
}

// Failing implements notify.Observer.
func (a *Accountant) Failing(receiver string, err *notify.SendError) {
	a.metrics.failures.WithLabelValues(err.Class.String()).Inc()
	a.tally.Touch(receiver)
	a.log.Info("delivery fails", "receiver", receiver, "reason", err.Reason, "text", err.Text)
}

// Recovered implements notify.Observer.
func (a *Accountant) Recovered(receiver string) {
	a.tally.Touch(receiver)
	a.log.Info("delivery works again", "receiver", receiver)
}

// ThreadLost implements notify.Observer.
func (a *Accountant) ThreadLost(receiver, text string) {
	a.tally.Notify(receiver, tally.Notice{Reason: v1alpha1.ReasonThreadLost, Text: text, Since: a.clock.Now()})
	a.log.Info("thread lost", "receiver", receiver, "text", text)
}
