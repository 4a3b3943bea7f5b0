package trial

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// Report is the result of a test. Its JSON form is the output of `bongsu alarm test -o
// json`. Releases can add fields.
type Report struct {
	// From and Until are the period whose Events were evaluated.
	From   time.Time     `json:"from"`
	Until  time.Time     `json:"until"`
	Alarms []AlarmReport `json:"alarms"`
	// Problems say why receivers in the file cannot work as they are.
	Problems []string `json:"problems,omitempty"`
	// Notes say what is unknown, and why.
	Notes []string `json:"notes,omitempty"`
}

// AlarmReport is the result for one alarm.
type AlarmReport struct {
	Alarm kube.Key `json:"alarm"`
	// Receivers are KIND/NAMESPACE/NAME of the receivers in the alarm. The namespace of
	// cluster-scoped kinds is empty.
	Receivers []string `json:"receivers"`
	// withoutMatch: it has no spec.match, so no Events are evaluated.
	withoutMatch bool
	// Suspended is spec.suspend: the alarm sends nothing if you apply it.
	Suspended bool `json:"suspended,omitempty"`
	// Events is the number of Events that were evaluated: those of the Alarm's namespace,
	// or of all namespaces for a ClusterAlarm. If Compared is true, it is the number of objects
	// in two files, and Matches are their changes.
	Events   int  `json:"events"`
	Compared bool `json:"compared,omitempty"`
	// Matches are the Events that the alarm matches, or may match, the oldest first.
	Matches []Match `json:"matches"`
	// Messages are those that would be sent, in this order.
	Messages []Message `json:"messages"`
	// NearMisses are the Events that the alarm would match without one of its conditions,
	// the most useful first.
	NearMisses []NearMiss `json:"nearMisses"`
	// NearMissNotes say which Events and near misses a limit left out.
	NearMissNotes []string `json:"nearMissNotes,omitempty"`
	// Problems say why the alarm cannot work as it is.
	Problems []string `json:"problems,omitempty"`
	Notes    []string `json:"notes,omitempty"`
}

// matched returns the number of Events that the alarm matches.
func (a *AlarmReport) matched() (n int) {
	for i := range a.Matches {
		if a.Matches[i].Outcome == OutcomeSent || a.Matches[i].Outcome == OutcomeHeldBack {
			n++
		}
	}
	return n
}

// Err returns the problems of all receivers and alarms, or nil if there are none.
func (r *Report) Err() error {
	var errs []error
	for _, problem := range r.Problems {
		errs = append(errs, errors.New(plaintext.Line(problem)))
	}
	for i := range r.Alarms {
		for _, problem := range r.Alarms[i].Problems {
			errs = append(errs, fmt.Errorf("%s: %s", r.Alarms[i].Alarm.Display(), plaintext.Line(problem)))
		}
	}
	return errors.Join(errs...)
}

// Values of Match.Outcome.
const (
	// OutcomeSent means that the Event is part of a message.
	OutcomeSent = "Sent"
	// OutcomeHeldBack means that the Event matches and is not sent: see Match.HeldBackBy.
	OutcomeHeldBack = "HeldBack"
	// OutcomeUnresolved means that the result is unknown, because the object does not
	// exist any more or cannot be read.
	OutcomeUnresolved = "Unresolved"
	// OutcomeFailed means that the result is unknown, because an expression failed.
	OutcomeFailed = "Failed"
)

// Match is an Event that the alarm matches, or may match.
type Match struct {
	// Namespace and Name of the Event.
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Type      string            `json:"type"`
	Reason    string            `json:"reason"`
	Note      string            `json:"note"`
	Regarding message.Reference `json:"regarding"`
	// Count is the number of occurrences. All are taken to have occurred at At.
	Count int64     `json:"count"`
	At    time.Time `json:"at"`
	// Outcome is Sent, HeldBack, Unresolved or Failed.
	Outcome string `json:"outcome"`
	// HeldBackBy is threshold or mute.
	HeldBackBy string `json:"heldBackBy,omitempty"`
	// Error is the failure of an expression. If the outcome is Sent, it is one of the
	// message, whose text contains the failure.
	Error string `json:"error,omitempty"`
	// Group contains the values of its group.
	Group []alarm.GroupValue `json:"group,omitempty"`
	// Message is the Number of the message that contains it.
	Message int `json:"message,omitempty"`
}

// Message is a message that would be sent.
type Message struct {
	// Number counts from 1.
	Number int `json:"number"`
	// At is the time of sending, without rate limits and failures of the receiver.
	At time.Time `json:"at"`
	// Receivers are those that spec.receiversFrom chooses, besides AlarmReport.Receivers. If they
	// differ between the Events of the message, each gets a message about its own.
	Receivers []string `json:"receivers,omitempty"`
	// Channels are the channels of the receivers that choose one by a label of the namespace,
	// by the names in AlarmReport.Receivers.
	Channels map[string]string `json:"channels,omitempty"`
	// Message has the form of a webhook's body (docs/webhook.schema.json).
	Message message.Message `json:"message"`
}

// WriteText prints a report for people: for each alarm a table of the Events, and below it
// the messages. It removes control characters from the texts of Events.
func WriteText(out io.Writer, r *Report) error {
	p := &printer{plaintext.Printer{Out: out}}
	for i := range r.Alarms {
		if i > 0 {
			p.Line("")
		}
		p.alarm(&r.Alarms[i], r)
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

func (p *printer) alarm(a *AlarmReport, r *Report) {
	if a.withoutMatch {
		p.Line("%s: it has no spec.match, so Events are not evaluated", a.Alarm.Display())
		p.notes(a.Notes)
		return
	}
	of := fmt.Sprintf("%s from %s to %s", count(a.Events, "Event"), r.From.Format(time.RFC3339), r.Until.Format(time.RFC3339))
	if a.Compared {
		of = count(a.Events, "object")
	}
	p.Line("%s: of %s, %s", a.Alarm.Display(), of, summary(a))
	p.notes(a.Notes)
	p.matches(a.Matches)
	if a.matched() == 0 {
		p.nearMisses(a.NearMisses, a.NearMissNotes)
	}
	for i := range a.Messages {
		p.message(&a.Messages[i], a.Receivers)
	}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func summary(a *AlarmReport) string {
	switch n := a.matched(); n {
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
	_, _ = fmt.Fprintln(table, "AT\tTYPE\tREASON\tOBJECT\tCOUNT\tGROUP\tBECOMES") // Flush returns its error
	for i := range matches {
		m := &matches[i]
		object := kube.Key{Kind: m.Regarding.Kind, Namespace: m.Regarding.Namespace, Name: m.Regarding.Name}.Display()
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
		return "unknown: the object does not exist any more, or you may not read it"
	case OutcomeFailed:
		return "unknown: " + m.Error
	}
	text := fmt.Sprintf("message %d", m.Message)
	if m.Error != "" {
		text += ", in which an expression fails"
	}
	return text
}

// destinations returns the receivers of a message, with its channel where they choose one.
func destinations(m *Message, receivers []string) (all []string) {
	keys := slices.Concat(receivers, m.Receivers)
	all = displayed(keys...)
	for i, key := range keys {
		if channel := m.Channels[key]; channel != "" {
			all[i] += " in " + channel
		}
	}
	return all
}

func (p *printer) message(m *Message, receivers []string) {
	p.Line("")
	p.Line("message %d at %s to %s:", m.Number, m.At.Format(time.RFC3339), strings.Join(destinations(m, receivers), ", "))
	p.Line("    %s", m.Message.Title)
	if m.Message.Text != "" {
		for line := range strings.SplitSeq(m.Message.Text, "\n") {
			p.Line("    %s", line)
		}
	}
}

// NearMiss are Events that the alarm would match without one of its conditions.
type NearMiss struct {
	// Field is the condition, for example spec.match[0].reasons.
	Field string `json:"field"`
	// Value is what the newest of the Events has. For objectSelector, it is the label of the
	// object, as KEY=VALUE or "no label KEY". It is empty for expression.
	Value string `json:"value,omitempty"`
	// Instead is a similar value or pattern that matches these Events.
	Instead string `json:"instead,omitempty"`
	// Events is the number of Events.
	Events int `json:"events"`
	// Object is KIND NAMESPACE/NAME of the object of the newest Event.
	Object string `json:"object"`

	met int
}

// advice says how the Events differ, or what to write instead.
func (n *NearMiss) advice() string {
	switch {
	case n.Field == "metadata.namespace" && n.Value == "":
		return n.Object + " has no namespace: use a ClusterAlarm"
	case n.Instead != "":
		return fmt.Sprintf("write %q", n.Instead)
	case n.Value == "":
		return "for example of " + n.Object
	default:
		return n.Value
	}
}

func (p *printer) nearMisses(misses []NearMiss, notes []string) {
	if len(misses)+len(notes) == 0 {
		return
	}
	p.Line("")
	p.Line("near misses:")
	for i := range misses[:min(len(misses), maxPrintedNearMisses)] {
		n := &misses[i]
		verb := "differ"
		if n.Events == 1 {
			verb = "differs"
		}
		p.Line("    %s %s only in %s: %s", count(n.Events, "Event"), verb, n.Field, n.advice())
	}
	if more := len(misses) - maxPrintedNearMisses; more > 0 {
		p.Line("    and %d more kinds of near misses, see -o json", more)
	}
	for _, note := range notes {
		p.Line("    note: %s", note)
	}
}

// displayed returns the names of receivers in messages, by the texts of their keys.
func displayed(keys ...string) (names []string) {
	for _, text := range keys {
		if key, err := kube.ParseKey(text); err == nil {
			text = key.Display()
		}
		names = append(names, text)
	}
	return names
}
