package culling

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

const (
	// heartbeat is how often lastActivityTime is brought up to date while nothing else
	// changes.
	heartbeat = 5 * time.Minute
	// ahead is how far in the future a remembered time may be: beyond, a clock was
	// wrong when it was written.
	ahead = time.Minute
)

// Condition is a condition without its times.
type Condition struct {
	Status          metav1.ConditionStatus
	Reason, Message string
}

// Input is what is decided upon.
type Input struct {
	Settings Settings
	// Started is when the notebook's container was started; zero if it does not run.
	Started time.Time
	// Culled: it is culling that the notebook is suspended by.
	Culled bool
	// Remembered is what the status says.
	Remembered Memory
	// Record is what probes of the pod came to.
	Record Record
	Now    time.Time
}

// Decision is what the status should say, and what is to be done.
type Decision struct {
	Idle, Responding Condition
	// LastActivity and CullTime are zero if there is none.
	LastActivity, CullTime time.Time
	// Probe is nil if there is none to tell of.
	Probe *v1alpha1.ProbeResult
	// Warn: say that the notebook is culled at CullTime, and remember it.
	Warn bool
	// Cancelled: it was said, and no longer holds, since the notebook is used.
	Cancelled bool
	// Cull: stop the notebook now.
	Cull bool
	// Next is when a probe may bring about a change, if the notebook is not used.
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
		judge(in, &d)
	}
	remember(in, &d)
	return d
}

// stopped is for a notebook that does not run. That and when it was culled remains
// to be seen.
func stopped(in Input) Decision {
	d := Decision{
		Idle:         notProbed(),
		Responding:   notProbed(),
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
		m.Idle, m.Responding = notProbed(), notProbed()
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
		in.Record.used = in.Record.latest.use()
	}
}

// failing says whether the server is said not to answer.
func (in *Input) failing() bool { return in.Record.failures >= in.Settings.FailureThreshold }

// fresh says whether the last probe succeeded and tells of now.
func (in *Input) fresh() bool {
	o := in.Record.latest
	age := in.Now.Sub(o.At)
	return !o.At.IsZero() && o.Failure == "" && age <= in.Settings.fresh() && age >= -ahead
}

// lastUse is when the notebook was last used; starting it is a use.
func (in *Input) lastUse() time.Time {
	return later(in.Started, later(in.Remembered.LastActivity, in.Record.used))
}

// responding is the condition ServerResponding. A failure or two change nothing.
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

// steady keeps the message of a condition that was written a short while ago: a
// server that fails now in one way, now in another, must not have each written.
func (in *Input) steady(c Condition) Condition {
	was, probe := in.Remembered.Responding, in.Remembered.Probe
	if was.Status == c.Status && was.Reason == c.Reason && probe != nil && in.Now.Sub(probe.Time.Time).Abs() < heartbeat {
		return was
	}
	return c
}

// judge decides by a fresh successful probe.
func judge(in Input, d *Decision) {
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
	d.Idle = Condition{metav1.ConditionTrue, v1alpha1.ReasonNoActivity, noActivity(used, d.CullTime)}
	d.Next = later(d.Next, d.CullTime)
}

// earliestCull is before when no warning can have named a time that still holds:
// none that was given when the notebook was used later, or before the probes broke
// off.
func (in *Input) earliestCull(used time.Time) time.Time {
	earliest := used.Add(in.Settings.IdleTimeout)
	if !in.Record.since.IsZero() {
		earliest = later(earliest, in.Record.since.Add(in.Settings.Warning))
	}
	return earliest
}

// wholeSecond rounds up: the status keeps seconds, and must not keep an earlier one.
func wholeSecond(t time.Time) time.Time {
	if whole := t.Truncate(time.Second); whole.Before(t) {
		return whole.Add(time.Second)
	}
	return t
}

// active is the condition Idle of a notebook that is used. That a kernel is at work is
// said only where it makes a difference, or it would be said and taken back with
// every cell.
func active(in Input) Condition {
	o := in.Record.latest
	if o.Busy && !o.At.Before(later(in.Started, o.Last).Add(in.Settings.untilIdle())) {
		return Condition{metav1.ConditionFalse, v1alpha1.ReasonKernelBusy, messageBusy}
	}
	return Condition{metav1.ConditionFalse, v1alpha1.ReasonActive, messageActive(in.Settings)}
}
