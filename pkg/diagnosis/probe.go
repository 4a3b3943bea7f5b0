package diagnosis

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

var probeRules = []rule{
	{regexp.MustCompile(`(?i)^(\w+) probe failed: .*connection refused`),
		"its ${1} probe finds nothing that listens", "check the probe's port, and what the container listens on; or wait until it does", true},
	{regexp.MustCompile(`(?i)^(\w+) probe failed: HTTP probe failed with statuscode: (\d+)`),
		"its ${1} probe is answered with status ${2}", "check the probe's path, and the container's log", true},
	{regexp.MustCompile(`(?i)^(\w+) probe (?:failed|errored).*(?:Client\.Timeout|deadline exceeded|timed out|i/o timeout)`),
		"its ${1} probe is not answered in time", "raise the probe's timeoutSeconds, or find out from the container's log what keeps it busy", true},
	{regexp.MustCompile(`(?i)^(\w+) probe (?:failed|errored)(?: and resulted in \w+ state)?: ?(.*)`),
		"its ${1} probe fails: ${2}", "check the probe, and the container's log", true},
}

// unhealthy is a container that runs, and whose probe fails.
func (c *container) probeCause() (Cause, bool) {
	last := c.lastUnhealthy()
	if last == nil {
		return Cause{}, false
	}
	r := matchOr(probeRules, lowerFirst(stripNoise(last.Note)), "check the probe, and the container's log")
	r.message, r.transient = c.label()+" is not ready: "+r.message, true
	return c.cause(ReasonUnhealthy, r).withEvent(last), true
}

// lastUnhealthy returns the last Event of a failed probe since the container runs;
// of several probes that fail at the time, of the one that has the most to say.
func (c *container) lastUnhealthy() *Event {
	var events []Event
	for _, e := range recent(c.ownEvents(), "Unhealthy") {
		if e.LastSeen.IsZero() || !e.LastSeen.Before(c.startedAt()) {
			events = append(events, e)
		}
	}
	for _, probe := range []string{"Startup", "Liveness", ""} {
		for i := range slices.Backward(events) {
			if strings.HasPrefix(events[i].Note, probe) {
				return &events[i]
			}
		}
	}
	return nil
}

// lowered has the text begin with a small letter.
func lowerFirst(s string) string {
	if s != "" && s[0] >= 'A' && s[0] <= 'Z' {
		return string(s[0]+'a'-'A') + s[1:]
	}
	return s
}

func (c *container) startedAt() (t time.Time) {
	if running := c.status.State.Running; running != nil {
		t = running.StartedAt.Time
	}
	return t
}
