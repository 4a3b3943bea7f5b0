package plaintext_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

func TestClean(t *testing.T) {
	for name, tc := range map[string]struct{ in, clean, line string }{
		"plain":                 {"Back-off, 봉수 🔥", "Back-off, 봉수 🔥", "Back-off, 봉수 🔥"},
		"line ends":             {"a\r\nb\rc\u2028d\u0085e", "a\nb\nc\nd\ne", "a b c d e"},
		"tab and spaces":        {" a\tb  c ", " a b  c ", "a b c"},
		"escape sequence":       {"\x1b[31mred\x1b[0m", "[31mred[0m", "[31mred[0m"},
		"C1 escape":             {"\u009b31mred", "31mred", "31mred"},
		"NUL and DEL":           {"a\x00b\x7fc", "abc", "abc"},
		"directional override":  {"a\u202egnp.exe\u2066b\u200f", "agnp.exeb", "agnp.exeb"},
		"invalid UTF-8":         {"a\xff\xfeb", "a\uFFFDb", "a\uFFFDb"},
		"joined emoji are kept": {"👩‍👧", "👩‍👧", "👩‍👧"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := plaintext.Clean(tc.in); got != tc.clean {
				t.Errorf("Clean(%q) = %q, want %q", tc.in, got, tc.clean)
			}
			if got := plaintext.Line(tc.in); got != tc.line {
				t.Errorf("Line(%q) = %q, want %q", tc.in, got, tc.line)
			}
		})
	}
}

func TestCutIsLimitedAndNeverSplitsACharacter(t *testing.T) {
	for name, tc := range map[string]struct {
		in    string
		limit int
		want  string
	}{
		"short":                      {"봉수", 6, "봉수"},
		"long":                       {"signal fires", 9, "signal…"},
		"limit within a character":   {"봉수봉수", 8, "봉…"},
		"room for the ellipsis only": {"signal", 3, "…"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := plaintext.Cut(tc.in, tc.limit); got != tc.want {
				t.Errorf("Cut(%q, %d) = %q, want %q", tc.in, tc.limit, got, tc.want)
			}
		})
	}
}

// full accepts two lines.
type full struct{ lines []string }

func (f *full) Write(line []byte) (int, error) {
	if len(f.lines) == 2 {
		return 0, io.ErrShortWrite
	}
	f.lines = append(f.lines, string(line))
	return len(line), nil
}

func TestPrinterStopsAtTheFirstError(t *testing.T) {
	out := &full{}
	p := plaintext.Printer{Out: out}
	for i := range 4 {
		p.Line("line %d", i)
	}
	if !errors.Is(p.Err, io.ErrShortWrite) || strings.Join(out.lines, "") != "line 0\nline 1\n" {
		t.Errorf("%v after %q", p.Err, out.lines)
	}
}
