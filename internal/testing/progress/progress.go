// Package progress waits in tests without a time limit for the whole work. It fails when
// there is no progress for some time, so that slow machines pass.
package progress

import (
	"cmp"
	"fmt"
	"time"
)

// polling is the interval between checks.
const polling = 250 * time.Millisecond

// UntilNoneIsLeft waits until left returns 0. It returns an error if the lowest value of
// left has not decreased for the time patience.
func UntilNoneIsLeft[T cmp.Ordered](patience time.Duration, left func() T) error {
	var none T
	lowest := left()
	for since := time.Now(); lowest > none; time.Sleep(polling) {
		switch now := left(); {
		case now < lowest:
			lowest, since = now, time.Now()
		case time.Since(since) > patience:
			return fmt.Errorf("no progress for %v: %v left, want 0", patience, lowest)
		}
	}
	return nil
}
