package podexec

import (
	"strconv"
	"time"
)

// watchdog runs a command and kills it after some seconds. What it starts besides
// holds none of the command's streams open. It is what POSIX asks of a shell: busybox
// and dash have no more.
const watchdog = `t=$1; shift
"$@" & c=$!
(sleep "$t"; kill -9 "$c") </dev/null >/dev/null 2>&1 & w=$!
wait "$c"; s=$?
kill "$w" 2>/dev/null
exit "$s"`

// guarded returns the command with the watchdog around it.
func guarded(command []string, limit time.Duration) []string {
	seconds := strconv.Itoa(int((limit + time.Second - 1) / time.Second))
	return append([]string{"sh", "-c", watchdog, "sh", seconds}, command...)
}
