package watch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"
	"unicode"
	"unicode/utf8"
)

// JSONPrinter prints a JSON object for each change, in a line.
type JSONPrinter struct {
	Out io.Writer
	// Diff adds the whole difference, as a text.
	Diff bool
}

// record is what is printed.
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

// escape writes what a terminal might act on, or YAML not take, as JSON's \u....: it
// is only ever in strings, and stays the same for whoever reads the JSON.
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

// maxEscaped is the last that a single \u.... can tell. Nothing acts on what is
// above.
const maxEscaped = '\uffff'
