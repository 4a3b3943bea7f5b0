package diagnosis

import (
	"fmt"
	"strings"
	"time"
)

// waitsFor is how long an advice to wait is useful. Most attempts are repeated within minutes.
const waitsFor = 30 * time.Minute

// Overdue changes an advice to wait if waiting has not helped for half an hour. It leaves what else the
// advice says.
func (c *Cause) Overdue(now time.Time) {
	waited := now.Sub(c.Since)
	if c.Since.IsZero() || waited < waitsFor || !strings.HasPrefix(c.Advice, "wait") {
		return
	}
	rest := "ask the cluster's administrator"
	for _, end := range []string{"; if the problem persists, ", ", or ", "; "} {
		if _, after, found := strings.Cut(c.Advice, end); found {
			rest = after
			break
		}
	}
	c.Advice = fmt.Sprintf("waiting has not helped for %s: %s", inUnits(waited), rest)
	c.sanitize()
}

// startsUntil notes that the state is a normal start before a time. Without the time of the check, it is
// a failure.
func (c *Cause) startsUntil(late, now time.Time) {
	if now.Before(late) && !now.IsZero() {
		c.LateAfter = late
	}
}

// inUnits formats a duration in minutes, hours or days.
func inUnits(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= 2*day:
		return fmt.Sprintf("%d days", d/day)
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d hours", d/time.Hour)
	}
	return fmt.Sprintf("%d minutes", d/time.Minute)
}
