// Package steady measures time while the clock of the node is set. A node can boot with a wrong
// clock, which is corrected a moment later. Times in the outbox have no monotonic part, so code
// that compares with them needs times that follow the correction.
package steady

import (
	"time"

	"k8s.io/utils/clock"
)

// Began returns when something began in this process, by the clock as it is set now. at is what
// the clock showed then, with its monotonic part.
func Began(clk clock.PassiveClock, at time.Time) time.Time {
	return clk.Now().Round(0).Add(-clk.Since(at))
}

// Now returns the time of the clock, but not later than if the clock had not been set since at.
// at is like that of Began. It is the time of the clock if at is zero.
func Now(clk clock.PassiveClock, at time.Time) time.Time {
	now, unset := clk.Now().Round(0), at.Round(0).Add(clk.Since(at))
	if at.IsZero() || now.Before(unset) {
		return now
	}
	return unset
}
