package watch

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// The limits of a line.
const (
	maxTold  = 8   // differences
	maxValue = 100 // characters
)

// none is what a value is that is not there, as in kubectl's tables.
const none = "<none>"

// TextPrinter prints a line for each change, like
//
//	MODIFIED shop/web: replicas 1 -> 3, image web nginx:1 -> nginx:2
type TextPrinter struct {
	Out io.Writer
	// Diff adds the whole difference, indented.
	Diff bool
}

// Print implements Printer.
func (p TextPrinter) Print(c *Change) error {
	lines := line(c) + "\n"
	if p.Diff && c.Type == Modified {
		diff, err := Diff(c.Former, c.Object)
		if err != nil {
			return err
		}
		lines += indented(diff)
	}
	_, err := io.WriteString(p.Out, lines)
	return err
}

// line has nothing in it that a terminal would act on, and no second line,
// whatever the object says.
func line(c *Change) string {
	s := fmt.Sprintf("%s %s", c.Type, c.Key())
	if c.Type == Modified {
		s += ": " + summary(Differences(c.Former, c.Object))
	}
	return plaintext.Line(s)
}

func summary(all []Difference) string {
	if len(all) == 0 {
		return "nothing that is shown"
	}
	var told []string
	var note string
	for _, d := range all[:min(len(all), maxTold)] {
		if d.Note == note && d.To != nil {
			d.Note = "" // several conditions often have the same reason
		} else {
			note = d.Note
		}
		told = append(told, d.String())
	}
	if more := len(all) - maxTold; more > 0 {
		told = append(told, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(told, ", ")
}

// String returns a text like "phase Pending -> Running".
func (d Difference) String() string {
	switch {
	case d.From == nil && d.To == nil:
		return d.What + " " + d.Note
	case reflect.DeepEqual(d.From, d.To):
		return fmt.Sprintf("%s %s%s", d.What, brief(d.To), inBrackets(d.Note))
	}
	return fmt.Sprintf("%s %s -> %s%s", d.What, brief(d.From), brief(d.To), inBrackets(d.Note))
}

func inBrackets(note string) string {
	if note == "" {
		return ""
	}
	return " (" + cut(note) + ")"
}

// brief returns a value as it is if it is a text, and else as JSON.
func brief(value any) string {
	if value == nil {
		return none
	}
	if s, ok := value.(string); ok && s != "" {
		return cut(s)
	}
	b, err := json.Marshal(value)
	if err != nil {
		return cut(fmt.Sprint(value))
	}
	return cut(string(b))
}

// cut keeps the beginning of a text that is long.
func cut(s string) string {
	runes := 0
	for i := range s {
		if runes++; runes > maxValue {
			return s[:i] + "…"
		}
	}
	return s
}

// indented cleans and indents lines, so that none looks like a change.
func indented(text string) string {
	var b strings.Builder
	for l := range strings.Lines(text) {
		l = strings.TrimSuffix(l, "\n")
		b.WriteString("    " + strings.ReplaceAll(plaintext.Clean(l), "\n", " ") + "\n")
	}
	return b.String()
}
