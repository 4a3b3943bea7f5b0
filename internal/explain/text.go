package explain

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
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

// passiveTexts are the texts for the states of objects that run no containers.
var passiveTexts = map[State]string{
	Running: "shows no problem",
	Waiting: "is not ready yet, and no problem is known",
	Failing: "has a problem",
	Stopped: "is inactive",
	Unknown: "has an unknown state",
}

// stateText returns the text for the state of an object.
func stateText(x *Explanation) string {
	switch {
	case x.passive:
		return passiveTexts[x.State]
	case x.State == Running && x.Log != nil:
		return "runs, and its log has errors"
	}
	return stateTexts[x.State]
}

// WriteResult writes an Explanation or an Overview as text.
func WriteResult(w io.Writer, found Result, now time.Time) error {
	if o, ok := found.(*Overview); ok {
		return WriteOverview(w, o)
	}
	return WriteText(w, found.(*Explanation), now) //nolint:forcetypeassert // a Result is one of the two
}

// WriteText writes the explanation as text, without control characters.
func WriteText(w io.Writer, x *Explanation, now time.Time) error {
	var p page
	p.line("%s %s %s: %s", x.Kind, path.Join(x.Namespace, x.Name), stateText(x), x.Summary)
	if x.LateAfter != nil {
		p.line("  This is usual for %s more", duration.HumanDuration(max(0, x.LateAfter.Sub(now))))
	}
	if x.Cause != nil {
		title := "Cause"
		if x.State == Unknown {
			title = "Possible cause"
		}
		p.cause(title, x.Cause, now)
	}
	p.chain(x.Chain, x.Cause)
	for i := range x.Others {
		p.cause("Also", &x.Others[i], now)
	}
	if x.LastCrash != nil {
		p.cause("Before that", x.LastCrash, now)
	}
	p.log(x.Log)
	p.deletion(x.Deletion, now)
	p.podStatuses(x.PodStatuses, now)
	p.conditions(briefConditions(x))
	p.lastFailure(briefLastFailure(x), now)
	p.notChecked(x.NotChecked)
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
	when := countAndAge(c.Count, c.Time, now)
	if c.Reason == diagnosis.ReasonPodInitializing && c.Time != nil {
		when = " (for " + duration.HumanDuration(max(0, now.Sub(*c.Time))) + ")"
	}
	p.line("%s: %s in %s%s", title, c.Reason, place(c), when)
	p.line("  %s", c.Message)
	for _, item := range c.Items {
		p.line("  - %s", item)
	}
	if c.Advice != "" {
		p.line("  Advice: %s", c.Advice)
	}
}

// maxLinkText limits what an object on the way says, in bytes.
const maxLinkText = 300

// chain shows the objects from the explained one to the root of its problem, and what each of them says
// besides the cause.
func (p *page) chain(chain []Link, cause *Cause) {
	var lines []string
	for _, l := range chain {
		text := l.Kind + " " + path.Join(l.Namespace, l.Name)
		if cause == nil || !strings.Contains(cause.Message, l.Message) {
			text += ": " + plaintext.Cut(l.Message, maxLinkText)
		}
		lines = append(lines, text)
	}
	switch len(lines) {
	case 0:
	case 1:
		p.line("  By way of: %s", lines[0])
	default:
		p.line("  By way of:")
		for _, text := range lines {
			p.line("  - %s", text)
		}
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
	if l.Errors > 0 {
		p.line("%d of the last %s in the log of Pod %s, container %s, report an error:", l.Errors, plural(l.Read, "line"), l.Pod, l.Container)
	} else {
		p.line("The end of the log of Pod %s, container %s:", l.Pod, l.Container)
	}
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
		p.line("  %s", conditionText(c))
	}
}

// conditionText returns the type and the status, and the reason and message if there are.
func conditionText(c metav1.Condition) string {
	parts := []string{strings.TrimSpace(c.Type + " " + string(c.Status)), c.Reason, c.Message}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ": ")
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
			if n.LastCheckTime != nil { // the status counts later failures every few minutes
				s += " as of " + ago(n.LastCheckTime.Time, now)
			}
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

// WriteOverview writes the overview as text, with one line for each problem.
func WriteOverview(w io.Writer, o *Overview) error {
	var p page
	p.line("%s: %s, %s of Kubernetes and Bongsu checked", scopeOf(o), problemCount(len(o.Problems)), plural(o.Checked, "object"))
	if len(o.Problems) > 0 {
		p.line("")
		p.problems(o.Problems)
		p.line("")
		p.line("For details: %s", detailsCommand(&o.Problems[0].Objects[0]))
	}
	p.notChecked(o.NotChecked)
	_, err := io.WriteString(w, p.String())
	return err
}

func (p *page) notChecked(all []NotChecked) {
	if len(all) > 0 {
		p.line("")
	}
	for _, u := range all {
		format := "could not read %s: %s"
		if u.Why == notInOverview {
			format = "not checked: %s: %s"
		}
		p.line(format, u.What, u.Why)
	}
}

func scopeOf(o *Overview) string {
	if o.Namespace == "" {
		return "All namespaces"
	}
	return "Namespace " + o.Namespace
}

func problemCount(n int) string {
	if n == 0 {
		return "no problem"
	}
	return plural(n, "problem")
}

func detailsCommand(o *ProblemObject) string {
	command := "bongsu explain " + strings.ToLower(o.Kind) + "/" + o.Name
	if o.Namespace != "" {
		command += " -n " + o.Namespace
	}
	return command
}

func (p *page) problems(problems []Problem) {
	table := tabwriter.NewWriter(p, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "STATE\tREASON\tOBJECTS\tMESSAGE")
	for i := range problems {
		_, _ = fmt.Fprintln(table, strings.Join(problems[i].columns(), "\t"))
	}
	_ = table.Flush()
}

// columns returns the state, the reason, the objects and the message.
func (p *Problem) columns() []string {
	reason, message := "-", p.Objects[0].Summary
	if c := p.Cause; c != nil {
		reason, message = c.Reason, c.diagnosis().Sentence()
		if c.Node != "" && !strings.Contains(message, strconv.Quote(c.Node)) {
			message = "node " + c.Node + ": " + message
		}
	}
	columns := []string{string(p.State), reason, objectList(p.Objects), message}
	for i := range columns {
		columns[i] = plaintext.Line(columns[i])
	}
	return columns
}

// objectList returns the first objects, and the number of the others.
func objectList(objects []ProblemObject) string {
	const most = 2
	var names []string
	for _, o := range objects[:min(len(objects), most)] {
		name := o.Name
		if o.Namespace != "" {
			name = o.Namespace + "/" + name
		}
		names = append(names, o.Kind+" "+name)
	}
	text := strings.Join(names, ", ")
	if more := len(objects) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
