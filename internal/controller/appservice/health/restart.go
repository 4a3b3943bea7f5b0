package health

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

const (
	// hour is how long a restart counts: a status keeps seconds, and may have cut off
	// almost one.
	hour = time.Hour + time.Second
	// ahead is how far in the future a remembered restart may be: beyond, a clock was
	// wrong when it was written, or is now.
	ahead = time.Minute
)

// Remedy is what may be done about unhealthy pods.
type Remedy struct {
	// Pods of the app that are not terminating, with their records: one without is not
	// restarted.
	Pods []Pod
	// Wanted is how many there are to be.
	Wanted int
	// Times is status.restartTimes.
	Times []metav1.Time
	// MaxPerHour bounds restarts.
	MaxPerHour int
	Now        time.Time
}

// Restart is what to do.
type Restart struct {
	// Pod to be restarted; nil for none.
	Pod *Pod
	// Times is what status.restartTimes is to be: with the restart of Pod, if any. To
	// keep to the limit whatever happens, it must be written before the pod is
	// restarted.
	Times []metav1.Time
	// Next is when the limit would allow it again, if only the limit is in the way.
	Next time.Time
}

// Decide says which pod is to be restarted: one at a time, and that which has been
// unhealthy for the longest. If all pods of an app are unhealthy it may well be that
// the check is wrong, and not they. That cannot be told, and an app that fails as a
// whole needs the remedy most: the limit is what bounds the harm.
func (r Remedy) Decide() Restart {
	d := Restart{Times: recent(r.Times, r.Now)}
	pod := r.choose()
	if pod == nil {
		return d
	}
	if over := len(d.Times) - r.MaxPerHour; over >= 0 {
		d.Next = r.allowed(d.Times, over)
		return d
	}
	d.Pod = pod
	d.Times = append(d.Times, metav1.NewTime(r.Now.Truncate(time.Second)))
	slices.SortFunc(d.Times, earlier)
	return d
}

// allowed is when so many of the restarts and one more no longer count.
func (r Remedy) allowed(times []metav1.Time, over int) time.Time {
	if over >= len(times) { // none is allowed, ever
		return time.Time{}
	}
	return times[over].Add(hour)
}

// choose returns the pod to be restarted if the limit allows it.
func (r Remedy) choose() *Pod {
	var chosen *Pod
	for i := range r.Pods {
		p := &r.Pods[i]
		if p.Record.Health != v1alpha1.PodUnhealthy || !p.Record.ripe || r.disturbs(p) {
			continue
		}
		if chosen == nil || longer(p, chosen) {
			chosen = p
		}
	}
	return chosen
}

func longer(a, b *Pod) bool {
	if !a.Record.Since.Equal(b.Record.Since) {
		return a.Record.Since.Before(b.Record.Since)
	}
	return a.Name < b.Name
}

// disturbs says whether the app is short of another pod than the one that would be
// restarted. Two that are unhealthy and not ready do not wait for each other: neither
// would ever be restarted, and nothing is taken away by it.
func (r Remedy) disturbs(candidate *Pod) bool {
	if len(r.Pods) < r.Wanted {
		return true
	}
	for i := range r.Pods {
		p := &r.Pods[i]
		hopeless := !candidate.Ready && p.Record.Health == v1alpha1.PodUnhealthy && p.Record.ripe
		if p.UID != candidate.UID && !p.Ready && !hopeless {
			return true
		}
	}
	return false
}

// recent are the restarts that count, in order. One in the future does, and is taken
// to be now, or it would do so for longer than an hour.
func recent(times []metav1.Time, now time.Time) []metav1.Time {
	var all []metav1.Time
	for _, t := range times {
		switch {
		case t.After(now.Add(ahead)):
			all = append(all, metav1.NewTime(now.Truncate(time.Second)))
		case now.Before(t.Add(hour)):
			all = append(all, t)
		}
	}
	slices.SortFunc(all, earlier)
	return all
}

func earlier(a, b metav1.Time) int { return a.Compare(b.Time) }
