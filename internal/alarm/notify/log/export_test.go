package log

import "io"

// NewColoured is New for a terminal.
func NewColoured(out io.Writer) *Notifier {
	return &Notifier{out: out, colours: newColours(true)}
}
