package probe

import (
	"time"

	"github.com/bongsu-io/bongsu/pkg/healthcheck"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// State is the health of a pod.
type State string

// Values of State.
const (
	// Healthy: enough checks in a row passed.
	Healthy State = "Healthy"
	// Unhealthy: enough checks in a row failed.
	Unhealthy State = "Unhealthy"
	// Unknown: there was no check yet, or the last ones could not be made.
	Unknown State = "Unknown"
)

// Reasons of a pod that is not healthy.
const (
	// ReasonFailed: the checks fail.
	ReasonFailed = "HealthCheckFailed"
	// ReasonLeaked: the command of the check does not end, so it cannot run again.
	ReasonLeaked = "ExecLeaked"
	// ReasonUnreachable: the checks could not be made, for example because there was no
	// connection to the pod.
	ReasonUnreachable = "HealthCheckUnreachable"
	// ReasonForbidden: the operator lacks the permission for the check.
	ReasonForbidden = "ExecForbidden"
	// ReasonNotChecked: there was no check yet.
	ReasonNotChecked = "NotChecked"
)

// reasonOf returns the reason for an outcome. An unknown outcome counts as unreachable.
func reasonOf(o healthcheck.Outcome) string {
	switch o {
	case healthcheck.Failed:
		return ReasonFailed
	case healthcheck.Leaked:
		return ReasonLeaked
	case healthcheck.Forbidden:
		return ReasonForbidden
	default:
		return ReasonUnreachable
	}
}

// Thresholds are how many checks in a row change the health of a pod. They must be positive.
type Thresholds struct {
	Failure, Success int32
}

// maxMessage is the limit of a message, in bytes.
const maxMessage = 512

// History is the history of one pod's checks. It is a value, so that you can compare an old
// and a new one. The zero History means that there is none. After a restart of the operator,
// make one from the exported fields, which your status contains. Its rules:
//
//   - A pod becomes unhealthy after Failure failures without a pass in between. It becomes
//     healthy after Success passes without a failure in between. A pod that was not checked
//     before is healthy after one pass. If the operator may not make the check, one is enough.
//   - A check that could not be made is not a failure. It neither counts as one nor
//     interrupts a row of failures: a bad network must not hide an app that fails. After
//     Failure such checks without any other, the health is unknown, and earlier results no
//     longer count.
//   - The reason changes after as many checks in a row as the health.
type History struct {
	State State
	// Reason and Message say why the pod is not healthy. The message is one line of at most
	// 512 bytes.
	Reason, Message string
	// Since is when the health changed, in whole seconds as in a status. Zero means unknown.
	Since time.Time

	// passes and failures are in a row of checks that were made, misses in a row of checks
	// that could not be made.
	passes, failures, misses int32
	// kind is the reason of the last check that did not pass, and run is how many in a row
	// had it.
	kind string
	run  int32
	// ripe: the last check failed, and enough before it, in the running container.
	ripe bool
	// latest is the start of the last check, failing that of the first failure in a row,
	// and started that of the container.
	latest, failing, started time.Time
}

// Unchecked returns the history of a pod without any known check.
func Unchecked() History {
	return History{State: Unknown, Reason: ReasonNotChecked, Message: "the pod was not checked yet"}
}

// Resume returns the history with a Count. Use it if your status contains the count.
func (h History) Resume(count int32) History {
	h.kind, h.run = h.Reason, count
	if h.State == Unknown {
		h.misses = count
		return h
	}
	h.failures, h.failing = count, h.Since
	return h
}

// IsZero reports whether there is no history.
func (h History) IsZero() bool { return h.State == "" }

// Count is the number of checks in a row that led to the health. These are failures of an
// unhealthy pod, and misses of a pod whose health is unknown.
func (h History) Count() int32 {
	if h.State == Unknown {
		return h.misses
	}
	return h.failures
}

// LastCheck is when the last check began. It is zero if this process has not checked the pod.
func (h History) LastCheck() time.Time { return h.latest }

// Confirmed reports whether the last check failed, and enough checks before it, all in the
// running container. A pod is restarted only then, because a restart can help.
func (h History) Confirmed() bool { return h.ripe }

// Add returns the history with another observation. An observation that is older than the
// last changes nothing.
func (h History) Add(o healthcheck.Observation, t Thresholds) History {
	if o.At.Before(h.latest) {
		return h
	}
	if h.IsZero() {
		started := h.started
		h = Unchecked()
		h.started = started
	}
	h.latest = o.At
	switch o.Outcome {
	case healthcheck.Passed:
		h.pass(o, t)
	case healthcheck.Failed, healthcheck.Leaked:
		h.fail(o, t)
	default:
		h.miss(o, t)
	}
	return h
}

// Started returns the history of a pod whose container started at that time. Results of a
// former container no longer count. The health stays until a check changes it.
func (h History) Started(at time.Time) History {
	if at.IsZero() || at.Equal(h.started) {
		return h
	}
	restarted := !h.started.IsZero()
	h.started = at
	if restarted || h.failing.Before(at) {
		h.passes, h.failures, h.run, h.ripe = 0, 0, 0, false
	}
	return h
}

func (h *History) pass(o healthcheck.Observation, t Thresholds) {
	h.failures, h.misses, h.run, h.ripe = 0, 0, 0, false
	h.passes++
	if h.State == Healthy {
		return
	}
	if h.passes >= t.Success || h.Reason == ReasonNotChecked { // it was never reported as unhealthy
		h.turn(Healthy, "", o)
	}
}

func (h *History) fail(o healthcheck.Observation, t Thresholds) {
	h.passes, h.misses = 0, 0
	h.count(o)
	if h.failures == 0 {
		h.failing = o.At
	}
	h.failures++
	h.ripe = h.failures >= t.Failure
	if h.ripe && (h.State != Unhealthy || h.otherReason(t)) {
		h.turn(Unhealthy, h.kind, o)
	}
	h.explain(Unhealthy, o)
}

func (h *History) miss(o healthcheck.Observation, t Thresholds) {
	h.ripe = false
	h.count(o)
	h.misses++
	forbidden := o.Outcome == healthcheck.Forbidden && h.Reason != h.kind
	unreachable := h.misses >= t.Failure && (h.State != Unknown || h.otherReason(t))
	if forbidden || unreachable {
		h.turn(Unknown, h.kind, o)
		h.passes, h.failures = 0, 0
	}
	h.explain(Unknown, o)
}

// count counts checks in a row that did not pass for the same reason.
func (h *History) count(o healthcheck.Observation) {
	if kind := reasonOf(o.Outcome); kind != h.kind {
		h.kind, h.run = kind, 0
	}
	h.run++
}

// otherReason reports whether the reason has differed for as many checks as change the
// health. Otherwise two alternating reasons would each be reported.
func (h *History) otherReason(t Thresholds) bool { return h.Reason != h.kind && h.run >= t.Failure }

func (h *History) turn(to State, reason string, o healthcheck.Observation) {
	h.State, h.Reason, h.Message = to, reason, ""
	h.Since = o.At.Truncate(time.Second)
}

// explain keeps the message of a check that confirms the health.
func (h *History) explain(of State, o healthcheck.Observation) {
	if h.State == of && h.Reason == h.kind {
		h.Message = plaintext.Cut(plaintext.Line(o.Message), maxMessage)
	}
}

// IsNews reports whether the owner must be reconciled. This is so if the health of the pod or
// its reason changed, or if the pod is now Confirmed.
func IsNews(before, after History) bool {
	return before.State != after.State || before.Reason != after.Reason || !before.Since.Equal(after.Since) ||
		after.ripe && !before.ripe
}
