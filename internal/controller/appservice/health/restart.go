package health

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

const (
	// hour is how long a restart counts. Times in the status are cut to seconds.
	hour = time.Hour + time.Second
	// ahead is how far in the future a time in the status may be. Beyond it, a clock was
	// or is wrong.
	ahead = time.Minute
)

// Remedy is the input of the decision about unhealthy pods.
type Remedy struct {
	// Pods of the app that are not terminating. A pod without a record is not restarted.
	Pods []Pod
	// Wanted is how many pods the app asks for.
	Wanted int
	// Times is status.restartTimes.
	Times []metav1.Time
	// MaxPerHour limits restarts.
	MaxPerHour int
	Now        time.Time
}

// Restart is the decision.
type Restart struct {
	// Pod to restart; nil for none.
	Pod *Pod
	// Times are the restarts of the last hour. At is the time of the present one.
	Times []metav1.Time
	At    metav1.Time
	// Next is when the limit allows a restart again; zero if something else prevents it.
	Next time.Time
}

// Decide chooses the pod to restart: one at a time, the one that has been unhealthy for
// the longest time. If all pods are unhealthy, the check may be wrong, but such an app
// also needs the remedy most. The limit bounds the harm.
func (r Remedy) Decide() Restart {
	d := Restart{Times: recent(r.Times, r.Now), At: metav1.NewTime(r.Now.Truncate(time.Second))}
	pod := r.choose()
	if pod == nil {
		return d
	}
	if over := len(d.Times) - r.MaxPerHour; over >= 0 {
		d.Next = r.allowed(d.Times, over)
		return d
	}
	d.Pod = pod
	return d
}

// Counted returns Times and the present restart, for status.restartTimes. Write it before the
// restart, so that the limit holds also after a crash.
func (d *Restart) Counted() []metav1.Time {
	times := append(slices.Clone(d.Times), d.At)
	slices.SortFunc(times, earlier)
	return times
}

// allowed is when enough restarts no longer count for one more.
func (r Remedy) allowed(times []metav1.Time, over int) time.Time {
	if over >= len(times) { // none is allowed, ever
		return time.Time{}
	}
	return times[over].Add(hour)
}

// choose returns the pod to restart if the limit allows it.
func (r Remedy) choose() *Pod {
	var chosen *Pod
	for i := range r.Pods {
		p := &r.Pods[i]
		if p.Record.Health != v1alpha1.PodUnhealthy || !p.Record.Confirmed() || r.disturbs(p) {
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

// disturbs reports whether the app lacks another pod than the candidate. Two pods that are
// unhealthy and not ready do not wait for each other: otherwise neither would be
// restarted.
func (r Remedy) disturbs(candidate *Pod) bool {
	if len(r.Pods) < r.Wanted {
		return true
	}
	for i := range r.Pods {
		p := &r.Pods[i]
		hopeless := !candidate.Ready && p.Record.Health == v1alpha1.PodUnhealthy && p.Record.Confirmed()
		if p.UID != candidate.UID && !p.Ready && !hopeless {
			return true
		}
	}
	return false
}

// recent returns the restarts that count, in order. A time in the future becomes now.
// Otherwise it would count for more than an hour.
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
