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

// terminal is a shell that runs the commands of a guide. It exits at the first command that
// fails, or when the test ends.
type terminal struct {
	t      *testing.T
	guide  string
	lines  io.WriteCloser
	output *cluster.Buffer
	ended  chan struct{}
	blocks int
	// shown is the length of the output before the last block.
	shown int
}

// patientWait is the beginning of each terminal. On a busy machine, some waits of a guide
// take longer than the 30 seconds after which kubectl gives up.
const patientWait = `kubectl() {
	case " $* " in
	*" wait "*) command kubectl --timeout=4m "$@" ;;
	*) command kubectl "$@" ;;
	esac
}
`

// openTerminal starts a terminal in dir. It hides the cluster that the user of this machine
// may have configured.
func openTerminal(t *testing.T, guide, dir string, environment ...string) *terminal {
	t.Helper()
	shell := exec.Command("sh", "-eu") // every machine has it
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
		_ = shell.Wait() // the output shows its errors
	}()
	t.Cleanup(func() {
		// Stop all its processes, as closing a window does.
		_ = syscall.Kill(-shell.Process.Pid, syscall.SIGTERM)
		<-term.ended
	})
	term.enter(patientWait)
	return term
}

// enter writes a block to the shell and does not wait for it.
func (term *terminal) enter(block string) {
	term.t.Helper()
	if _, err := io.WriteString(term.lines, block); err != nil {
		term.fail(block, err.Error())
	}
}

// run writes a block to the shell and waits until all its commands have succeeded.
func (term *terminal) run(block string) {
	term.t.Helper()
	term.blocks++
	term.shown = len(term.output.String())
	done := fmt.Sprintf("[block %d is done]", term.blocks)
	term.enter(block + "echo '" + done + "'\n")
	term.await(block, done)
}

// await waits until the output contains the text.
func (term *terminal) await(block, text string) {
	term.t.Helper()
	term.awaitMatch(block, regexp.MustCompile(regexp.QuoteMeta(text)))
}

// awaitLines waits until the output contains each of the lines. In a line, ... matches any
// text, and a time any time.
func (term *terminal) awaitLines(block string) {
	term.t.Helper()
	for line := range strings.SplitSeq(strings.TrimSuffix(block, "\n"), "\n") {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(line), `\.\.\.`, ".*")
		pattern = anyTime.ReplaceAllLiteralString(pattern, anyTime.String())
		term.awaitMatch(block, regexp.MustCompile("(?m)^"+pattern+"$"))
	}
}

// awaitShown waits until the output of the last block contains these lines in this order. It
// ignores the width of columns, times and ages. While a line is missing, it runs the last
// line of the block again.
func (term *terminal) awaitShown(block, lines string) {
	term.t.Helper()
	const interval = 500 * time.Millisecond
	commands := strings.Split(strings.TrimSpace(block), "\n")
	missing := term.notShown(lines)
	for over := time.Now().Add(patience); missing != "" && time.Now().Before(over); {
		time.Sleep(interval)
		term.run(commands[len(commands)-1] + "\n")
		missing = term.notShown(lines)
	}
	if missing != "" {
		term.fail(block, "this line is missing: "+missing)
	}
}

// notShown returns the first line that is missing in the output of the last block, or "". A
// line of ... matches any number of lines.
func (term *terminal) notShown(lines string) string {
	shown := strings.Split(term.output.String()[term.shown:], "\n")
	for line := range strings.SplitSeq(strings.TrimSpace(lines), "\n") {
		pattern := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(normalize(line)), `\.\.\.`, ".*") + "$")
		i := slices.IndexFunc(shown, func(s string) bool { return pattern.MatchString(normalize(s)) })
		if strings.TrimSpace(line) != "..." && i < 0 {
			return line
		}
		if strings.TrimSpace(line) != "..." {
			shown = shown[i+1:]
		}
	}
	return ""
}

var anyTime = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

var changing = []struct {
	text *regexp.Regexp
	with string
}{
	{anyTime, "TIME"},
	{regexp.MustCompile(`\b(?:\d+m)?\d+s\b`), "AGE"},
	{regexp.MustCompile(`\b\d+ times, last AGE`), "last AGE"},
	{regexp.MustCompile(`\s+`), " "},
}

// normalize replaces the parts of a line that change from run to run.
func normalize(line string) string {
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
			term.fail(block, fmt.Sprintf("after %v, no output matches %q", patience, text))
		}
	}
}

func (term *terminal) fail(block, reason string) {
	term.t.Helper()
	term.t.Fatalf("%s: this block failed:\n%s\n%s; the output is:\n%s", term.guide, block, reason, term.output)
}
