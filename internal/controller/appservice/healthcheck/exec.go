package healthcheck

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bongsu-io/bongsu/internal/controller/appservice/health"
	"github.com/bongsu-io/bongsu/pkg/podexec"
)

// runCommand runs the command of a check. What it writes makes no difference.
func (c *Checker) runCommand(ctx context.Context, check Check) result {
	target := podexec.Target{Namespace: check.Namespace, Pod: check.Pod, Container: check.Exec.Container, UID: check.PodUID}
	ran, err := c.exec.Run(ctx, target, check.Exec.Command, check.Timeout)
	switch {
	case err != nil:
		return notEnded(err, check.Timeout)
	case ran.ExitCode == 0:
		return passed()
	}
	message := fmt.Sprintf("exit code %d", ran.ExitCode)
	if first := firstLine(ran.Output); first != "" {
		message += ": " + first
	}
	return failed(message)
}

// notEnded is for a command of which it is not known how it ended by itself. Errors of
// podexec do not tell its arguments.
func notEnded(err error, timeout time.Duration) result {
	switch {
	case errors.Is(err, podexec.ErrLeaked):
		return leaked()
	case errors.Is(err, podexec.ErrDeadline):
		return failed(fmt.Sprintf("the command did not end within %d s", seconds(timeout)))
	case errors.Is(err, podexec.ErrForbidden):
		return result{health.Forbidden, "the operator may not create pods/exec here"}
	case errors.Is(err, context.DeadlineExceeded):
		return unreachable("the command could not be run in time")
	default:
		return unreachable("the command could not be run: " + err.Error())
	}
}

func leaked() result {
	return result{health.Leaked, "the command did not end in time and could not be ended; no other is run until it has"}
}

// firstLine is the first line of what was written that is not empty.
func firstLine(output string) string {
	for l := range strings.Lines(output) {
		if l = line(l); l != "" {
			return l
		}
	}
	return ""
}

func seconds(d time.Duration) int { return int(d / time.Second) }
