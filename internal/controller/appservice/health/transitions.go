package health

import (
	"time"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// Transitions are what became of pods between two statuses. A pod that the status has
// no room for is not told of.
type Transitions struct {
	// Failed became unhealthy, or are for another reason.
	Failed []v1alpha1.PodStatus
	// Unchecked can no longer be checked. Of those that the operator may not check, the
	// first one stands for the app: it is the same after a retry that finds more of them.
	Unchecked []v1alpha1.PodStatus
	// Recovered were said to be unhealthy, and are healthy: what was said of them last.
	Recovered []v1alpha1.PodStatus
}

func transitions(was *v1alpha1.AppServiceStatus, now *Summary, pods []Pod) Transitions {
	var t Transitions
	forbidden := says(was, v1alpha1.ReasonExecForbidden)
	first := firstForbidden(now)
	newest := newestWhere(was)
	for _, e := range now.PodStatuses {
		former := listed(was, e.Name)
		switch {
		case former != nil && turnedNot(former, &e), former == nil && !e.LastTransitionTime.After(newest):
		case e.Health == v1alpha1.PodUnhealthy:
			t.Failed = append(t.Failed, e)
		case e.Reason == v1alpha1.ReasonNotChecked, e.Reason == v1alpha1.ReasonExecForbidden && (forbidden || e.Name != first):
		default:
			t.Unchecked = append(t.Unchecked, e)
		}
	}
	for i := range pods {
		if e := listed(was, pods[i].Name); e != nil && recovered(e, &pods[i]) {
			t.Recovered = append(t.Recovered, *e)
		}
	}
	return t
}

// firstForbidden returns the name of the pod that the operator may not check since the
// earliest time.
func firstForbidden(now *Summary) (name string) {
	var since time.Time
	for _, e := range now.PodStatuses {
		if t := e.LastTransitionTime.Time; e.Reason == v1alpha1.ReasonExecForbidden && (name == "" || t.Before(since)) {
			name, since = e.Name, t
		}
	}
	return name
}

func says(status *v1alpha1.AppServiceStatus, reason string) bool {
	for i := range status.PodStatuses {
		if status.PodStatuses[i].Reason == reason {
			return true
		}
	}
	return false
}

// newestWhere is when the last pod turned that a status without room for all lists:
// one that comes into the list and turned before only moved up. A status with room
// for all has no such time.
func newestWhere(status *v1alpha1.AppServiceStatus) (newest time.Time) {
	if !truncated(status) {
		return newest
	}
	for i := range status.PodStatuses {
		if t := status.PodStatuses[i].LastTransitionTime.Time; t.After(newest) {
			newest = t
		}
	}
	return newest
}

func turnedNot(a, b *v1alpha1.PodStatus) bool {
	return a.PodUID == b.PodUID && a.Health == b.Health && a.Reason == b.Reason &&
		a.LastTransitionTime.Equal(&b.LastTransitionTime)
}

func recovered(e *v1alpha1.PodStatus, p *Pod) bool {
	return e.Health == v1alpha1.PodUnhealthy && p.Record.Health == Healthy && e.PodUID == string(p.UID)
}
