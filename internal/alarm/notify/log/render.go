package log

import (
	"cmp"
	"slices"
	"strings"

	"github.com/fatih/color"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// indent is before each line of a message but the first.
const indent = "    "

const timeLayout = "2006-01-02 15:04:05Z"

type colours struct {
	on                           bool
	time, normal, warning, faint *color.Color
}

func newColours(on bool) colours {
	c := colours{
		on:      on,
		time:    color.New(color.Faint),
		normal:  color.New(color.FgGreen, color.Bold),
		warning: color.New(color.FgYellow, color.Bold),
		faint:   color.New(color.Faint),
	}
	for _, colour := range []*color.Color{c.time, c.normal, c.warning, c.faint} {
		if on {
			colour.EnableColor()
		} else {
			colour.DisableColor()
		}
	}
	return c
}

// Render makes lines like
//
//	2026-11-20 19:02:11Z ! BackOff: Pod shop/web-0  (prod, Alarm shop/crashes)
//	    Back-off restarting failed container
func (n *Notifier) Render(m message.Message) ([]byte, error) {
	var b strings.Builder
	colour, sign := n.colours.normal, "*"
	if notify.IsWarning(&m) {
		colour, sign = n.colours.warning, "!"
	}
	b.WriteString(n.colours.time.Sprint(m.LastSeen.UTC().Format(timeLayout)))
	b.WriteString(" " + colour.Sprint(sign+" "+title(&m)))
	b.WriteString("  " + n.colours.faint.Sprint("("+origin(&m)+")") + "\n")
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

// origin is "prod, Alarm shop/crashes".
func origin(m *message.Message) string {
	parts := []string{plaintext.Line(m.Cluster), notify.Origin(m.Alarm)}
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	return strings.Join(parts, ", ")
}
