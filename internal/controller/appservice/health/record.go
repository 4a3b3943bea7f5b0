package health

import (
	"time"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// Healthy is the health of a pod that a status does not list.
const Healthy v1alpha1.PodHealth = "Healthy"

// maxMessage is the limit of a message in status.podStatuses, in bytes.
const maxMessage = 512

// Record is what the checks of one pod came to. It is a value: it is kept by whoever
// has the pod checked, and what it was is compared with what it is. The zero Record
// is none: see Restore.
type Record struct {
	// Health, Reason and Message are what is said of the pod; of a healthy one only the
	// first.
	Health          v1alpha1.PodHealth
	Reason, Message string
	// Since is when it turned so, in whole seconds, as a status keeps it. Zero: not
	// known.
	Since time.Time

	// passes and failures are in a row of checks that were made, misses in a row of
	// those that were not.
	passes, failures, misses int32
	// kind is the reason that the last check did not pass for, and run how many in a row
	// had it.
	kind string
	run  int32
	// ripe: the last check failed, and so did enough before it, in the container that
	// runs.
	ripe bool
	// latest is when the last check was begun, failing the first of the row of failures,
	// and started when the container was.
	latest, failing, started time.Time
}

// unchecked is the record of a pod that nothing is known of.
func unchecked() Record {
	return Record{Health: v1alpha1.PodHealthUnknown, Reason: v1alpha1.ReasonNotChecked, Message: messageNotChecked}
}

// IsZero says whether there is no record.
func (r Record) IsZero() bool { return r.Health == "" }

// Count is how many checks in a row speak for what the record says: that failed of an
// unhealthy pod, that could not be made of one whose health is unknown.
func (r Record) Count() int32 {
	if r.Health == v1alpha1.PodHealthUnknown {
		return r.misses
	}
	return r.failures
}

// Add returns the record with a further observation. One that is older than the last
// changes nothing.
func (r Record) Add(o Observation, t Thresholds) Record {
	if o.At.Before(r.latest) {
		return r
	}
	if r.IsZero() {
		started := r.started
		r = unchecked()
		r.started = started
	}
	r.latest = o.At
	switch o.Outcome {
	case Passed:
		r.pass(o, t)
	case Failed, Leaked:
		r.fail(o, t)
	default:
		r.miss(o, t)
	}
	return r
}

// Started returns the record of a pod whose container was started at that time: what
// was counted in a former one no longer counts. What is said of the pod remains until
// a check says otherwise.
func (r Record) Started(at time.Time) Record {
	if at.IsZero() || at.Equal(r.started) {
		return r
	}
	restarted := !r.started.IsZero()
	r.started = at
	if restarted || r.failing.Before(at) {
		r.passes, r.failures, r.run, r.ripe = 0, 0, 0, false
	}
	return r
}

func (r *Record) pass(o Observation, t Thresholds) {
	r.failures, r.misses, r.run, r.ripe = 0, 0, 0, false
	r.passes++
	if r.Health == Healthy {
		return
	}
	if r.passes >= t.Success || r.Reason == v1alpha1.ReasonNotChecked { // that was never said to be unwell
		r.turn(Healthy, "", o)
	}
}

func (r *Record) fail(o Observation, t Thresholds) {
	r.passes, r.misses = 0, 0
	r.count(o)
	if r.failures == 0 {
		r.failing = o.At
	}
	r.failures++
	r.ripe = r.failures >= t.Failure
	if r.ripe && (r.Health != v1alpha1.PodUnhealthy || r.otherReason(t)) {
		r.turn(v1alpha1.PodUnhealthy, r.kind, o)
	}
	r.explain(v1alpha1.PodUnhealthy, o)
}

func (r *Record) miss(o Observation, t Thresholds) {
	r.ripe = false
	r.count(o)
	r.misses++
	forbidden := o.Outcome == Forbidden && r.Reason != r.kind
	unreachable := r.misses >= t.Failure && (r.Health != v1alpha1.PodHealthUnknown || r.otherReason(t))
	if forbidden || unreachable {
		r.turn(v1alpha1.PodHealthUnknown, r.kind, o)
		r.passes, r.failures = 0, 0
	}
	r.explain(v1alpha1.PodHealthUnknown, o)
}

// count counts checks that did not pass for one reason.
func (r *Record) count(o Observation) {
	if kind := o.Outcome.reason(); kind != r.kind {
		r.kind, r.run = kind, 0
	}
	r.run++
}

// otherReason says whether the reason has been another for as long as it takes to
// turn: two that alternate must not each be told.
func (r *Record) otherReason(t Thresholds) bool { return r.Reason != r.kind && r.run >= t.Failure }

func (r *Record) turn(to v1alpha1.PodHealth, reason string, o Observation) {
	r.Health, r.Reason, r.Message = to, reason, ""
	r.Since = o.At.Truncate(time.Second)
}

// explain keeps the message of a check that speaks for what is said.
func (r *Record) explain(of v1alpha1.PodHealth, o Observation) {
	if r.Health == of && r.Reason == r.kind {
		r.Message = plaintext.Cut(o.Message, maxMessage)
	}
}

// IsNews says whether a record that has become another is worth a look at the whole
// app: the pod turned, or may now be restarted. What else changes waits for the next
// look, which Summary.Next bounds.
func IsNews(before, after Record) bool {
	return before.Health != after.Health || before.Reason != after.Reason || !before.Since.Equal(after.Since) ||
		after.ripe && !before.ripe
}
