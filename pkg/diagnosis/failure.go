package diagnosis

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// volatileText matches the parts of messages that change although the failure is the
// same.
var volatileText = []*pattern{
	compile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?:_\d+\b)?`), // with the number of the attempt
	compile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*(?:Z|[+-]\d\d:\d\d)`),
	compile(`\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{4,5})?\b`),
	compile(`\[[0-9a-f:]*:[0-9a-f:]*\](?::\d{4,5})?`),
	compile(`\b(?:\d+h)?(?:\d+m)?\d+(?:\.\d+)?(?:ms|s)\b|\b\d+h(?:\d+m)?\b`),
	compile(`(\bsha256:[0-9a-f]+)|\b[0-9a-f]{16,}\b`),                             // a digest of an image stays
	compile(`\bused \S+ of ([^;:]+)(?:; (?:pods|claims) that use most: [^;:]*)?`), // the limit stays
	compile(`\b\d+(?:/\d+)? (?:nodes?\b|Insufficient|Too many)`),
	compile(`\bthe largest node has \S+`),
	compile(`\btaints: [^;)]*`),
	compile(`(Class "[^"]*" does not exist): .*`), // the advice names the classes that exist
}

// Identity returns a string that is equal for causes of the same failure, even if it
// occurs in different pods of a workload. It ignores names, times, addresses and amounts
// in use, and obstacles that each change of another node or pod can add or remove. It includes
// the reason, container, exit code, image and requested amounts.
func (c *Cause) Identity() string {
	return steadyIdentity(c.Reason, c.Object, c.Container, c.ExitCode, c.ownSentence())
}

func steadyIdentity(reason string, object Object, container string, code *int32, sentence string) string {
	switch reason {
	case ReasonFailedScheduling:
		sentence = lastingObstacles(sentence)
	case ReasonRunContainerError: // the kubelet shows the exit code of the runtime at a later stage only
		code = nil
	}
	return Identity(reason, object.Kind, object.Name, container, code, sentence)
}

// Identity returns the identity of a cause with all its obstacles; see [Cause.Identity].
func Identity(reason, kind, name, container string, code *int32, sentence string) string {
	exit := ""
	if code != nil {
		exit = strconv.Itoa(int(*code))
	}
	if name != "" {
		sentence = strings.ReplaceAll(sentence, name, "#")
	}
	for _, c := range volatileText {
		sentence = c.ReplaceAllString(sentence, "${1}#")
	}
	return strings.Join([]string{cmp.Or(laterStages[reason], reason), kind, container, exit, sentence}, "|")
}

// laterStages maps reasons to the reason of a later stage of the same failure. A
// container alternates between the two with every retry.
var laterStages = map[string]string{
	ReasonErrImagePull: ReasonImagePullBackOff,
	ReasonError:        ReasonCrashLoopBackOff,
}

// LaterStage returns the reason of the later stage of the same failure, for example
// ImagePullBackOff for ErrImagePull. It returns "" if there is none.
func LaterStage(reason string) string { return laterStages[reason] }

// settles is how long a container that ended can take to end again.
const settles = 5 * time.Second

// EventReason returns the reason of an Event about the cause, or how long to wait before there is one.
// Otherwise a failure whose stages follow each other soon, such as Error and CrashLoopBackOff, would
// lead to an Event for each of them. Diagnose again after the wait.
func (c *Cause) EventReason(now time.Time) (reason string, wait time.Duration) {
	left := settles - now.Sub(c.Time)
	switch {
	case c.Reason == ReasonErrImagePull:
		return ReasonImagePullBackOff, 0 // which follows
	case c.Reason == ReasonError && left > 0:
		return "", left
	}
	return c.Reason, 0
}

// isUnspecific reports whether the message has no reason for a failed pull.
func (c *Cause) isUnspecific() bool { return strings.HasSuffix(c.Message, " cannot be pulled") }

// Failure is the last failure of a workload. Keep it in the status when the workload runs
// again, so that users can find out what happened.
type Failure struct {
	Reason string
	// Message is the sentence of the cause, without its root.
	Message string
	Object  Object
	// Container that failed, and its ExitCode if it ended.
	Container string
	ExitCode  *int32
	// FirstTime and LastTime are when this failure was first seen and when it last
	// happened, truncated to seconds.
	FirstTime, LastTime metav1.Time
	// Count is how often it was seen.
	Count int32
}

func failureIdentity(l *Failure) string {
	return steadyIdentity(l.Reason, l.Object, l.Container, l.ExitCode, l.Message)
}

// Stabilize returns c so that it does not alternate with each retry. A failure at a later
// stage keeps the reason of that stage. A specific message is kept when only a general
// one is known. Pass nil as last if the workload has recovered since.
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

// HappenedAfter reports whether the cause happened after the last failure. A time in the
// future, from a clock that is ahead, does not count before that time.
func HappenedAfter(last *Failure, c *Cause, now time.Time) bool {
	return last == nil || c.Time.Truncate(time.Second).After(last.LastTime.Time) && !c.Time.After(now)
}

// RecordFailure adds a cause to the last failure and returns the result. It returns last
// itself if nothing changed, which saves a status update, and never modifies it. A nil
// cause leaves last as it is. The same failure counts again if the container ended again.
// Failures that are known from Events count at increasing intervals.
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
	again.Reason, again.Message, again.Object.Name = c.Reason, c.ownSentence(), c.Object.Name
	again.LastTime = metav1.NewTime(at)
	again.Count++
	return &again
}

// withReason returns the failure with the reason of its present stage.
func withReason(last *Failure, reason string) *Failure {
	if last.Reason == reason {
		return last
	}
	staged := *last
	staged.Reason = reason
	return &staged
}

// minInterval is how long a failure must not be counted again. It grows with the age of
// the failure, because Events repeat while the failure lasts. It stays below an hour,
// after which the API server deletes Events.
func minInterval(last *Failure, c *Cause) time.Duration {
	const least, most = time.Minute, 50 * time.Minute
	if c.ExitCode != nil {
		return 0
	}
	return min(max(least, last.LastTime.Sub(last.FirstTime.Time)), most)
}

func newFailure(c *Cause, at time.Time) *Failure {
	return &Failure{
		Reason: c.Reason, Message: c.ownSentence(), Object: c.Object,
		Container: c.Container, ExitCode: c.ExitCode,
		FirstTime: metav1.NewTime(at), LastTime: metav1.NewTime(at), Count: 1,
	}
}
