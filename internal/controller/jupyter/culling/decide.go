// Package culling decides whether a notebook is unused, when to warn, and when to stop it.
// It is pure: the results of probes and the time are inputs.
//
// Its rules:
//
//   - Only a successful probe culls. It began at or after the time in the warning, and
//     found the notebook unused for the whole idle timeout. A failed, old or missing
//     probe never culls.
//   - The warning comes first. Use of the notebook cancels it, and so does a server that
//     stops answering.
//   - A start is a use: a resumed notebook has its whole time again.
//   - If probes stop for a while, or the clock jumps, the warning is repeated.
//   - The status contains enough to continue after a restart of the operator, also
//     during a warning.
//   - The status changes with a condition, with the time of culling, and otherwise every
//     five minutes at most.
//
// The package does not emit Events and writes nothing.
package culling

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

const (
	// heartbeat is how often lastActivityTime is updated while nothing else changes.
	heartbeat = 5 * time.Minute
	// ahead is how far in the future a time in the status may be. Beyond it, a clock was
	// wrong.
	ahead = time.Minute
)

// Condition is a condition without its times.
type Condition struct {
	Status          metav1.ConditionStatus
	Reason, Message string
}

// Input is the input of a decision.
type Input struct {
	// Disabled: spec.culling is not set. The other fields do not matter.
	Disabled bool
	Settings Settings
	// Started is when the notebook's container started; zero if it does not run.
	Started time.Time
	// Culled: culling has suspended the notebook.
	Culled bool
	// Remembered is the content of the status.
	Remembered Memory
	// Record contains the probes of the pod.
	Record Record
	Now    time.Time
}

// Decision is the new content of the status, and what to do.
type Decision struct {
	Idle, Responding Condition
	// LastActivity and CullTime are zero if there is none.
	LastActivity, CullTime time.Time
	// Probe is nil if there is none to show.
	Probe *v1alpha1.ProbeResult
	// Warn: the notebook is culled at CullTime. Write that to the status and emit the
	// warning.
	Warn bool
	// Cancelled: a former warning no longer holds, because the notebook is used.
	Cancelled bool
	// Cull: stop the notebook now.
	Cull bool
	// Next is when a probe may change the decision if the notebook stays unused.
	Next time.Time
}

// Decide decides.
func Decide(in Input) Decision {
	if in.Started.IsZero() {
		return stopped(in)
	}
	in.forget()
	d := Decision{Responding: responding(in), Next: in.Now.Add(in.Settings.Period)}
	switch {
	case in.failing():
		d.Idle = Condition{metav1.ConditionUnknown, v1alpha1.ReasonProbeFailing, messageUnknown}
	case !in.fresh():
		d.Idle, d.CullTime = in.Remembered.Idle, in.Remembered.CullTime
	default:
		evaluate(in, &d)
	}
	remember(in, &d)
	return d
}

// stopped is the decision for a notebook that does not run. The time of its culling stays
// in the status.
func stopped(in Input) Decision {
	idle := notProbed(messageStopped)
	if in.Disabled {
		idle = notProbed(messageDisabled)
	}
	d := Decision{
		Idle:         idle,
		Responding:   idle,
		LastActivity: in.Remembered.LastActivity,
		Probe:        in.Remembered.Probe,
		Next:         in.Now.Add(in.Settings.Period),
	}
	if in.Culled {
		d.CullTime = in.Remembered.CullTime
	}
	return d
}

// forget drops what comes from a former start of the notebook, or from a clock that was
// wrong.
func (in *Input) forget() {
	m := &in.Remembered
	if m.Probe == nil || m.Probe.Time.Time.Before(in.Started) {
		waits := notProbed(notAnswered(in.Settings))
		m.Idle, m.Responding = waits, waits
	}
	if m.CullTime.Before(in.Started) {
		m.CullTime = time.Time{}
	}
	if m.LastActivity.After(in.Now.Add(ahead)) {
		m.LastActivity = time.Time{}
	}
	if in.Record.latest.At.Before(in.Started) {
		in.Record = Record{}
	}
	if in.Record.used.After(in.Now.Add(ahead)) {
		in.Record.used = time.Time{}
	}
	// Other settings may have counted something else when the probe was added.
	in.Record.used = later(in.Record.used, in.Record.latest.use(in.Settings))
}

// failing reports whether the server does not answer.
func (in *Input) failing() bool { return in.Record.failures >= in.Settings.FailureThreshold }

// fresh reports whether the last probe succeeded and shows the present.
func (in *Input) fresh() bool {
	o := in.Record.latest
	age := in.Now.Sub(o.At)
	return !o.At.IsZero() && o.Failure == "" && age <= in.Settings.fresh() && age >= -ahead
}

// lastUse is when the notebook was last used. A start is a use.
func (in *Input) lastUse() time.Time {
	return later(in.Started, later(in.Remembered.LastActivity, in.Record.used))
}

// responding is the condition ServerResponding. One or two failures change nothing.
func responding(in Input) Condition {
	switch {
	case in.failing():
		return in.steady(Condition{metav1.ConditionFalse, v1alpha1.ReasonProbeFailing, failing(in.Record.latest.Failure)})
	case in.Record.failures == 0 && !in.Record.latest.At.IsZero():
		return Condition{metav1.ConditionTrue, v1alpha1.ReasonResponding, messageResponding}
	default:
		return in.Remembered.Responding
	}
}

// steady keeps a recent message. Otherwise a server that fails in alternating ways would
// cause a write each time.
func (in *Input) steady(c Condition) Condition {
	was, probe := in.Remembered.Responding, in.Remembered.Probe
	if was.Status == c.Status && was.Reason == c.Reason && probe != nil && in.Now.Sub(probe.Time.Time).Abs() < heartbeat {
		return was
	}
	return c
}

// evaluate decides by a recent successful probe.
func evaluate(in Input, d *Decision) {
	used, o := in.lastUse(), in.Record.latest
	idleAt := used.Add(in.Settings.untilIdle())
	if o.Busy || o.At.Before(idleAt) {
		d.Idle = active(in)
		d.Cancelled = !in.Remembered.CullTime.IsZero()
		d.Next = later(d.Next, idleAt)
		return
	}
	d.CullTime = in.Remembered.CullTime
	switch earliest := in.earliestCull(used); {
	case d.CullTime.Before(earliest.Add(-time.Second)): // it is remembered in seconds
		d.CullTime, d.Warn = wholeSecond(later(in.Now.Add(in.Settings.Warning), earliest)), true
	case !o.At.Before(d.CullTime):
		d.Cull = true
	}
	d.Idle = Condition{metav1.ConditionTrue, v1alpha1.ReasonNoActivity, noActivity(in.Settings, used, d.CullTime)}
	d.Next = later(d.Next, d.CullTime)
}

// earliestCull is the earliest time that a valid warning can contain. Warnings before the
// last use, or before a gap between probes, are not valid.
func (in *Input) earliestCull(used time.Time) time.Time {
	earliest := used.Add(in.Settings.IdleTimeout)
	if !in.Record.since.IsZero() {
		earliest = later(earliest, in.Record.since.Add(in.Settings.Warning))
	}
	return earliest
}

// wholeSecond rounds up: the status keeps seconds, and must not keep an earlier time.
func wholeSecond(t time.Time) time.Time {
	if whole := t.Truncate(time.Second); whole.Before(t) {
		return whole.Add(time.Second)
	}
	return t
}

// active is the condition Idle of a notebook in use. It reports a busy kernel or an open
// terminal only if that prevents culling. Otherwise it would change with every cell.
func active(in Input) Condition {
	o, until := in.Record.latest, in.Record.latest.terminalUntil(in.Settings)
	unused := !o.At.Before(later(in.Started, o.last(in.Settings)).Add(in.Settings.untilIdle()))
	switch {
	case unused && o.Busy:
		return Condition{metav1.ConditionFalse, v1alpha1.ReasonKernelBusy, messageBusy}
	case unused && o.At.Before(until):
		return Condition{metav1.ConditionFalse, v1alpha1.ReasonTerminalOpen, terminalOpen(until)}
	}
	return Condition{metav1.ConditionFalse, v1alpha1.ReasonActive, messageActive(in.Settings)}
}

// Messages do not change while nothing changes: each change is a write.
const (
	messageDisabled   = "spec.culling is not set, so the notebook is not asked whether it is used, and is never culled"
	messageStopped    = "the notebook does not run: it is asked whether it is used when it runs"
	messageResponding = "the notebook says whether it is used"
	messageUnknown    = "the notebook does not say whether it is used, so it is not culled; see ServerResponding"
	messageBusy       = "the notebook was not used for long, but a kernel is busy, so it is not culled"
)

// maxMessage is the limit of status.lastProbe.message.
const maxMessage = 512

func notProbed(message string) Condition {
	return Condition{metav1.ConditionUnknown, v1alpha1.ReasonNotProbed, message}
}

func notAnswered(s Settings) string {
	return fmt.Sprintf("the notebook has not said yet whether it is used: it is asked every %s", s.Period)
}

func messageActive(s Settings) string {
	return fmt.Sprintf("the notebook was started or used within the last %s", s.untilIdle())
}

func terminalOpen(until time.Time) string {
	return fmt.Sprintf("the notebook was not used for long, but a terminal is open, which counts as use until %s: to free the resources earlier, close it",
		stamp(until))
}

func noActivity(s Settings, used, cullTime time.Time) string {
	return fmt.Sprintf("the notebook has not been used since %s: it stops at %s unless you %s; its claim stays",
		stamp(used), stamp(cullTime), s.whatToDo())
}

// Warning is the text that announces the stop of a notebook.
func Warning(s Settings, cullTime time.Time) string {
	return fmt.Sprintf("the notebook is unused: it stops at %s unless you %s; its claim stays", stamp(cullTime), s.whatToDo())
}

func failing(failure string) string {
	return "the notebook does not say whether it is used: " + plaintext.Cut(failure, maxMessage)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
