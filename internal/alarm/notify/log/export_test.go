package log

import "io"

// NewColored is New for a terminal.
func NewColored(out io.Writer) *Notifier {
	return &Notifier{out: out, colors: newColors(true)}
}
