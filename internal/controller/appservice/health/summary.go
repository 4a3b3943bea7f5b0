package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

const (
	// heartbeat is how often counts and messages are updated while the health stays the
	// same.
	heartbeat = 5 * time.Minute
	// repeatFor is how long Events about an entry of the status are emitted again after a
	// restart. It is less than events.RepeatEvery: until then, an Event has the same name.
	repeatFor = 45 * time.Minute
	// maxListed is the limit of status.podStatuses.
	maxListed = 50
)

// Pod is a pod of an app that is not terminating.
type Pod struct {
	Name string
	UID  types.UID
	// Ready is the pod's condition Ready.
	Ready bool
	// Record of its checks. Without one, it is restored from the status.
	Record Record
}

// Summary is the health of the pods of an app, for its status.
type Summary struct {
	Healthy, Unhealthy, Unknown int32
	PodStatuses                 []v1alpha1.PodStatus
	// Condition is the condition Healthy.
	Condition Condition
	// Transitions are the changes to report.
	Transitions Transitions
	// Refreshed is when counts and messages were last updated. Pass it to the next
	// Summarize. Keep it only in memory.
	Refreshed time.Time
	// Next is when they must be updated again; zero if no pod needs it.
	Next time.Time
}

// Summarize returns the summary of pods in any order. was is the present status. refreshed
// is that of the last Summary. It is zero if this process has none, or if it could not emit the
// Events of the last one. Transitions then contain recent entries of the present status again.
func Summarize(was *v1alpha1.AppServiceStatus, pods []Pod, refreshed, now time.Time) Summary {
	pods = Known(was, pods)
	s := Summary{Refreshed: refreshed}
	refresh := !refreshed.IsZero() && now.Sub(refreshed).Abs() >= heartbeat
	if refresh || refreshed.IsZero() {
		s.Refreshed = now
	}
	s.count(pods)
	s.PodStatuses = list(was, pods, refresh, now)
	if slices.ContainsFunc(s.PodStatuses, ages) {
		s.Next = s.Refreshed.Add(heartbeat)
	}
	s.Condition = conditionOf(pods)
	isRepeated := func(e *v1alpha1.PodStatus) bool {
		// The pod that stands for all forbidden ones can be another one than before.
		return refreshed.IsZero() && e.Reason != v1alpha1.ReasonExecForbidden && now.Sub(e.LastTransitionTime.Time) < repeatFor
	}
	s.Transitions = transitions(was, &s, pods, isRepeated)
	return s
}

// Write copies the summary into a status, except for the condition.
func (s *Summary) Write(status *v1alpha1.AppServiceStatus) {
	status.Healthy, status.Unhealthy, status.Unknown = s.Healthy, s.Unhealthy, s.Unknown
	status.PodStatuses = s.PodStatuses
}

// Known returns the pods in the order of their names, each with a record.
func Known(was *v1alpha1.AppServiceStatus, pods []Pod) []Pod {
	pods = slices.Clone(pods)
	slices.SortFunc(pods, func(a, b Pod) int { return strings.Compare(a.Name, b.Name) })
	for i := range pods {
		if pods[i].Record.IsZero() {
			pods[i].Record = Restore(was, pods[i].Name, pods[i].UID)
		}
	}
	return pods
}

func (s *Summary) count(pods []Pod) {
	for i := range pods {
		switch pods[i].Record.Health {
		case Healthy:
			s.Healthy++
		case v1alpha1.PodUnhealthy:
			s.Unhealthy++
		default:
			s.Unknown++
		}
	}
}

// ages reports whether the entry of a pod becomes outdated.
func ages(e v1alpha1.PodStatus) bool { return e.Reason != v1alpha1.ReasonNotChecked }

// list lists the pods that are not healthy. If there are too many, it leaves out pods with
// unknown health first.
func list(was *v1alpha1.AppServiceStatus, pods []Pod, refresh bool, now time.Time) []v1alpha1.PodStatus {
	var chosen []*Pod
	for _, health := range []v1alpha1.PodHealth{v1alpha1.PodUnhealthy, v1alpha1.PodHealthUnknown} {
		for i := range pods {
			if pods[i].Record.Health == health && len(chosen) < maxListed {
				chosen = append(chosen, &pods[i])
			}
		}
	}
	slices.SortFunc(chosen, func(a, b *Pod) int { return strings.Compare(a.Name, b.Name) })
	var all []v1alpha1.PodStatus
	for _, p := range chosen {
		all = append(all, entry(was, p, refresh, now))
	}
	return all
}

// entry is the entry of a pod. If its health has not changed, it is the former one, unless
// that must be updated.
func entry(was *v1alpha1.AppServiceStatus, p *Pod, refresh bool, now time.Time) v1alpha1.PodStatus {
	former := listed(was, p.Name)
	same := former != nil && p.isAsIn(former)
	if same && !refresh {
		return *former
	}
	since, last := p.Record.Since, p.Record.lastCheck()
	switch {
	case same:
		since = former.LastTransitionTime.Time
		last = cmp.Or(last, former.LastCheckTime)
	case since.IsZero():
		since = now.Truncate(time.Second)
	}
	return v1alpha1.PodStatus{
		Name: p.Name, PodUID: string(p.UID),
		Health: p.Record.Health, Reason: p.Record.Reason, Message: p.Record.Message,
		ConsecutiveFailures: p.Record.Count(), LastCheckTime: last, LastTransitionTime: metav1.NewTime(since),
	}
}

// isAsIn reports whether the health of the pod is still the one of the entry.
func (p *Pod) isAsIn(e *v1alpha1.PodStatus) bool {
	r := &p.Record
	return e.PodUID == string(p.UID) && e.Health == r.Health && e.Reason == r.Reason &&
		(r.Since.IsZero() || r.Since.Equal(e.LastTransitionTime.Time))
}

// maxNames is how many pods a message names.
const maxNames = 5

// Messages do not change while the health stays the same: each change is a write.
const (
	messageHealthy = "the health check passes in every pod"
	messageNoPods  = "there is no pod to check"
	messageNoCheck = "spec.healthCheck is not given"
)

// Condition is the condition Healthy without its times.
type Condition struct {
	Status          metav1.ConditionStatus
	Reason, Message string
}

// NoCheck is the condition Healthy of an app without a health check.
func NoCheck() Condition {
	return Condition{metav1.ConditionUnknown, v1alpha1.ReasonNotRequested, messageNoCheck}
}

// worst are the reasons of the condition. The first reason that a pod has wins.
var worst = []struct {
	status       metav1.ConditionStatus
	health       v1alpha1.PodHealth
	reason, text string
}{
	{metav1.ConditionFalse, v1alpha1.PodUnhealthy, v1alpha1.ReasonHealthCheckFailed, "the health check fails in"},
	{metav1.ConditionFalse, v1alpha1.PodUnhealthy, v1alpha1.ReasonExecLeaked, "the command of the health check does not end in"},
	{metav1.ConditionUnknown, v1alpha1.PodHealthUnknown, v1alpha1.ReasonExecForbidden, "the operator may not make the health check in"},
	{metav1.ConditionUnknown, v1alpha1.PodHealthUnknown, v1alpha1.ReasonHealthCheckUnreachable, "the health check cannot be made in"},
	{metav1.ConditionUnknown, v1alpha1.PodHealthUnknown, v1alpha1.ReasonNotChecked, "the health check was not made yet in"},
}

// conditionOf is the condition for pods in the order of their names.
func conditionOf(pods []Pod) Condition {
	if len(pods) == 0 {
		return Condition{metav1.ConditionUnknown, v1alpha1.ReasonNotChecked, messageNoPods}
	}
	for _, w := range worst {
		if names := namesOf(pods, w.health, w.reason); len(names) > 0 {
			return Condition{w.status, w.reason, fmt.Sprintf("%s %d of %d pods: %s", w.text, len(names), len(pods), Names(names))}
		}
	}
	return Condition{metav1.ConditionTrue, v1alpha1.ReasonHealthy, messageHealthy}
}

func namesOf(pods []Pod, health v1alpha1.PodHealth, reason string) []string {
	var names []string
	for i := range pods {
		if r := &pods[i].Record; r.Health == health && r.Reason == reason {
			names = append(names, pods[i].Name)
		}
	}
	return names
}

// Names lists the names of pods: at most five, and the number of others.
func Names(names []string) string {
	if more := len(names) - maxNames; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), more)
	}
	return strings.Join(names, ", ")
}

// Transitions are the pods whose health changed between two statuses. Pods that do not fit
// into the status are left out.
type Transitions struct {
	// Failed became unhealthy, or have another reason.
	Failed []v1alpha1.PodStatus
	// Unchecked can no longer be checked. If the operator may not check several pods, the
	// first stands for the app. It stays the same when a retry finds more.
	Unchecked []v1alpha1.PodStatus
	// Recovered were unhealthy and are healthy. The entries are the former ones.
	Recovered []v1alpha1.PodStatus
}

// transitions compares a summary with the former status. Repeated entries count as new.
func transitions(was *v1alpha1.AppServiceStatus, now *Summary, pods []Pod, isRepeated func(*v1alpha1.PodStatus) bool) Transitions {
	var t Transitions
	forbidden := says(was, v1alpha1.ReasonExecForbidden)
	first := firstForbidden(now)
	newest := newestWhere(was)
	for _, e := range now.PodStatuses {
		former := listed(was, e.Name)
		switch {
		case former != nil && turnedNot(former, &e) && !isRepeated(&e), former == nil && !e.LastTransitionTime.After(newest):
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

// newestWhere is the latest change in a full list; zero if the list was not full. A pod
// that appears in the list but changed earlier only moved up.
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
