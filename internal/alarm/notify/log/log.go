// Package log writes messages for a person to read, by default to standard
// output: a line that says what happened, and what more there is to say indented
// below it.
//
// No Event can forge a line or move the cursor: control characters are taken out,
// and only our own lines begin in the first column.
package log

import (
	"context"
	"io"
	"os"
	"sync"

	"github.com/fatih/color"
	"golang.org/x/term"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
)

// Notifier writes to one writer. All receivers of it share one Notifier, so that
// their messages do not mix.
type Notifier struct {
	colours colours

	mu  sync.Mutex
	out io.Writer
}

var _ notify.Notifier = (*Notifier)(nil)

// New returns a Notifier that writes to out, in colour if that is a terminal.
func New(out io.Writer) *Notifier {
	return &Notifier{out: out, colours: newColours(isTerminal(out))}
}

// isTerminal also asks color.NoColor, which knows NO_COLOR and TERM=dumb.
func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) && !color.NoColor
}

// Format of the bodies: with colour it is another, so that none shows up where
// there is no terminal.
func (n *Notifier) Format() string {
	if n.colours.on {
		return "log+colour"
	}
	return "log"
}

// Send writes the body. The key has no use.
func (n *Notifier) Send(_ context.Context, _ string, body []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, err := n.out.Write(body); err != nil {
		return &notify.SendError{
			Class:  notify.Retry,
			Reason: v1alpha1.ReasonDeliveryFailing,
			Text:   "the operator's output cannot be written to",
		}
	}
	return nil
}
