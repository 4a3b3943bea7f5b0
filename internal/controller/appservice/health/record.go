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
	"github.com/bongsu-io/bongsu/pkg/healthcheck"
	"github.com/bongsu-io/bongsu/pkg/probe"
)

// Outcome is the result of a check.
type Outcome = healthcheck.Outcome

// Values of Outcome.
const (
	Passed      = healthcheck.Passed
	Failed      = healthcheck.Failed
	Leaked      = healthcheck.Leaked
	Unreachable = healthcheck.Unreachable
	Forbidden   = healthcheck.Forbidden
)

// Observation is one check of a pod.
type Observation = healthcheck.Observation

// Thresholds are how many checks in a row change the health of a pod.
type Thresholds = probe.Thresholds

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

// Record is the history of one pod's checks, with the health in the type of the API. The zero
// Record means that there is none: see Restore.
type Record struct {
	// Health is the State of the history.
	Health v1alpha1.PodHealth
	probe.History
}

// RecordOf returns the record of a history. The reasons of a history are those of the API.
func RecordOf(h probe.History) Record {
	return Record{Health: v1alpha1.PodHealth(h.State), History: h}
}

// Add returns the record with another observation. An observation that is older than the
// last changes nothing.
func (r Record) Add(o Observation, t Thresholds) Record { return RecordOf(r.History.Add(o, t)) }

// Started returns the record of a pod whose container started at that time. Results of a
// former container no longer count. The health stays until a check changes it.
func (r Record) Started(at time.Time) Record { return RecordOf(r.History.Started(at)) }

// lastCheck is status.podStatuses[].lastCheckTime; nil if this process has not checked the pod.
func (r Record) lastCheck() *metav1.Time {
	at := r.LastCheck()
	if at.IsZero() {
		return nil
	}
	return new(metav1.NewTime(at.Truncate(time.Second)))
}

// IsNews reports whether the app must be reconciled. Other changes wait for the next reconcile,
// which Summary.Next limits.
func IsNews(before, after Record) bool { return probe.IsNews(before.History, after.History) }

// Restore returns the record of a pod from the status, after a restart of the operator or
// for a new pod. A pod that is not in the list is healthy if the list contains all that
// are not. If the list was full, its health is unknown.
func Restore(status *v1alpha1.AppServiceStatus, pod string, uid types.UID) Record {
	if e := listed(status, pod); e != nil {
		return restoreListed(e, uid)
	}
	if _, known := slices.BinarySearch(status.Nodes, pod); known && status.Healthy > 0 && !truncated(status) {
		return RecordOf(probe.History{State: probe.Healthy})
	}
	return RecordOf(probe.Unchecked())
}

func restoreListed(e *v1alpha1.PodStatus, uid types.UID) Record {
	if e.PodUID != string(uid) {
		return RecordOf(probe.Unchecked())
	}
	h := probe.History{State: probe.State(e.Health), Reason: e.Reason, Message: e.Message, Since: e.LastTransitionTime.Time}
	return RecordOf(h.Resume(e.ConsecutiveFailures))
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
