package pending

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// WriteText prints a report for people.
func WriteText(out io.Writer, r *Report) error {
	p := &printer{plaintext.Printer{Out: out}}
	if r.Note != "" {
		p.Line("note: %s", plaintext.Line(r.Note))
	}
	if len(r.Receivers) == 0 {
		p.Line("Nothing waits, and no digest was sent in the last 24 hours.")
	}
	for i := range r.Receivers {
		if i > 0 {
			p.Line("")
		}
		p.receiver(&r.Receivers[i])
	}
	return p.Err
}

type printer struct{ plaintext.Printer }

func (p *printer) receiver(r *Receiver) {
	p.Line("%s: %d waiting, of %d occurrences", plaintext.Line(r.Receiver), r.Entries, r.Occurrences)
	p.table("MATCHED\tALARM\tCOUNT\tSTATE\tTITLE", len(r.Waiting), func(i int) []any {
		w := &r.Waiting[i]
		return append(w.cells(), w.state(), w.title())
	})
	if rest := r.Entries - int64(len(r.Waiting)); rest > 0 && len(r.Waiting) > 0 {
		p.Line("  and %d more", rest)
	}
	if len(r.Digested) == 0 {
		return
	}
	p.Line("  in digests:")
	p.table("MATCHED\tALARM\tCOUNT\tDIGEST\tTITLE", len(r.Digested), func(i int) []any {
		d := &r.Digested[i]
		return append(d.cells(), d.state(), d.title())
	})
}

func (p *printer) table(header string, rows int, cells func(i int) []any) {
	if rows == 0 || p.Err != nil {
		return
	}
	table := tabwriter.NewWriter(p.Out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "  "+header) // Flush tells of an error
	for i := range rows {
		_, _ = fmt.Fprintf(table, "  %s\t%s\t%d\t%s\t%s\n", cells(i)...)
	}
	p.Err = table.Flush()
}

func (e *Entry) cells() []any {
	return []any{e.CreatedAt.Format(time.RFC3339), plaintext.Line(e.Alarm), e.Occurrences}
}

func (e *Entry) title() string {
	if e.Message == nil {
		return "(cannot be read)"
	}
	return plaintext.Line(e.Message.Title)
}

func (w *Waiting) state() string {
	switch {
	case w.TriedSince != nil:
		return "tried since " + w.TriedSince.Format(time.RFC3339)
	case w.DueAt != nil:
		return "in a group until " + w.DueAt.Format(time.RFC3339)
	default:
		return "waiting"
	}
}

func (d *Digested) state() string {
	if d.Delivered {
		return "accepted " + d.EndedAt.Format(time.RFC3339)
	}
	return "given up " + d.EndedAt.Format(time.RFC3339)
}
