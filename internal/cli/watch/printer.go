package watch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"
	"sigs.k8s.io/yaml"

	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// The limits of a line.
const (
	maxShown = 8   // differences
	maxValue = 100 // characters
)

// none is printed for a missing value, as in kubectl's tables.
const none = "<none>"

// TextPrinter prints a line for each change, such as
//
//	2026-11-20T19:02:11Z MODIFIED deployments.apps/web in shop: replicas 1 -> 3
type TextPrinter struct {
	Out io.Writer
	// Type is the type of the objects.
	Type ResourceType
	// Diff adds the unified diff, indented.
	Diff bool
}

// Print implements Printer. It prints nothing if only values have changed that it never shows.
func (p TextPrinter) Print(c *Change) error {
	facts := stateOfChange(c)
	var diff string
	if p.Diff && c.Type == Modified {
		var err error
		if diff, err = Diff(c.Former, c.Object); err != nil {
			return err
		}
	}
	if c.Type == Modified && len(facts) == 0 && diff == "" {
		return nil
	}
	_, err := io.WriteString(p.Out, p.line(c, facts)+"\n"+indented(diff))
	return err
}

// stateOfChange returns what a line says about a change.
func stateOfChange(c *Change) []Difference {
	switch c.Type {
	case Added:
		return stateOfObject(c.Object.Object)
	case Modified:
		return Differences(c.Former, c.Object)
	case Deleted:
	}
	return nil
}

// line returns one line without control characters, even if the object contains some.
func (p TextPrinter) line(c *Change, facts []Difference) string {
	name := c.name()
	s := fmt.Sprintf("%s %s %s/%s", c.Time.UTC().Format(time.RFC3339), c.Type, p.Type, name.Name)
	if name.Namespace != "" {
		s += " in " + name.Namespace
	}
	if len(facts) > 0 {
		s += ": " + summary(facts)
	}
	return plaintext.Line(s)
}

func summary(all []Difference) string {
	var shown []string
	var note string
	for _, d := range all[:min(len(all), maxShown)] {
		if d.Note == note && d.To != nil {
			d.Note = "" // consecutive conditions often have the same reason
		} else {
			note = d.Note
		}
		shown = append(shown, d.String())
	}
	if more := len(all) - maxShown; more > 0 {
		shown = append(shown, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(shown, ", ")
}

// String returns a text like "phase Pending -> Running".
func (d Difference) String() string {
	switch {
	case d.From == nil && d.To == nil:
		return d.Name + " " + d.Note
	case reflect.DeepEqual(d.From, d.To):
		return fmt.Sprintf("%s %s%s", d.Name, brief(d.To), inBrackets(d.Note))
	}
	return fmt.Sprintf("%s %s -> %s%s", d.Name, brief(d.From), brief(d.To), inBrackets(d.Note))
}

func inBrackets(note string) string {
	if note == "" {
		return ""
	}
	return " (" + cut(note) + ")"
}

// brief returns a string as it is, and any other value as JSON. Long values are cut.
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

// cut shortens a text to maxValue characters.
func cut(s string) string {
	runes := 0
	for i := range s {
		if runes++; runes > maxValue {
			return s[:i] + "…"
		}
	}
	return s
}

// indented removes control characters and indents each line, so that no line looks like
// a change.
func indented(text string) string {
	var b strings.Builder
	for l := range strings.Lines(text) {
		l = strings.TrimSuffix(l, "\n")
		b.WriteString("    " + strings.ReplaceAll(plaintext.Clean(l), "\n", " ") + "\n")
	}
	return b.String()
}

// JSONPrinter prints a JSON object per line for each change.
type JSONPrinter struct {
	Out io.Writer
	// Diff adds the unified diff, as a string.
	Diff bool
}

// record is the printed JSON object.
type record struct {
	Type     Type           `json:"type"`
	Time     time.Time      `json:"time"`
	Key      string         `json:"key"`
	Existing bool           `json:"existing,omitempty"`
	Changes  []Difference   `json:"changes,omitempty"`
	Diff     string         `json:"diff,omitempty"`
	Object   map[string]any `json:"object"`
}

// Print implements Printer.
func (p JSONPrinter) Print(c *Change) error {
	r := record{Type: c.Type, Time: c.Time.UTC(), Key: c.Key(), Existing: c.Existing, Object: c.Object.Object}
	if c.Type == Modified {
		r.Changes = Differences(c.Former, c.Object)
		if p.Diff {
			var err error
			if r.Diff, err = Diff(c.Former, c.Object); err != nil {
				return err
			}
		}
	}
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(r); err != nil {
		return err
	}
	_, err := p.Out.Write(escape(line.Bytes()))
	return err
}

// escape replaces unprintable characters by JSON's \u escapes, because terminals act on
// them and YAML does not allow them. They occur only within strings, so the decoded JSON
// stays the same.
func escape(line []byte) []byte {
	escaped := make([]byte, 0, len(line))
	for _, r := range string(line) {
		if r != '\n' && r <= maxEscaped && !unicode.IsPrint(r) {
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		} else {
			escaped = utf8.AppendRune(escaped, r)
		}
	}
	return escaped
}

// maxEscaped is the last character that one \u escape can represent. No terminal acts on
// the characters above it.
const maxEscaped = '\uffff'

// Diff returns the unified diff of two states of an object in YAML, without the header
// and the resourceVersion. It is empty if only hidden values differ.
func Diff(from, to *Object) (string, error) {
	former, err := document(from)
	if err != nil {
		return "", err
	}
	present, err := document(to)
	if err != nil {
		return "", err
	}
	unified, err := udiff.ToUnified("", "", former, udiff.Lines(former, present), udiff.DefaultContextLines)
	if err != nil {
		return "", fmt.Errorf("compare: %w", err)
	}
	_, hunks, _ := strings.Cut(unified, "\n+++ \n")
	return hunks, nil
}

func document(o *Object) (string, error) {
	content := maps.Clone(o.Object)
	if metadata, ok := content["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		delete(metadata, "resourceVersion")
		content["metadata"] = metadata
	}
	asJSON, err := json.Marshal(content)
	if err != nil {
		return "", err
	}
	text, err := yaml.JSONToYAML(escape(asJSON)) // JSONToYAML parses its input as YAML
	return string(text), err
}
