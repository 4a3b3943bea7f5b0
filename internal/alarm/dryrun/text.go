package dryrun

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// WriteText prints a report for people: of each alarm a table of the Events, and below
// it the messages as they would read. What Events say cannot move the cursor.
func WriteText(out io.Writer, r *Report) error {
	p := &printer{plaintext.Printer{Out: out}}
	for i := range r.Alarms {
		if i > 0 {
			p.Line("")
		}
		p.alarm(&r.Alarms[i], r.Since)
	}
	p.notes(r.Notes)
	return p.Err
}

type printer struct{ plaintext.Printer }

func (p *printer) notes(notes []string) {
	for _, note := range notes {
		p.Line("note: %s", plaintext.Line(note))
	}
}

func (p *printer) alarm(a *AlarmReport, since time.Time) {
	p.Line("%s: of %s since %s, %s", idOf(a.Alarm), count(a.Events, "Event"), since.Format(time.RFC3339), summary(a))
	if a.Suspended {
		p.Line("note: spec.suspend is true: as it is, it sends nothing")
	}
	p.notes(a.Notes)
	p.matches(a.Matches)
	for i := range a.Messages {
		p.message(&a.Messages[i], a.Receivers)
	}
}

func idOf(id alarm.ID) string {
	if id.Namespace != "" {
		return id.Kind + " " + id.Namespace + "/" + id.Name
	}
	return id.Kind + " " + id.Name
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func summary(a *AlarmReport) string {
	n := 0
	for i := range a.Matches {
		if a.Matches[i].Outcome == OutcomeSent || a.Matches[i].Outcome == OutcomeHeldBack {
			n++
		}
	}
	switch n {
	case 0:
		return "none matches"
	case 1:
		return "1 matches, in " + count(len(a.Messages), "message")
	default:
		return fmt.Sprintf("%d match, in %s", n, count(len(a.Messages), "message"))
	}
}

func (p *printer) matches(matches []Match) {
	if len(matches) == 0 || p.Err != nil {
		return
	}
	p.Line("")
	table := tabwriter.NewWriter(p.Out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "AT\tTYPE\tREASON\tOBJECT\tCOUNT\tGROUP\tBECOMES") // Flush tells of an error
	for i := range matches {
		m := &matches[i]
		object := m.Regarding.Kind + " " + m.Regarding.Name
		if m.Regarding.Namespace != "" {
			object = m.Regarding.Kind + " " + m.Regarding.Namespace + "/" + m.Regarding.Name
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", m.At.Format(time.RFC3339),
			cell(m.Type), cell(m.Reason), cell(object), m.Count, cell(groupOf(m)), cell(becomes(m)))
	}
	p.Err = table.Flush()
}

func cell(text string) string {
	if text = plaintext.Line(text); text == "" {
		return "-"
	}
	return text
}

func groupOf(m *Match) string {
	var values []string
	for _, by := range m.Group {
		values = append(values, by.Key+"="+by.Value)
	}
	return strings.Join(values, " ")
}

func becomes(m *Match) string {
	switch m.Outcome {
	case OutcomeHeldBack:
		return "held back by " + m.HeldBackBy
	case OutcomeUnresolved:
		return "cannot be judged: the object is gone, or may not be read"
	case OutcomeFailed:
		return "cannot be judged: " + m.Error
	}
	text := fmt.Sprintf("message %d", m.Message)
	if m.Error != "" {
		text += ", in which an expression fails"
	}
	return text
}

func (p *printer) message(m *Message, receivers []string) {
	p.Line("")
	p.Line("message %d at %s to %s:", m.Number, m.At.Format(time.RFC3339), strings.Join(receivers, ", "))
	p.Line("    %s", m.Message.Title)
	if m.Message.Text != "" {
		for line := range strings.SplitSeq(m.Message.Text, "\n") {
			p.Line("    %s", line)
		}
	}
}
