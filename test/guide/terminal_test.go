package guide

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// terminal is a shell in which lines are entered. It ends with the first command
// that fails, and with the test at the latest.
type terminal struct {
	t      *testing.T
	guide  string
	lines  io.WriteCloser
	output *cluster.Buffer
	ended  chan struct{}
	blocks int
	// shown is how much of the output is older than the last block.
	shown int
}

// openTerminal opens a terminal in dir for somebody who follows a guide. It knows
// nothing of a cluster that whoever runs the test may be using.
func openTerminal(t *testing.T, guide, dir string, environment ...string) *terminal {
	t.Helper()
	shell := exec.Command("sh", "-eu") // on a fresh machine there may be no other
	shell.Dir = dir
	shell.Env = append(os.Environ(), "KUBECONFIG=", "BONGSU_ASSETS=")
	shell.Env = append(shell.Env, environment...)
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	term := &terminal{t: t, guide: guide, output: &cluster.Buffer{}, ended: make(chan struct{})}
	shell.Stdout, shell.Stderr = term.output, term.output
	lines, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	term.lines = lines
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(term.ended)
		_ = shell.Wait() // how it ended shows in what it wrote
	}()
	t.Cleanup(func() {
		// All that runs in it, as closing a window does.
		_ = syscall.Kill(-shell.Process.Pid, syscall.SIGTERM)
		<-term.ended
	})
	return term
}

// enter enters a block and does not wait for it.
func (term *terminal) enter(block string) {
	term.t.Helper()
	if _, err := io.WriteString(term.lines, block); err != nil {
		term.fail(block, err.Error())
	}
}

// run enters a block and returns when every command in it has succeeded.
func (term *terminal) run(block string) {
	term.t.Helper()
	term.blocks++
	term.shown = len(term.output.String())
	done := fmt.Sprintf("[block %d is done]", term.blocks)
	term.enter(block + "echo '" + done + "'\n")
	term.await(block, done)
}

// await returns when the text was written.
func (term *terminal) await(block, text string) {
	term.t.Helper()
	term.awaitMatch(block, regexp.MustCompile(regexp.QuoteMeta(text)))
}

// awaitLines returns when each of the lines was written. In a line, ... stands for
// anything.
func (term *terminal) awaitLines(block string) {
	term.t.Helper()
	for line := range strings.SplitSeq(strings.TrimSuffix(block, "\n"), "\n") {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(line), `\.\.\.`, ".*")
		term.awaitMatch(block, regexp.MustCompile("(?m)^"+pattern+"$"))
	}
}

// awaitShown returns when the block that was run last has shown these lines, in this
// order. Columns may be of another width, and times and ages are others. What was not
// there yet may be later: the last line of the block is entered again, as a reader
// would who looks again.
func (term *terminal) awaitShown(block, lines string) {
	term.t.Helper()
	const apart = 500 * time.Millisecond
	commands := strings.Split(strings.TrimSpace(block), "\n")
	missing := term.notShown(lines)
	for over := time.Now().Add(patience); missing != "" && time.Now().Before(over); {
		time.Sleep(apart)
		term.run(commands[len(commands)-1] + "\n")
		missing = term.notShown(lines)
	}
	if missing != "" {
		term.fail(block, "it does not show: "+missing)
	}
}

// notShown returns the first of the lines that the last block has not shown after
// those before it. A line of ... stands for any number of lines.
func (term *terminal) notShown(lines string) string {
	shown := strings.Split(term.output.String()[term.shown:], "\n")
	for line := range strings.SplitSeq(strings.TrimSpace(lines), "\n") {
		pattern := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(settled(line)), `\.\.\.`, ".*") + "$")
		i := slices.IndexFunc(shown, func(s string) bool { return pattern.MatchString(settled(s)) })
		if strings.TrimSpace(line) != "..." && i < 0 {
			return line
		}
		if strings.TrimSpace(line) != "..." {
			shown = shown[i+1:]
		}
	}
	return ""
}

var changing = []struct {
	text *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`), "TIME"},
	{regexp.MustCompile(`\b(?:\d+m)?\d+s\b`), "AGE"},
	{regexp.MustCompile(`\b\d+ times, last AGE`), "last AGE"},
	{regexp.MustCompile(`\s+`), " "},
}

// settled is a line without what differs each time that it is shown.
func settled(line string) string {
	for _, c := range changing {
		line = c.text.ReplaceAllString(line, c.with)
	}
	return strings.TrimSpace(line)
}

func (term *terminal) awaitMatch(block string, text *regexp.Regexp) {
	term.t.Helper()
	over := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !text.MatchString(term.output.String()) {
		select {
		case <-tick.C:
		case <-term.ended:
			term.fail(block, "a command failed")
		case <-over:
			term.fail(block, fmt.Sprintf("after %v, still no %s", patience, text))
		}
	}
}

func (term *terminal) fail(block, reason string) {
	term.t.Helper()
	term.t.Fatalf("%s: this block does not work as written:\n%s\n%s; the terminal shows:\n%s", term.guide, block, reason, term.output)
}
