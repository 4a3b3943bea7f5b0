package podexec

import (
	"strconv"
	"time"
)

// watchdog runs a command, kills it after some seconds, and reports. It is what POSIX
// asks of a shell: busybox and dash have no more.
//
//   - Its variables have a prefix: what the container's environment exports under
//     another name would reach the command changed.
//   - The command replaces a subshell, or a word like exit would be the shell's own.
//     With a session of its own it can be killed with all that it has started.
//   - What counts the seconds holds none of the command's streams, and is gone, with
//     its sleep, and waited for, when the command ends early. Until it has started the
//     sleep, "$!" is the command; and until it is the sleep that runs in there, a
//     gentler signal than 9 would be lost on what was forked to run it.
//   - It looks every few seconds whether the command is still there: if the shell itself
//     was killed nobody tells it, and the command's number may be another's one day.
//   - Of the ways to name a process group to kill, this one is understood by all.
//   - Where the seconds can not be counted, nothing is killed.
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

// askForShell prints something and exits with 0 where the watchdog can do its work.
var askForShell = []string{"sh", "-c", "command -v sleep"}

// guarded returns the command with the watchdog around it, whose reports begin with
// the mark.
func guarded(mark string, command []string, limit time.Duration) []string {
	seconds := strconv.FormatFloat(whole(limit).Seconds(), 'f', 0, 64)
	return append([]string{"sh", "-c", watchdog, "sh", mark, seconds}, command...)
}

// whole rounds up to seconds: busybox's sleep knows no fractions.
func whole(limit time.Duration) time.Duration {
	return max(time.Second, (limit + time.Second - 1).Truncate(time.Second))
}
