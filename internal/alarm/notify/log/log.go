// Package log writes messages for people to read, by default to standard output. Each
// message has one line with the title and the time. Its text follows, indented.
//
// Events cannot forge a message or move the cursor. Control characters are removed, and
// only a message's first line starts in the first column.
package log

import (
	"cmp"
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/fatih/color"
	"golang.org/x/term"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// Notifier writes to one writer. All receivers must share one Notifier, so that their
// messages are not interleaved.
type Notifier struct {
	colors colors

	mu  sync.Mutex
	out io.Writer
}

var _ notify.Notifier = (*Notifier)(nil)

// New returns a Notifier that writes to out, with colors if out is a terminal.
func New(out io.Writer) *Notifier {
	return &Notifier{out: out, colors: newColors(isTerminal(out))}
}

// isTerminal also reads color.NoColor, which depends on NO_COLOR and TERM=dumb.
func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) && !color.NoColor
}

// Format of the bodies. Bodies with colors have another format, so that they are never
// written to anything but a terminal.
func (n *Notifier) Format() string {
	if n.colors.on {
		return "log+color"
	}
	return "log"
}

// Send writes the body. It ignores the key.
func (n *Notifier) Send(_ context.Context, _ string, body []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, err := n.out.Write(body); err != nil {
		return &notify.SendError{
			Class:  notify.Retry,
			Reason: v1alpha1.ReasonDeliveryFailing,
			Text:   "the operator cannot write to its standard output: restart the operator's Pod",
		}
	}
	return nil
}

// indent starts each line of a message except the first.
const indent = "    "

const timeLayout = "2006-01-02 15:04:05Z"

type colors struct {
	on                           bool
	time, normal, warning, faint *color.Color
}

func newColors(on bool) colors {
	c := colors{
		on:      on,
		time:    color.New(color.Faint),
		normal:  color.New(color.FgGreen, color.Bold),
		warning: color.New(color.FgYellow, color.Bold),
		faint:   color.New(color.Faint),
	}
	for _, col := range []*color.Color{c.time, c.normal, c.warning, c.faint} {
		if on {
			col.EnableColor()
		} else {
			col.DisableColor()
		}
	}
	return c
}

// Render returns lines like
//
//	2026-11-20 19:02:11Z ! shop/web-0: BackOff (Pod)  (prod, Alarm shop/crashes)
//	    Back-off restarting failed container
func (n *Notifier) Render(m message.Message) ([]byte, error) {
	var b strings.Builder
	col, symbol := n.colors.normal, "*"
	if notify.IsWarning(&m) {
		col, symbol = n.colors.warning, "!"
	}
	b.WriteString(n.colors.time.Sprint(m.LastSeen.UTC().Format(timeLayout)))
	b.WriteString(" " + col.Sprint(symbol+" "+title(&m)))
	b.WriteString("  " + n.colors.faint.Sprint("("+origin(&m)+")") + "\n")
	for line := range strings.SplitSeq(plaintext.Clean(m.Text), "\n") {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(indent + line + "\n")
		}
	}
	return []byte(b.String()), nil
}

func title(m *message.Message) string {
	return cmp.Or(plaintext.Line(m.Title), "Alarm")
}

// origin returns "prod, Alarm shop/crashes".
func origin(m *message.Message) string {
	parts := []string{plaintext.Line(m.Cluster), notify.Origin(m.Alarm)}
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	return strings.Join(parts, ", ")
}
