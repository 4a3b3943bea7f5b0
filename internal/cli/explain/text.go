package explain

import (
	"fmt"
	"io"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// stateTexts are the texts for the states.
var stateTexts = map[State]string{
	Running:   "runs fine",
	Waiting:   "is not running yet, and no problem is known",
	Failing:   "does not run as it should",
	Stopped:   "is stopped",
	Completed: "has completed",
	Unknown:   "has an unknown state",
}

// WriteText writes the explanation as text, without control characters.
func WriteText(w io.Writer, x *Explanation, now time.Time) error {
	var p page
	p.line("%s %s/%s %s: %s", x.Kind, x.Namespace, x.Name, stateTexts[x.State], x.Summary)
	if x.Cause != nil {
		title := "Cause"
		if x.State == Unknown {
			title = "Possible cause"
		}
		p.cause(title, x.Cause, now)
	}
	for i := range x.Others {
		p.cause("Also", &x.Others[i], now)
	}
	if x.LastCrash != nil {
		p.cause("Before that", x.LastCrash, now)
	}
	p.log(x.Log)
	p.deletion(x.Deletion, now)
	p.podStatuses(x.PodStatuses, now)
	p.conditions(x.Conditions)
	p.lastFailure(x.LastFailure, now)
	if len(x.Unread) > 0 {
		p.line("")
	}
	for _, u := range x.Unread {
		p.line("could not read %s: %s", u.What, u.Why)
	}
	_, err := io.WriteString(w, p.String())
	return err
}

// page collects the lines of the output.
type page struct{ strings.Builder }

func (p *page) line(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	indent := len(text) - len(strings.TrimLeft(text, " "))
	p.WriteString(text[:indent] + plaintext.Line(text) + "\n")
}

func (p *page) cause(title string, c *Cause, now time.Time) {
	p.line("")
	p.line("%s: %s in %s%s", title, c.Reason, place(c), countAndAge(c.Count, c.Time, now))
	p.line("  %s", c.Message)
	if c.Advice != "" {
		p.line("  Advice: %s", c.Advice)
	}
}

func place(c *Cause) string {
	s := c.Object.Kind + " " + c.Object.Name
	if c.Container != "" {
		s += ", container " + c.Container
	}
	if c.ExitCode != nil {
		s += fmt.Sprintf(", exit code %d", *c.ExitCode)
	}
	return s
}

func countAndAge(count int32, at *time.Time, now time.Time) string {
	var parts []string
	if count > 1 {
		parts = append(parts, fmt.Sprintf("%d times", count))
	}
	if at != nil {
		parts = append(parts, "last "+ago(*at, now))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

func ago(t, now time.Time) string { return duration.HumanDuration(max(0, now.Sub(t))) + " ago" }

func (p *page) log(l *Log) {
	if l == nil {
		return
	}
	p.line("")
	if len(l.Lines) == 0 {
		p.line("Container %s of Pod %s has written nothing to its log.", l.Container, l.Pod)
		return
	}
	p.line("The end of the log of Pod %s, container %s:", l.Pod, l.Container)
	for _, text := range l.Lines {
		p.WriteString("  | " + plaintext.Clean(text) + "\n")
	}
}

func (p *page) conditions(conditions []metav1.Condition) {
	if len(conditions) == 0 {
		return
	}
	p.line("")
	p.line("Conditions:")
	for _, c := range conditions {
		p.line("  %s %s: %s: %s", c.Type, c.Status, c.Reason, c.Message)
	}
}

func (p *page) deletion(d *Deletion, now time.Time) {
	if d == nil {
		return
	}
	p.line("")
	p.line("The deletion waits for %s", d.WaitsFor)
	if d.Backup != nil {
		p.line("  %s", backup(d.Backup, now))
	}
	if d.Release != "" {
		p.line("  To delete it without a backup: %s", d.Release)
	}
}

func backup(b *v1alpha1.BackupStatus, now time.Time) string {
	s := "backup " + string(b.Phase) + ", " + plural(int(b.Attempts), "attempt")
	if b.StartTime != nil {
		s += ", started " + ago(b.StartTime.Time, now)
	}
	if b.Message != "" {
		s += ": " + b.Message
	}
	return s
}

func (p *page) podStatuses(pods []v1alpha1.PodStatus, now time.Time) {
	if len(pods) == 0 {
		return
	}
	p.line("")
	p.line("Not healthy by the health check:")
	for _, n := range pods {
		s := fmt.Sprintf("  Pod %s: %s since %s: %s", n.Name, n.Health, duration.HumanDuration(max(0, now.Sub(n.LastTransitionTime.Time))), n.Reason)
		if n.ConsecutiveFailures > 0 {
			s += ", " + plural(int(n.ConsecutiveFailures), "failure") + " in a row"
		}
		if n.Message != "" {
			s += ": " + n.Message
		}
		p.line("%s", s)
	}
}

func (p *page) lastFailure(l *v1alpha1.LastFailure, now time.Time) {
	if l == nil {
		return
	}
	c := &Cause{Reason: l.Reason, Object: Object(l.Object), Container: l.Container, ExitCode: l.ExitCode, Message: l.Message}
	p.line("")
	p.line("Last failure: %s in %s%s", l.Reason, place(c), countAndAge(l.Count, &l.LastTime.Time, now))
	p.line("  %s", l.Message)
}
