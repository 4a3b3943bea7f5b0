package notify

import (
	"math/rand/v2"
	"time"
)

// The pause after a failure of class Retry is random between these, and doubles. Options can
// set others.
const (
	minRetry = time.Second
	maxRetry = 30 * time.Second
)

// The pause after a failure of class Stop is random between these, and doubles. The cause is
// often corrected where the operator cannot see it, for example in the chat.
const (
	minStopped = 30 * time.Second
	maxStopped = 5 * time.Minute
)

// shownPause is the shortest pause for which NextAttempt returns a time. Shorter ones would
// cause many writes of the status.
const shownPause = 30 * time.Second

// maxRetryAfter limits the pause that a receiver may ask for.
const maxRetryAfter = 5 * time.Minute

// A message that fails as often as stuckAttempts, for as long as minStuck, gets a lane of its
// own if other messages wait behind it. Each further one before the receiver accepts a message
// takes twice as long, maxStuck at most.
const (
	stuckAttempts = 8
	minStuck      = 5 * time.Minute
	maxStuck      = time.Hour
)

// The pause of a message that is set aside is random between these, and doubles.
const (
	minAside = 5 * time.Minute
	maxAside = time.Hour
)

// The pause after a request that repeats messages has failed is random between these, and
// doubles. It is at most half of RepeatEvery, but not shorter than repeatTick.
const (
	repeatTick = 10 * time.Second
	maxRepeat  = time.Minute
)

// backoff counts consecutive failures.
type backoff struct {
	failures int
}

func (b *backoff) reset() { b.failures = 0 }

// next returns the pause after one more failure. The pause is random between least and
// a bound that doubles with each failure up to most. Receivers that failed together
// are therefore not retried together.
func (b *backoff) next(least, most time.Duration) time.Duration {
	bound := least
	for range b.failures + 1 {
		if bound = min(2*bound, most); bound == most {
			break
		}
	}
	b.failures++
	return least + rand.N(max(bound-least, 0)+1)
}

// afterFailure returns the pause after a failed attempt. It is at least as long as the
// receiver asked for, up to maxRetryAfter.
func (b *backoff) afterFailure(e *SendError, least, most time.Duration) time.Duration {
	return max(b.next(least, most), min(e.RetryAfter, maxRetryAfter))
}
