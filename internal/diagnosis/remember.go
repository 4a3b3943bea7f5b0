package diagnosis

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// changing is what differs in a text from one time to the next though it says the
// same.
var changing = []*regexp.Regexp{
	regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`),
	regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*(?:Z|[+-]\d\d:\d\d)`),
	regexp.MustCompile(`\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{4,5})?\b`),
	regexp.MustCompile(`\[[0-9a-f:]*:[0-9a-f:]*\](?::\d{4,5})?`),
	regexp.MustCompile(`\b(?:\d+h)?(?:\d+m)?\d+(?:\.\d+)?(?:ms|s)\b|\b\d+h(?:\d+m)?\b`),
	regexp.MustCompile(`\b[0-9a-f]{16,63}\b`), // of 64 digits is an image's digest, which tells
	regexp.MustCompile(`\bused \S+ of\b`),
	regexp.MustCompile(`\b\d+(?:/\d+)? (?:nodes?\b|Insufficient|Too many)`),
	regexp.MustCompile(`\bthe largest node has \S+`),
}

// Identity is equal for causes that are the same failure, in whichever of a
// workload's objects of a kind: it leaves out names, times, addresses and amounts in
// use, not exit codes, images or what is asked for.
func (c *Cause) Identity() string {
	return identity(c.Reason, c.Object.Kind, c.Object.Name, c.Container, c.ExitCode, c.Sentence())
}

func identity(reason, kind, name, container string, code *int32, sentence string) string {
	exit := ""
	if code != nil {
		exit = strconv.Itoa(int(*code))
	}
	if name != "" {
		sentence = strings.ReplaceAll(sentence, name, "#")
	}
	for _, c := range changing {
		sentence = c.ReplaceAllString(sentence, "#")
	}
	return strings.Join([]string{cmp.Or(families[reason], reason), kind, container, exit, sentence}, "|")
}

func identityOf(l *v1alpha1.LastFailure) string {
	return identity(l.Reason, l.Object.Kind, l.Object.Name, l.Container, l.ExitCode, l.Message)
}

// families are reasons that are stages of one failure: a container that waits is not
// told anew each time it is tried again.
var families = map[string]string{
	v1alpha1.ReasonErrImagePull: v1alpha1.ReasonImagePullBackOff,
	v1alpha1.ReasonError:        v1alpha1.ReasonCrashLoopBackOff,
}

// Steady returns the cause as it is to be told after last: one that has come to a
// later stage stays there while it is tried again, and what it said in full stays
// when less of it is known. Last is nil when it has recovered since.
func (c *Cause) Steady(last *v1alpha1.LastFailure) Cause {
	steady := *c
	if last == nil || last.Object.Kind != c.Object.Kind || last.Object.Name != c.Object.Name || last.Container != c.Container {
		return steady
	}
	if families[c.Reason] == last.Reason {
		steady.Reason = last.Reason
	}
	same := steady.Reason == last.Reason || families[last.Reason] == steady.Reason
	if same && vague(c) && strings.HasPrefix(last.Message, c.Message+": ") {
		steady.Message, steady.Advice = last.Message, ""
	}
	return steady
}

// vague tells whether no more is known of the cause than that it fails.
func vague(c *Cause) bool { return strings.HasSuffix(c.Message, " cannot be pulled") }

// IsNews tells whether the cause happened since the last failure. What is yet to
// happen, by a clock that is ahead, is no news before that time.
func IsNews(last *v1alpha1.LastFailure, c *Cause, now time.Time) bool {
	return last == nil || c.Time.Truncate(time.Second).After(last.LastTime.Time) && !c.Time.After(now)
}

// Remember folds a cause into what is remembered of the last failure; none leaves it
// as it is. The same failure counts again when it happened anew: when a container
// ended again, or, of what is known from Events, when it has been quiet for a while.
func Remember(last *v1alpha1.LastFailure, c *Cause, now time.Time) *v1alpha1.LastFailure {
	if c == nil {
		return last
	}
	at := c.Time
	if at.IsZero() || at.After(now) {
		at = now
	}
	at = at.Truncate(time.Second)
	if last == nil || identityOf(last) != c.Identity() {
		return remembered(c, at)
	}
	if !IsNews(last, c, now) || at.Sub(last.LastTime.Time) < quiet(last, c) {
		return atStage(last, c.Reason)
	}
	again := last.DeepCopy()
	again.Reason, again.Message, again.Object.Name = c.Reason, c.Sentence(), c.Object.Name
	again.LastTime = metav1.NewTime(at)
	again.Count++
	return again
}

// atStage returns the failure under the name that its present stage has.
func atStage(last *v1alpha1.LastFailure, reason string) *v1alpha1.LastFailure {
	if last.Reason == reason {
		return last
	}
	staged := last.DeepCopy()
	staged.Reason = reason
	return staged
}

// quiet is how long the same failure is not counted again. What Events tell of goes
// on for as long as it fails: the longer it has, the more seldom it counts, but while
// the Events of the last time are still there.
func quiet(last *v1alpha1.LastFailure, c *Cause) time.Duration {
	const least, most = time.Minute, 50 * time.Minute
	if c.ExitCode != nil {
		return 0
	}
	return min(max(least, last.LastTime.Sub(last.FirstTime.Time)), most)
}

func remembered(c *Cause, at time.Time) *v1alpha1.LastFailure {
	return &v1alpha1.LastFailure{
		Reason: c.Reason, Message: c.Sentence(), Object: v1alpha1.FailureObject(c.Object),
		Container: c.Container, ExitCode: c.ExitCode,
		FirstTime: metav1.NewTime(at), LastTime: metav1.NewTime(at), Count: 1,
	}
}
