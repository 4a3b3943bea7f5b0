package podexec

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// killed is the exit code of a process that signal 9 ended.
const killed = 128 + 9

// end is how a command ended, by the watchdog's report.
type end struct {
	code int
	// late: the watchdog has killed it.
	late bool
}

// maxReport bounds a report, its mark aside.
const maxReport = 32

// sieve takes the watchdog's reports out of a command's standard error, and passes on
// the rest.
type sieve struct {
	out   io.Writer
	mark  []byte
	ended chan struct{} // closed when it is known how the command has ended

	mu    sync.Mutex
	held  []byte // may be the beginning of a report
	begun bool
	end   *end
}

func newSieve(out io.Writer, mark string) *sieve {
	return &sieve{out: out, mark: []byte(mark), ended: make(chan struct{})}
}

// Write implements io.Writer.
func (s *sieve) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = append(s.held, p...)
	for s.take() {
	}
	return len(p), nil
}

// take passes on what is held up to a report, and takes that if it is whole. It says
// whether there may be another.
func (s *sieve) take() bool {
	at := bytes.Index(s.held, s.mark)
	if at < 0 {
		s.pass(len(s.held) - s.partial())
		return false
	}
	s.pass(at)
	line, rest, whole := bytes.Cut(s.held, []byte("\n"))
	if !whole {
		if len(s.held) > len(s.mark)+maxReport { // the command repeats its own command line
			s.pass(len(s.held))
		}
		return false
	}
	s.note(line[len(s.mark):])
	s.held = append(s.held[:0], rest...)
	return true
}

// pass passes on what is held, so many bytes.
func (s *sieve) pass(n int) {
	_, _ = s.out.Write(s.held[:n]) // an output takes everything
	s.held = append(s.held[:0], s.held[n:]...)
}

// partial is how much of a mark there is at the end of what is held.
func (s *sieve) partial() int {
	for n := min(len(s.mark)-1, len(s.held)); n > 0; n-- {
		if bytes.HasSuffix(s.held, s.mark[:n]) {
			return n
		}
	}
	return 0
}

func (s *sieve) note(report []byte) {
	var how string
	var code int
	if n, _ := fmt.Sscanf(string(report), "%s %d", &how, &code); n < 2 || s.end != nil {
		return
	}
	switch how {
	case "begun":
		s.begun = true
	case "ended", "killed":
		// It may have ended by itself in the moment in which it was to be killed.
		s.end = &end{code: code, late: how == "killed" && code == killed}
		close(s.ended)
	}
}

// close passes on what has not become a report.
func (s *sieve) close() (begun bool, e *end) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pass(len(s.held))
	return s.begun, s.end
}
