package diagnosis

import (
	"fmt"
	"time"
)

// waitsFor is how long an advice to wait is useful. Most attempts are repeated within minutes.
const waitsFor = 30 * time.Minute

// WaitLeft returns after what time the advice changes because waiting has not helped. It is zero if the advice is
// not to wait, or has changed, or if nothing is known about the begin. Diagnose again then.
func (c *Cause) WaitLeft(now time.Time) time.Duration {
	if c.LateAdvice == "" || c.Since.IsZero() {
		return 0
	}
	return max(0, c.waitsUntil().Sub(now))
}

// waitsUntil is when the advice changes. A normal start is not late before its time.
func (c *Cause) waitsUntil() time.Time {
	if until := c.Since.Add(waitsFor); until.After(c.LateAfter) {
		return until
	}
	return c.LateAfter
}

// endWait replaces an advice to wait that has not helped for half an hour. The new one contains no duration, so
// that it does not change with each check.
func (c *Cause) endWait(now time.Time) {
	if c.LateAdvice == "" || c.Since.IsZero() || now.Before(c.waitsUntil()) {
		return
	}
	c.FirstAdvice = c.Advice
	c.Advice = fmt.Sprintf("waiting since %s has not helped: %s", c.Since.UTC().Format("2006-01-02 15:04 UTC"), c.LateAdvice)
	c.LateAdvice = ""
	c.sanitize()
}

// addAdvice adds a text to the advice, whether it is late or not.
func (c *Cause) addAdvice(text string) {
	c.Advice += text
	if c.LateAdvice != "" {
		c.LateAdvice += text
	}
}

// startsUntil notes that the state is a normal start before a time. Without the time of the check, it is
// a failure.
func (c *Cause) startsUntil(late, now time.Time) {
	if now.Before(late) && !now.IsZero() {
		c.LateAfter = late
	}
}
