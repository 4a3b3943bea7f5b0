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
			quiet := redact(err, command)
			for _, secret := range []string{"hunter2", "quoted", "longer", "line"} {
				g.Expect(quiet.Error()).NotTo(ContainSubstring(secret))
			}
			g.Expect(quiet.Error()).To(ContainSubstring("login"))
			g.Expect(errors.Is(quiet, err)).To(BeTrue())
		})
	}
	g := NewWithT(t)
	g.Expect(len(redact(errors.New(strings.Repeat("x", 9000)), command).Error())).To(BeNumerically("<=", maxErrorText))
}
