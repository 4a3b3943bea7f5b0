package diagnosis

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Failure is why something last did not run. It stays when it runs again.
type Failure struct {
	Reason, Message string
	Object          Object
	// Container that failed, if it was one, and its ExitCode, if it ended.
	Container string
	ExitCode  *int32
	// FirstTime and LastTime are when this failure was first seen, and when it last
	// happened again, truncated to seconds.
	FirstTime, LastTime metav1.Time
	// Count is how often it was seen to happen.
	Count int32
}

func failureIdentity(l *Failure) string {
	return Identity(l.Reason, l.Object.Kind, l.Object.Name, l.Container, l.ExitCode, l.Message)
}

// Steady returns the cause as it is to be told after last: one that has come to a
// later stage stays there while it is tried again, and what it said in full stays
// when less of it is known. Last is nil when it has recovered since.
func (c *Cause) Stabilize(last *Failure) Cause {
	steady := *c
	if last == nil || last.Object.Kind != c.Object.Kind || last.Object.Name != c.Object.Name || last.Container != c.Container {
		return steady
	}
	if LaterStage(c.Reason) == last.Reason {
		steady.Reason = last.Reason
	}
	same := steady.Reason == last.Reason || LaterStage(last.Reason) == steady.Reason
	if same && c.isUnspecific() && strings.HasPrefix(last.Message, c.Message+": ") {
		steady.Message, steady.Advice = last.Message, ""
	}
	return steady
}

// IsNews tells whether the cause happened since the last failure. What is yet to
// happen, by a clock that is ahead, is no news before that time.
func HappenedAfter(last *Failure, c *Cause, now time.Time) bool {
	return last == nil || c.Time.Truncate(time.Second).After(last.LastTime.Time) && !c.Time.After(now)
}

// Remember folds a cause into what is remembered of the last failure; none leaves it
// as it is. The same failure counts again when it happened anew: when a container
// ended again, or, of what is known from Events, when it has been quiet for a while.
func RecordFailure(last *Failure, c *Cause, now time.Time) *Failure {
	if c == nil {
		return last
	}
	at := c.Time
	if at.IsZero() || at.After(now) {
		at = now
	}
	at = at.Truncate(time.Second)
	if last == nil || failureIdentity(last) != c.Identity() {
		return newFailure(c, at)
	}
	if !HappenedAfter(last, c, now) || at.Sub(last.LastTime.Time) < minInterval(last, c) {
		return withReason(last, c.Reason)
	}
	again := *last
	again.Reason, again.Message, again.Object.Name = c.Reason, c.Sentence(), c.Object.Name
	again.LastTime = metav1.NewTime(at)
	again.Count++
	return &again
}

// atStage returns the failure under the name that its present stage has.
func withReason(last *Failure, reason string) *Failure {
	if last.Reason == reason {
		return last
	}
	staged := *last
	staged.Reason = reason
	return &staged
}

// quiet is how long the same failure is not counted again. What Events tell of goes
// on for as long as it fails: the longer it has, the more seldom it counts, but while
// the Events of the last time are still there.
func minInterval(last *Failure, c *Cause) time.Duration {
	const least, most = time.Minute, 50 * time.Minute
	if c.ExitCode != nil {
		return 0
	}
	return min(max(least, last.LastTime.Sub(last.FirstTime.Time)), most)
}

func newFailure(c *Cause, at time.Time) *Failure {
	return &Failure{
		Reason: c.Reason, Message: c.Sentence(), Object: c.Object,
		Container: c.Container, ExitCode: c.ExitCode,
		FirstTime: metav1.NewTime(at), LastTime: metav1.NewTime(at), Count: 1,
	}
}
