package health

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

const (
	// heartbeat is how often counts and messages are brought up to date while nothing
	// else changes.
	heartbeat = 5 * time.Minute
	// maxListed is the limit of status.podStatuses.
	maxListed = 50
)

// Pod is a pod of an app that is not terminating.
type Pod struct {
	Name string
	UID  types.UID
	// Ready is what its condition says.
	Ready bool
	// Record of its checks. If it is none, the status tells.
	Record Record
}

// Summary is how the pods of an app fare, as a status says it.
type Summary struct {
	Healthy, Unhealthy, Unknown int32
	PodStatuses                 []v1alpha1.PodStatus
	// Condition is that of type Healthy.
	Condition Condition
	// Transitions are what to tell once the status is written.
	Transitions Transitions
	// Refreshed is when counts and messages were last brought up to date: to be handed
	// back the next time, and not to be kept anywhere but in memory.
	Refreshed time.Time
	// Next is when they are to be again; zero if there are none.
	Next time.Time
}

// Summarize summarizes. was is the status as it is; refreshed is that of the last
// Summary, zero if there was none in this process. The pods may come in any order.
func Summarize(was *v1alpha1.AppServiceStatus, pods []Pod, refreshed, now time.Time) Summary {
	pods = known(was, pods)
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
	s.Transitions = transitions(was, &s, pods)
	return s
}

// Write puts the summary into a status. The condition is left to the caller.
func (s *Summary) Write(status *v1alpha1.AppServiceStatus) {
	status.Healthy, status.Unhealthy, status.Unknown = s.Healthy, s.Unhealthy, s.Unknown
	status.PodStatuses = s.PodStatuses
}

// known returns the pods in order of their names, each with a record.
func known(was *v1alpha1.AppServiceStatus, pods []Pod) []Pod {
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

// ages says whether what is said of a pod goes out of date.
func ages(e v1alpha1.PodStatus) bool { return e.Reason != v1alpha1.ReasonNotChecked }

// list lists the pods that are not healthy. If there are too many, those whose health
// is unknown are left out first.
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

// entry says how a pod fares. Of one that has not turned since, it says what was said,
// unless that is to be brought up to date.
func entry(was *v1alpha1.AppServiceStatus, p *Pod, refresh bool, now time.Time) v1alpha1.PodStatus {
	former := listed(was, p.Name)
	same := former != nil && p.isAsIn(former)
	if same && !refresh {
		return *former
	}
	since := p.Record.Since
	switch {
	case same:
		since = former.LastTransitionTime.Time
	case since.IsZero():
		since = now.Truncate(time.Second)
	}
	return v1alpha1.PodStatus{
		Name: p.Name, PodUID: string(p.UID),
		Health: p.Record.Health, Reason: p.Record.Reason, Message: p.Record.Message,
		ConsecutiveFailures: p.Record.Count(), LastTransitionTime: metav1.NewTime(since),
	}
}

// isAsIn says whether the pod has not turned since that was said of it.
func (p *Pod) isAsIn(e *v1alpha1.PodStatus) bool {
	r := &p.Record
	return e.PodUID == string(p.UID) && e.Health == r.Health && e.Reason == r.Reason &&
		(r.Since.IsZero() || r.Since.Equal(e.LastTransitionTime.Time))
}
