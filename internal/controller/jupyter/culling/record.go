package culling

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// Observation is the result of one probe.
type Observation struct {
	// At is when the probe began. It knows nothing of later use.
	At time.Time
	// Failure is why the probe failed; empty if it succeeded.
	Failure string
	// Server is when the server was last used, by its own count.
	Server time.Time
	// Kernels and Terminals are when one that exists was last used. They are zero if none
	// exists.
	Kernels, Terminals time.Time
	// Busy means that a kernel executes something.
	Busy bool
	// Detail describes what exists, for people.
	Detail string
}

// Record contains the probes of one pod in this process. The zero Record is that of a pod
// without probes.
type Record struct {
	latest   Observation
	failures int
	// used is the latest use that a probe has found.
	used time.Time
	// since is when probes continued after a gap or a jump of the clock. Zero means never.
	since time.Time
}

// Add returns the record with a further observation, which must not be older.
func (r Record) Add(o Observation, s Settings) Record {
	o.At = o.At.Round(0) // a jump shows in the wall clock only
	if gap := o.At.Sub(r.latest.At); !r.latest.At.IsZero() && (gap < 0 || gap > s.fresh()) {
		r.since = o.At
	}
	r.latest = o
	if o.Failure != "" {
		r.failures++
		return r
	}
	r.failures = 0
	r.used = later(r.used, o.use(s))
	return r
}

// use is the latest use that an observation shows.
func (o Observation) use(s Settings) time.Time {
	used := o.last(s)
	switch until := o.terminalUntil(s); {
	case o.Busy || o.At.Before(until):
		used = later(used, o.At)
	default:
		used = later(used, until)
	}
	return used
}

// last is the latest activity that counts.
func (o Observation) last(s Settings) time.Time {
	switch s.Activity {
	case v1alpha1.CullingActivityKernels:
		return o.Kernels
	case v1alpha1.CullingActivityServer:
		return later(o.Server, later(o.Kernels, o.Terminals))
	default:
		return later(o.Kernels, o.Terminals)
	}
}

// terminalUntil is until when an open terminal counts as use; zero if none does.
func (o Observation) terminalUntil(s Settings) time.Time {
	if s.Activity != v1alpha1.CullingActivityKernelsAndTerminals || o.Terminals.IsZero() {
		return time.Time{}
	}
	return o.Terminals.Add(s.OpenTerminal)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Settings is spec.culling.
type Settings struct {
	// Activity is what counts as use.
	Activity v1alpha1.CullingActivity
	// OpenTerminal is how long an open terminal counts as use after its last activity.
	OpenTerminal time.Duration

	IdleTimeout, Warning, Period, Timeout time.Duration
	FailureThreshold                      int

	// Failing is how long a notebook may fail before it is stopped, and FailingWarning how long
	// before the stop this is announced. Failing is zero if it is not stopped.
	Failing, FailingWarning time.Duration
}

// SettingsOf reads spec.culling. An object that is older than a field lacks its default.
func SettingsOf(c v1alpha1.JupyterCulling) Settings {
	activity := c.Activity
	if activity == "" {
		activity = v1alpha1.CullingActivityKernelsAndTerminals
	}
	idle, failing := seconds(c.IdleTimeoutSeconds, 3600), seconds(ptr.Deref(c.FailingSeconds, 0), 0)
	return Settings{
		Activity:         activity,
		OpenTerminal:     time.Duration(ptr.Deref(c.OpenTerminalSeconds, 86400)) * time.Second,
		IdleTimeout:      idle,
		Warning:          warningBefore(c.WarningSeconds, idle),
		Period:           seconds(c.PeriodSeconds, 60),
		Timeout:          seconds(c.TimeoutSeconds, 5),
		FailureThreshold: int(orDefault(c.FailureThreshold, 3)),
		Failing:          failing,
		FailingWarning:   warningBefore(c.WarningSeconds, failing),
	}
}

// warningBefore returns how long before the end of a time a warning comes. A user who sets a short
// time need not set the warning too.
func warningBefore(set *int32, end time.Duration) time.Duration {
	const usual = 5 * time.Minute
	if set != nil {
		return time.Duration(*set) * time.Second
	}
	return min(usual, end/2)
}

func seconds(n, unset int32) time.Duration {
	return time.Duration(orDefault(n, unset)) * time.Second
}

func orDefault(n, unset int32) int32 {
	if n == 0 {
		return unset
	}
	return n
}

// whatToDo is how the user of an idle notebook prevents its stop.
func (s Settings) whatToDo() string {
	switch s.Activity {
	case v1alpha1.CullingActivityKernels:
		return "run code in a kernel"
	case v1alpha1.CullingActivityServer:
		return "use it"
	default:
		return "run code in a kernel or use a terminal"
	}
}

// untilIdle is how long a notebook is unused before it is idle.
func (s Settings) untilIdle() time.Duration { return max(0, s.IdleTimeout-s.Warning) }

// fresh is the largest age of a probe that shows the present, and the largest gap between
// two probes in a row.
func (s Settings) fresh() time.Duration { return 2*s.Period + s.Timeout }

// Memory is what the status contains.
type Memory struct {
	Idle, Responding Condition
	// LastActivity and CullTime are zero if there is none.
	LastActivity, CullTime time.Time
	// Probe is the one that led to the conditions; nil if there was none.
	Probe *v1alpha1.ProbeResult
}

// MemoryOf reads a status.
func MemoryOf(status *v1alpha1.JupyterStatus) Memory {
	return Memory{
		Idle:         conditionOf(status, v1alpha1.ConditionIdle),
		Responding:   conditionOf(status, v1alpha1.ConditionServerResponding),
		LastActivity: timeOf(status.LastActivityTime),
		CullTime:     timeOf(status.CullTime),
		Probe:        status.LastProbe,
	}
}

func conditionOf(status *v1alpha1.JupyterStatus, kind string) Condition {
	c := meta.FindStatusCondition(status.Conditions, kind)
	if c == nil {
		return notProbed(messageStopped)
	}
	return Condition{c.Status, c.Reason, c.Message}
}

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

// remember sets what else the status keeps: all that is known if a condition changes, and
// otherwise what it has.
func remember(in Input, d *Decision) {
	m := in.Remembered
	d.LastActivity, d.Probe = m.LastActivity, m.Probe
	used := in.lastUse()
	changed := d.Idle != m.Idle || d.Responding != m.Responding || !d.CullTime.Equal(m.CullTime)
	if !changed && !in.stale(used) {
		return
	}
	if in.Record.latest.At.IsZero() {
		return
	}
	d.LastActivity = used
	d.Probe = probeResult(in.Record.latest)
}

// stale reports whether the activity in the status is so old that an update is worth a
// write.
func (in *Input) stale(used time.Time) bool {
	return in.Remembered.LastActivity.IsZero() || used.Sub(in.Remembered.LastActivity) >= heartbeat
}

func probeResult(o Observation) *v1alpha1.ProbeResult {
	r := &v1alpha1.ProbeResult{Time: metav1.NewTime(o.At), Result: "Success", Message: o.Detail}
	if o.Failure != "" {
		r.Result, r.Message = "Failure", o.Failure
	}
	r.Message = plaintext.Cut(r.Message, maxMessage)
	return r
}

// Changes reports whether the decision needs an action, or differs from the status.
func (d *Decision) Changes(m Memory) bool {
	return d.Warn || d.Cull ||
		d.Idle != m.Idle || d.Responding != m.Responding ||
		!d.CullTime.Equal(m.CullTime) || !d.LastActivity.Equal(m.LastActivity)
}
