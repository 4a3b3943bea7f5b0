package notify

import (
	"math/rand/v2"
	"time"
)

// maxRetryAfter bounds what a receiver may ask for: beyond it we look whether it
// still wants to be left alone.
const maxRetryAfter = 5 * time.Minute

// backoff counts failures in a row.
type backoff struct {
	failures int
}

func (b *backoff) reset() { b.failures = 0 }

// next is how long to pause after one more failure: evenly spread between least
// and a bound that doubles with each failure up to most, so that receivers that
// failed together do not come back together.
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

// afterFailure is the pause after a failed attempt: not shorter than the receiver
// asked for, within reason.
func (b *backoff) afterFailure(e *SendError, least, most time.Duration) time.Duration {
	return max(b.next(least, most), min(e.RetryAfter, maxRetryAfter))
}
