package podexec

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestOutputKeepsTheBeginningAndCountsTheRest(t *testing.T) {
	g := NewWithT(t)
	var o output
	for range 3 {
		n, err := o.Write([]byte(strings.Repeat("x", 5000)))
		g.Expect(n, err).To(Equal(5000))
	}
	kept, dropped := o.read()
	g.Expect(kept).To(Equal(strings.Repeat("x", 8192)))
	g.Expect(dropped).To(BeEquivalentTo(15000 - 8192))
}

func TestSieve(t *testing.T) {
	long := strings.Repeat("x", 100)
	for name, tc := range map[string]struct {
		in    string
		out   string
		begun bool
		end   *end
	}{
		"no report":                      {in: "a\nb", out: "a\nb"},
		"both reports":                   {in: "MARK begun 0\na\nMARK ended 3\n", out: "a\n", begun: true, end: &end{code: 3}},
		"a report in a line":             {in: "MARK begun 0\naMARK ended 0\n", out: "a", begun: true, end: &end{}},
		"what is written afterwards":     {in: "MARK ended 0\nlater\n", out: "later\n", end: &end{}},
		"killed":                         {in: "MARK killed 137\n", end: &end{code: 137, late: true}},
		"ended before it was killed":     {in: "MARK killed 0\n", end: &end{}},
		"a second end does not count":    {in: "MARK ended 1\nMARK ended 0\n", end: &end{code: 1}},
		"half a report":                  {in: "MARK end", out: "MARK end"},
		"half a mark":                    {in: "a MAR", out: "a MAR"},
		"a mark that begins anew":        {in: "MAMARK ended 0\n", out: "MA", end: &end{}},
		"the command line, with no end":  {in: "sh MARK 5 " + long, out: "sh MARK 5 " + long},
		"a line of the mark's, not ours": {in: "MARK\n", out: ""},
	} {
		for _, size := range []int{1, 3, 1000} {
			t.Run(name, func(t *testing.T) {
				g := NewWithT(t)
				var o output
				s := newSieve(&o, "MARK")
				for rest := []byte(tc.in); len(rest) > 0; {
					n := min(size, len(rest))
					g.Expect(s.Write(rest[:n])).To(Equal(n))
					rest = rest[n:]
				}
				begun, e := s.close()
				kept, _ := o.read()
				g.Expect(kept).To(Equal(tc.out))
				g.Expect(begun).To(Equal(tc.begun))
				g.Expect(e).To(Equal(tc.end))
			})
		}
	}
}

func TestErrorsDoNotQuoteTheCommand(t *testing.T) {
	command := []string{"login", "-p", "hunter2", "a \"quoted\" one", "hunter2-longer", "line\nbreak"}
	inner := errors.New(`no login in hunter2-longer "a \"quoted\" one" line\nbreak`)
	address := "https://host/exec?" + url.Values{"command": command}.Encode()
	for name, err := range map[string]error{
		"a request's":           &url.Error{Op: "Post", URL: address, Err: inner},
		"one that repeats it":   errors.New("cmd: " + strings.Join(command, " ")),
		"one with an URL in it": errors.New("error sending request: Post \"" + address + "\": refused"),
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			quiet := hush(err, command)
			for _, secret := range []string{"hunter2", "quoted", "longer", "line"} {
				g.Expect(quiet.Error()).NotTo(ContainSubstring(secret))
			}
			g.Expect(quiet.Error()).To(ContainSubstring("login"))
			g.Expect(errors.Is(quiet, err)).To(BeTrue())
		})
	}
	g := NewWithT(t)
	g.Expect(len(hush(errors.New(strings.Repeat("x", 9000)), command).Error())).To(BeNumerically("<=", maxText))
}
