package podexec

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"
)

// watchdog is a script that runs a command, kills it after a number of seconds, and
// reports how it ended. It uses only what POSIX requires of a shell, because busybox and
// dash have no more.
//
//   - Its variables have a prefix. Otherwise they would change exported variables of the
//     same name, which the command inherits.
//   - The command replaces a subshell. Otherwise a word such as exit would run the
//     shell's builtin. If setsid exists, the command gets its own session and can be
//     killed together with its children.
//   - The timer has none of the command's streams. If the command ends early, the script
//     kills the timer and its sleep, and waits for them. Until the timer has started its
//     sleep, "$!" is the command. The sleep is killed with signal 9, because it may not
//     have been executed yet and would ignore others.
//   - The timer checks every few seconds whether the command still runs. If the shell was
//     killed, no one stops the timer, and the process ID could be reused.
//   - All shells understand this way to name a process group to kill.
//   - If the timer fails, the command is not killed.
const watchdog = `bongsu_mark=$1 bongsu_limit=$2 bongsu_setsid= bongsu_how=ended
shift 2
echo "$bongsu_mark begun 0" >&2
if command -v setsid >/dev/null 2>&1; then bongsu_setsid=setsid; fi
(exec $bongsu_setsid "$@") & bongsu_pid=$!
(
	trap '[ "$!" = "$bongsu_pid" ] || kill -9 "$!"; wait; exit 1' TERM
	while [ "$bongsu_limit" -gt 0 ]; do
		bongsu_step=5
		[ "$bongsu_limit" -ge 5 ] || bongsu_step=$bongsu_limit
		sleep "$bongsu_step" & wait "$!" && kill -0 "$bongsu_pid" || exit 1
		bongsu_limit=$((bongsu_limit - bongsu_step))
	done
	trap '' TERM
	kill -9 "-$bongsu_pid" || kill -9 "$bongsu_pid"
) </dev/null >/dev/null 2>&1 & bongsu_dog=$!
wait "$bongsu_pid" 2>/dev/null
bongsu_code=$?
kill "$bongsu_dog" 2>/dev/null
wait "$bongsu_dog" 2>/dev/null && bongsu_how=killed
echo "$bongsu_mark $bongsu_how $bongsu_code" >&2`

// shellCheck prints something and exits with 0 if the container can run the watchdog.
var shellCheck = []string{"sh", "-c", "command -v sleep"}

// withWatchdog returns the command line that runs the command under the watchdog. Its
// reports begin with mark.
func withWatchdog(mark string, command []string, limit time.Duration) []string {
	seconds := strconv.FormatFloat(wholeSeconds(limit).Seconds(), 'f', 0, 64)
	return append([]string{"sh", "-c", watchdog, "sh", mark, seconds}, command...)
}

// wholeSeconds rounds up to whole seconds: busybox's sleep does not support fractions.
func wholeSeconds(limit time.Duration) time.Duration {
	return max(time.Second, (limit + time.Second - 1).Truncate(time.Second))
}

// killedExitCode is the exit code of a process that signal 9 killed.
const killedExitCode = 128 + 9

// commandExit is how the command ended, as the watchdog reports it.
type commandExit struct {
	code int
	// timedOut: the watchdog killed it.
	timedOut bool
}

// maxReport limits a report without its marker, in bytes.
const maxReport = 32

// reportFilter removes the watchdog's reports from the standard error of a command and
// forwards the rest.
type reportFilter struct {
	out    io.Writer
	marker []byte
	ended  chan struct{} // closed when the watchdog has reported the end

	mu       sync.Mutex
	buffered []byte // possibly the beginning of a report
	started  bool
	exit     *commandExit
}

func newReportFilter(out io.Writer, mark string) *reportFilter {
	return &reportFilter{out: out, marker: []byte(mark), ended: make(chan struct{})}
}

// Write implements io.Writer.
func (s *reportFilter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buffered = append(s.buffered, p...)
	for s.nextReport() {
	}
	return len(p), nil
}

// nextReport forwards the data before the next report and removes the report if it is
// complete. It returns whether there may be another.
func (s *reportFilter) nextReport() bool {
	at := bytes.Index(s.buffered, s.marker)
	if at < 0 {
		s.forward(len(s.buffered) - s.partialMarker())
		return false
	}
	s.forward(at)
	line, rest, whole := bytes.Cut(s.buffered, []byte("\n"))
	if !whole {
		if len(s.buffered) > len(s.marker)+maxReport { // not a report: the command printed its own command line
			s.forward(len(s.buffered))
		}
		return false
	}
	s.record(line[len(s.marker):])
	s.buffered = append(s.buffered[:0], rest...)
	return true
}

// forward writes the first n buffered bytes to out.
func (s *reportFilter) forward(n int) {
	_, _ = s.out.Write(s.buffered[:n]) // output.Write never fails
	s.buffered = append(s.buffered[:0], s.buffered[n:]...)
}

// partialMarker returns the length of the incomplete marker at the end of the buffer.
func (s *reportFilter) partialMarker() int {
	for n := min(len(s.marker)-1, len(s.buffered)); n > 0; n-- {
		if bytes.HasSuffix(s.buffered, s.marker[:n]) {
			return n
		}
	}
	return 0
}

func (s *reportFilter) record(report []byte) {
	var how string
	var code int
	if n, _ := fmt.Sscanf(string(report), "%s %d", &how, &code); n < 2 || s.exit != nil {
		return
	}
	switch how {
	case "begun":
		s.started = true
	case "ended", "killed":
		// The command may have ended by itself just before it would have been killed.
		s.exit = &commandExit{code: code, timedOut: how == "killed" && code == killedExitCode}
		close(s.ended)
	}
}

// close forwards the remaining data and returns what the watchdog reported.
func (s *reportFilter) close() (begun bool, e *commandExit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forward(len(s.buffered))
	return s.started, s.exit
}

// maxRemembered limits the number of containers in a shellCache.
const maxRemembered = 4096

// shellCache stores which containers have a shell.
type shellCache struct {
	mu    sync.Mutex
	known map[Target]bool
}

func (s *shellCache) get(t Target) (has, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	has, known = s.known[t]
	return has, known
}

func (s *shellCache) set(t Target, has bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil || len(s.known) >= maxRemembered { // most of these pods no longer exist
		s.known = map[Target]bool{}
	}
	s.known[t] = has
}

func (s *shellCache) forget(t Target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, t)
}

// hasShell reports whether the container can run the watchdog. It runs shellCheck once,
// and again after an error.
func (r *Runner) hasShell(ctx context.Context, t Target) (bool, error) {
	if has, known := r.shells.get(t); known {
		return has, nil
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	s := r.open(ctx, t, shellCheck, rand.Text())
	o := r.wait(ctx, s)
	result, _, _ := s.close()
	has, err := shellCheckResult(o, result)
	if err == nil {
		r.shells.set(t, has)
	}
	return has, err
}

// shellCheckResult evaluates the result of shellCheck. Some nodes answer with an exit
// code if the program is missing, others with an error. If the error had another cause,
// the command will get it too, or runs once without a watchdog.
func shellCheckResult(o outcome, r Result) (bool, error) {
	switch {
	case o.ending == exited && o.code == 0 && r.Output == "":
		return false, ErrLost // the API server lost the connection to the node
	case o.ending == exited:
		return o.code == 0, nil
	case o.ending == failed:
		return false, nil
	case o.ending == leaked:
		return false, ErrLeaked
	case o.ending == broken:
		return false, lostError(o)
	}
	return false, o.err
}
