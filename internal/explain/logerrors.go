package explain

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// reasonErrorsInLog is the reason of an object that runs, and whose log leads to an object with a problem.
const reasonErrorsInLog = "ErrorsInLog"

// The limits of the logs of a target that runs.
const (
	// maxLogs limits the containers whose logs are read, until one has errors.
	maxLogs = 4
	// maxRunningLines and maxRunningBytes limit a log. Its end has maxLasting lines, that are not older than lastsFor.
	maxRunningLines = 1000
	maxRunningBytes = 1 << 20
	maxLasting      = 30
	lastsFor        = time.Hour
)

// errorsInLog looks for errors in the log of a target that runs. A pod can be ready, and answer each request with an
// error. Many programs log errors that do no harm. So they are shown, but are a cause only if the end of the log leads
// to an object with a problem. The walk and an overview read no such logs.
func (q *inquiry) errorsInLog() {
	x := &q.explanation
	if q.logs == nil || len(q.walk.from) > 1 || x.Cause != nil {
		return
	}
	if u, ok := q.object.(*unstructured.Unstructured); ok && (x.State == Waiting || x.State == Running && !hasStatus(u)) {
		q.controllerLog(u)
	}
	if x.State != Running || x.passive {
		return
	}
	q.scalers()
	if x.Log = q.logWithErrors(); x.Log != nil && len(x.Log.whole) > 0 {
		q.followErrors()
	}
}

// logWithErrors returns the first log of the pods that has errors, or nil.
func (q *inquiry) logWithErrors() *Log {
	read := 0
	for _, p := range q.workload.Pods {
		if p.DeletionTimestamp != nil {
			continue
		}
		for i := range p.Spec.Containers {
			if read++; read > maxLogs {
				return nil
			}
			if log := q.runningLog(p, p.Spec.Containers[i].Name); log != nil && log.Errors > 0 {
				return log
			}
		}
	}
	return nil
}

// followErrors makes that the cause to which the end of the log leads.
func (q *inquiry) followErrors() {
	x := &q.explanation
	own := fmt.Sprintf("container %q runs, and reports errors in its log", x.Log.Container)
	x.State, x.Cause = Failing, &Cause{
		Reason: reasonErrorsInLog, Object: Object{kindPod, x.Log.Pod}, Container: x.Log.Container, Message: own, Count: int32(x.Log.Errors),
		Advice: fmt.Sprintf("read the log (kubectl logs -n %s %s -c %s)", q.namespace, x.Log.Pod, x.Log.Container),
	}
	q.follow()
	if x.Cause.Message == own {
		x.State, x.Cause = Running, nil
	}
}

// controllerLog makes an error of a controller about an object that it has not processed the cause.
func (q *inquiry) controllerLog(u *unstructured.Unstructured) {
	if !isCustom(u.GroupVersionKind()) || u.GroupVersionKind().Group == v1alpha1.Group || q.clock.Since(u.GetCreationTimestamp().Time) < processedAfter {
		return
	}
	for _, kind := range workloads[:2] {
		for _, o := range q.listIn("", kind) {
			first := wordsOf(u.GetKind())[0] // the line must name the object
			if processes(o.GetName(), u.GetKind(), u.GroupVersionKind().Group) || controllerName.MatchString(o.GetName()) && strings.HasPrefix(o.GetName(), first+"-") {
				q.controllerErrors(u, kind.Kind, o)
				return
			}
		}
	}
}

// controllerErrors looks for the last error about an object in the log of the workload that should process it.
func (q *inquiry) controllerErrors(u *unstructured.Unstructured, kind string, workload client.Object) {
	for _, o := range q.listIn(workload.GetNamespace(), podKind) {
		p, ok := o.(*corev1.Pod)
		if !ok || !podIsReady(p) || !selects(&metav1.LabelSelector{MatchLabels: templateLabels(workload)}, p.Labels) {
			continue
		}
		log := q.runningLog(p, p.Spec.Containers[0].Name)
		if log == nil {
			return
		}
		for _, line := range slices.Backward(log.failures) {
			if mentions(line, u.GetName()) {
				q.explanation.State, q.explanation.Log = Failing, log
				q.explanation.Cause = &Cause{
					Reason: reasonErrorsInLog, Object: Object{kindPod, p.Name}, Container: log.Container, Count: 1,
					Message: shortLine(fmt.Sprintf("%s %q of namespace %q, which should process it, reports: %s", kind, workload.GetName(), workload.GetNamespace(), shownLine(line))),
					Advice:  fmt.Sprintf("read its log (kubectl logs -n %s %s -c %s)", p.Namespace, p.Name, log.Container),
				}
				q.follow()
				return
			}
		}
		return
	}
}

// scalers adds why a HorizontalPodAutoscaler does not scale the target.
func (q *inquiry) scalers() {
	if !slices.ContainsFunc(workloads[:2], func(k schema.GroupKind) bool { return k.Kind == q.explanation.Kind }) {
		return
	}
	for _, o := range q.listOf(scalerKind) {
		h, ok := o.(*autoscalingv2.HorizontalPodAutoscaler)
		if !ok || h.Spec.ScaleTargetRef.Kind != q.explanation.Kind || h.Spec.ScaleTargetRef.Name != q.name {
			continue
		}
		if found, _ := q.explainNext(newReference(scalerKind, h.Namespace, h.Name, "")); found != nil && found.Cause != nil {
			q.explanation.Others = append(q.explanation.Others, *found.Cause)
		}
	}
}

// runningLog returns the errors in the log of a container, or nil if it cannot be read.
func (q *inquiry) runningLog(p *corev1.Pod, container string) *Log {
	log := &Log{Pod: p.Name, Container: container}
	text, err := q.readTail(p, log, maxRunningLines, maxRunningBytes, true)
	if err != nil {
		return nil
	}
	lines := strings.Split(strings.TrimRight(plaintext.Clean(text), " \n"), "\n")
	log.Read = len(lines)
	lasts := false
	var end []string
	for i, line := range lines {
		line, at := cutTime(line)
		isRecent := at.IsZero() || q.clock.Since(at) < lastsFor
		if isRecent && i >= len(lines)-maxLasting {
			end = append(end, splitLog(line)...)
		}
		if isError(line) {
			log.failures = append(log.failures, line)
			lasts = lasts || isRecent && i >= len(lines)-maxLines
		}
	}
	log.Errors, log.Lines = len(log.failures), distinct(log.failures)
	if lasts && len(text) < maxRunningBytes { // otherwise, this is not its end
		log.whole = end
	}
	return log
}

// cutTime cuts the time from the begin of a line, which the API server puts there.
func cutTime(line string) (string, time.Time) {
	first, rest, found := strings.Cut(line, " ")
	if at, err := time.Parse(time.RFC3339Nano, first); found && err == nil {
		return rest, at
	}
	return line, time.Time{}
}

// Levels of lines. The first group of the expressions is the level.
var (
	levelField = regexp.MustCompile(`(?i)"?\b(?:level|lvl|severity|log_?level|levelname)"?\s*[=:]\s*"?([a-z]+)`)
	levelWord  = regexp.MustCompile(`\b(TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|ERR|SEVERE|FATAL|CRITICAL|PANIC|EMERG)\b`)
	klogLevel  = regexp.MustCompile(`^([IWEF])\d{4} \d\d:`)
	badLevel   = regexp.MustCompile(`(?i)^(?:e|f|err|error|severe|fatal|critical|crit|panic|alert|emerg|emergency)$`)
)

// failed matches lines without a level that report an error. They are from runtimes, command line tools, and the access
// logs of servers.
var failed = regexp.MustCompile(`(?i:^(?:fatal|panic|error|exception|traceback)\b|^[\w.]*(?:error|exception)\b: |\berror(?: from server)?[: (]|\bexception\b|connection error)|HTTP/[\d.]+" 5\d\d\b|^\[?HTTP\]? 5\d\d\b`)

// isError reports whether a line of a log reports an error.
func isError(line string) bool {
	for _, level := range []*regexp.Regexp{levelField, klogLevel, levelWord} {
		if m := level.FindStringSubmatch(line); m != nil {
			return badLevel.MatchString(m[1])
		}
	}
	return failed.MatchString(line) || noConnection.MatchString(line) || denial.MatchString(line)
}

// variable matches what differs between lines that say the same: words with a digit.
var variable = regexp.MustCompile(`[^\s"'=,;:(){}\[\]]*\d[^\s"'=,;:(){}\[\]]*`)

// distinct returns the lines that say different things, in the order in which they first occur. If there are many, it
// leaves out those in the middle. The first ones can be the cause of the others, and the last ones go on.
func distinct(lines []string) []string {
	var all []string
	seen := map[string]bool{}
	for _, line := range lines {
		text := cmp.Or(messageIn(line), line)
		if key := variable.ReplaceAllString(text, "#"); !seen[key] {
			seen[key] = true
			all = append(all, shownLine(line))
		}
	}
	if len(all) > maxLines {
		all = slices.Delete(all, maxLines/2, len(all)-maxLines/2)
	}
	return all
}

// shownLine returns a line as users see it. Of a long one in JSON, that is the message.
func shownLine(line string) string {
	if message := messageIn(line); len([]rune(line)) > maxLine && message != "" {
		line = plaintext.Line(message)
	}
	return cutLine(line)
}
