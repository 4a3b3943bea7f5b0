package plaintext

import (
	"fmt"
	"io"
)

// Printer prints lines until one fails.
type Printer struct {
	Out io.Writer
	// Err is how the first line failed that did.
	Err error
}

// Line prints a line, as fmt.Fprintf does; after an error nothing. What is not trusted
// in it is the caller's to clean.
func (p *Printer) Line(format string, args ...any) {
	if p.Err == nil {
		_, p.Err = fmt.Fprintf(p.Out, format+"\n", args...)
	}
}
