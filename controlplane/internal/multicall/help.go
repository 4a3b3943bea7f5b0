package multicall

import (
	"fmt"
	"io"
)

// Exit codes.
const (
	exitHelp   = 0
	exitFailed = 1
	exitUsage  = 2
)

// Explain answers an argv that names no program, and returns the exit code: a
// plea for help is not an error, anything else is.
func (b *Binary) Explain(argv []string, stdout, stderr io.Writer) int {
	if len(argv) < 2 {
		b.usage(stderr)
		return exitUsage
	}
	switch argv[1] {
	case "help", "-h", "-help", "--help":
		b.usage(stdout)
		return exitHelp
	}
	fmt.Fprintf(stderr, "%s: there is no component %q\n\n", b.Name, argv[1])
	b.usage(stderr)
	return exitUsage
}

func (b *Binary) usage(w io.Writer) {
	fmt.Fprintf(w, `%[2]s

Usage:
  %[1]s COMPONENT [flags]
  COMPONENT [flags]  (through a link of that name)
  %[1]s link         (makes these links)

Components:
`, b.Name, b.Summary)
	for _, p := range b.Programs {
		fmt.Fprintf(w, "  %-*s  %s\n", b.widest(), p.Name, p.Summary)
	}
	fmt.Fprintf(w, "\n\"%s COMPONENT --help\" lists the flags of a component.\n", b.Name)
}

func (b *Binary) widest() int {
	width := 0
	for _, p := range b.Programs {
		width = max(width, len(p.Name))
	}
	return width
}
