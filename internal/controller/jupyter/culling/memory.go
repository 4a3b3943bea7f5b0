package culling

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

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
		return notProbed()
	}
	return Condition{c.Status, c.Reason, c.Message}
}

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

// remember says what else the status should keep: with any change all that is known,
// and otherwise what it has.
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

// stale says whether the remembered activity lies so far back that it is worth a
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

// Changes says whether the decision is one to act upon, or differs from what is
// remembered.
func (d *Decision) Changes(m Memory) bool {
	return d.Warn || d.Cull ||
		d.Idle != m.Idle || d.Responding != m.Responding ||
		!d.CullTime.Equal(m.CullTime) || !d.LastActivity.Equal(m.LastActivity)
}
