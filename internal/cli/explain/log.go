package explain

import (
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/bongsu-io/bongsu/pkg/diagnosis"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// What is shown of a log.
const (
	maxLines    = 10
	maxLogBytes = 16 << 10
	maxLine     = 400
)

// crashes are the reasons that a log may tell more of.
var crashes = []string{diagnosis.ReasonCrashLoopBackOff, diagnosis.ReasonError, diagnosis.ReasonOOMKilled}

// readLog reads the end of the log of the first container that crashed.
func (q *inquiry) readLog() {
	x := &q.explanation
	for _, c := range append([]Cause{*x.Cause}, x.Others...) {
		if c.Container == "" || !slices.Contains(crashes, c.Reason) {
			continue
		}
		i := slices.IndexFunc(q.workload.Pods, func(p *corev1.Pod) bool { return p.Name == c.Object.Name })
		if i >= 0 {
			x.Log = q.tail(q.workload.Pods[i], c.Container)
			return
		}
	}
}

// tail returns the last lines of what the container wrote before it ended; nil if
// they cannot be had.
func (q *inquiry) tail(p *corev1.Pod, container string) *Log {
	log := &Log{Pod: p.Name, Container: container, Previous: !hasEnded(p, container)}
	lines, size := int64(maxLines), int64(maxLogBytes)
	stream, err := q.logs.Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{
		Container: container, Previous: log.Previous, TailLines: &lines, LimitBytes: &size,
	}).Stream(q.ctx)
	if err != nil {
		q.unread("the log of container "+container+" of pod "+p.Name, "get pods/log", err)
		return nil
	}
	defer stream.Close()
	text, err := io.ReadAll(io.LimitReader(stream, maxLogBytes))
	if err != nil {
		q.unread("the log of container "+container+" of pod "+p.Name, "", err)
	}
	log.Lines = linesOf(string(text))
	return log
}

// hasEnded tells whether the container has ended and does not run or wait since.
func hasEnded(p *corev1.Pod, container string) bool {
	statuses := slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses)
	return slices.ContainsFunc(statuses, func(s corev1.ContainerStatus) bool {
		return s.Name == container && s.State.Terminated != nil
	})
}

// linesOf takes out what a terminal would act on, and keeps the last lines.
func linesOf(text string) []string {
	text = strings.TrimRight(plaintext.Clean(text), " \n")
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	lines = lines[max(0, len(lines)-maxLines):]
	for i, line := range lines {
		if runes := []rune(line); len(runes) > maxLine {
			lines[i] = string(runes[:maxLine]) + "…"
		}
	}
	return lines
}
