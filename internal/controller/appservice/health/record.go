// Package health decides which pods of an app are unhealthy, what its status contains,
// which Events are due, and which pod is restarted. It is pure: observations, the status
// and the time are inputs.
//
// Its rules:
//
//   - A pod changes its health only after several checks in a row. It becomes unhealthy
//     after failureThreshold failures without a pass in between, and healthy after
//     successThreshold passes without a failure in between. If the operator may not
//     make the check, one is enough.
//   - A check that could not be made is not a failure. It neither counts as one nor
//     interrupts a row of failures: a bad network must not hide an app that fails.
//     After failureThreshold such checks without any other, the health of the pod is
//     unknown, and earlier results no longer count.
//   - The status changes when the health of a pod changes, and otherwise every five
//     minutes at most.
//   - After a restart of the operator, the status stays until a check changes it. No
//     Event is repeated.
//   - Only a pod whose last check failed is restarted, if all failures of the row
//     happened in its present container.
//
// The package does not emit Events, write the status, or evict pods.
package health

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// Outcome is the result of a check.
type Outcome string

// Values of Outcome.
const (
	// Passed: the app is healthy.
	Passed Outcome = "Passed"
	// Failed: the check was made, and the app is not healthy.
	Failed Outcome = "Failed"
	// Leaked: the command of a check did not end in time and may still run. This is a
	// failure.
	Leaked Outcome = "Leaked"
	// Unreachable: the check could not be made, so the health of the app is not known.
	Unreachable Outcome = "Unreachable"
	// Forbidden: the operator may not make the check.
	Forbidden Outcome = "Forbidden"
)

// Observation is one check of a pod.
type Observation struct {
	// At is when the check began. The order of two times of one process is right even if
	// the clock was set in between.
	At      time.Time
	Outcome Outcome
	// Message says why the check did not pass, in one line of at most 512 bytes.
	Message string
}

// reason is the reason in the status for an outcome. An unknown outcome counts as
// unreachable.
func (o Outcome) reason() string {
	switch o {
	case Failed:
		return v1alpha1.ReasonHealthCheckFailed
	case Leaked:
		return v1alpha1.ReasonExecLeaked
	case Forbidden:
		return v1alpha1.ReasonExecForbidden
	default:
		return v1alpha1.ReasonHealthCheckUnreachable
	}
}

// Thresholds are how many checks in a row change the health of a pod.
type Thresholds struct {
	Failure, Success int32
}

// ThresholdsOf reads spec.healthCheck, in which the API server has set the defaults.
func ThresholdsOf(c *v1alpha1.HealthCheck) Thresholds {
	t := Thresholds{Failure: c.FailureThreshold, Success: c.SuccessThreshold}
	if t.Failure <= 0 {
		t.Failure = 3
	}
	if t.Success <= 0 {
		t.Success = 1
	}
	return t
}

// Healthy is the health of a pod that the status does not list.
const Healthy v1alpha1.PodHealth = "Healthy"

// maxMessage is the limit of a message in status.podStatuses, in bytes.
const maxMessage = 512

// Record is the history of one pod's checks. It is a value, so that an old and a new one
// can be compared. The zero Record means that there is none: see Restore.
type Record struct {
	// Health, Reason and Message are those in the status. A healthy pod has only the
	// first.
	Health          v1alpha1.PodHealth
	Reason, Message string
	// Since is when the health changed, in whole seconds as in the status. Zero means
	// unknown.
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

// unchecked is the record of a pod without any known check.
func unchecked() Record {
	return Record{Health: v1alpha1.PodHealthUnknown, Reason: v1alpha1.ReasonNotChecked, Message: messageNotChecked}
}

// IsZero reports whether there is no record.
func (r Record) IsZero() bool { return r.Health == "" }

// Count is the number of checks in a row that led to the health. These are failures of an
// unhealthy pod, and misses of a pod whose health is unknown.
func (r Record) Count() int32 {
	if r.Health == v1alpha1.PodHealthUnknown {
		return r.misses
	}
	return r.failures
}

// lastCheck is status.podStatuses[].lastCheckTime; nil if this process has not checked the pod.
func (r Record) lastCheck() *metav1.Time {
	if r.latest.IsZero() {
		return nil
	}
	return new(metav1.NewTime(r.latest.Truncate(time.Second)))
}

// Add returns the record with another observation. An observation that is older than the
// last changes nothing.
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

// Started returns the record of a pod whose container started at that time. Results of a
// former container no longer count. The health stays until a check changes it.
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
	if r.passes >= t.Success || r.Reason == v1alpha1.ReasonNotChecked { // it was never reported as unhealthy
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

// count counts checks in a row that did not pass for the same reason.
func (r *Record) count(o Observation) {
	if kind := o.Outcome.reason(); kind != r.kind {
		r.kind, r.run = kind, 0
	}
	r.run++
}

// otherReason reports whether the reason has differed for as many checks as change the
// health. Otherwise two alternating reasons would each be reported.
func (r *Record) otherReason(t Thresholds) bool { return r.Reason != r.kind && r.run >= t.Failure }

func (r *Record) turn(to v1alpha1.PodHealth, reason string, o Observation) {
	r.Health, r.Reason, r.Message = to, reason, ""
	r.Since = o.At.Truncate(time.Second)
}

// explain keeps the message of a check that confirms the health.
func (r *Record) explain(of v1alpha1.PodHealth, o Observation) {
	if r.Health == of && r.Reason == r.kind {
		r.Message = plaintext.Cut(o.Message, maxMessage)
	}
}

// IsNews reports whether the app must be reconciled: the health of the pod changed, or the
// pod may now be restarted. Other changes wait for the next reconcile, which Summary.Next
// limits.
func IsNews(before, after Record) bool {
	return before.Health != after.Health || before.Reason != after.Reason || !before.Since.Equal(after.Since) ||
		after.ripe && !before.ripe
}

// Restore returns the record of a pod from the status, after a restart of the operator or
// for a new pod. A pod that is not in the list is healthy if the list contains all that
// are not. If the list was full, its health is unknown.
func Restore(status *v1alpha1.AppServiceStatus, pod string, uid types.UID) Record {
	if e := listed(status, pod); e != nil {
		return restoreListed(e, uid)
	}
	if _, known := slices.BinarySearch(status.Nodes, pod); known && status.Healthy > 0 && !truncated(status) {
		return Record{Health: Healthy}
	}
	return unchecked()
}

func restoreListed(e *v1alpha1.PodStatus, uid types.UID) Record {
	if e.PodUID != string(uid) {
		return unchecked()
	}
	r := Record{
		Health: e.Health, Reason: e.Reason, Message: e.Message, Since: e.LastTransitionTime.Time,
		kind: e.Reason, run: e.ConsecutiveFailures,
	}
	if e.Health == v1alpha1.PodHealthUnknown {
		r.misses = e.ConsecutiveFailures
		return r
	}
	r.failures, r.failing = e.ConsecutiveFailures, e.LastTransitionTime.Time
	return r
}

// truncated reports whether the list lacks pods that are not healthy.
func truncated(status *v1alpha1.AppServiceStatus) bool {
	return int(status.Unhealthy+status.Unknown) > len(status.PodStatuses)
}

// listed returns the entry of a pod in the status; nil if there is none.
func listed(status *v1alpha1.AppServiceStatus, pod string) *v1alpha1.PodStatus {
	i, found := slices.BinarySearchFunc(status.PodStatuses, pod, func(e v1alpha1.PodStatus, name string) int {
		return strings.Compare(e.Name, name)
	})
	if !found {
		return nil
	}
	return &status.PodStatuses[i]
}
