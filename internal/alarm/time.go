package alarm

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Earlier returns the earlier of two times. A zero time is not known, and the other one counts.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Began returns when something began in this process, by the clock as it is set now. at is what the
// clock showed then, with its monotonic part. A node can boot with a wrong clock, which is corrected a
// moment later. Times in the outbox have no monotonic part, so code that compares with them needs times
// that follow the correction.
func Began(clk clock.PassiveClock, at time.Time) time.Time {
	return clk.Now().Round(0).Add(-clk.Since(at))
}

// Now returns the time of the clock, but not later than if the clock had not been set since at.
// at is like that of [Began]. It is the time of the clock if at is zero.
func Now(clk clock.PassiveClock, at time.Time) time.Time {
	now, unset := clk.Now().Round(0), at.Round(0).Add(clk.Since(at))
	if at.IsZero() || now.Before(unset) {
		return now
	}
	return unset
}

// Sleep waits for d, or until ctx ends.
func Sleep(ctx context.Context, clk clock.Clock, d time.Duration) {
	timer := clk.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	}
}
