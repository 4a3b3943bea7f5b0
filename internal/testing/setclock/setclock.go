// Package setclock provides a clock that can be set while time passes.
package setclock

import (
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// Clock is a clock whose Now can be set. Timers and Since measure what really passes, as those of
// a real clock do.
type Clock struct {
	clock.WithTicker

	ahead atomic.Int64
}

// Now is the time of the clock below, and by how much the clock is set.
func (c *Clock) Now() time.Time { return c.WithTicker.Now().Add(time.Duration(c.ahead.Load())) }

// Set sets the clock by d, in addition to earlier calls.
func (c *Clock) Set(d time.Duration) { c.ahead.Add(int64(d)) }
