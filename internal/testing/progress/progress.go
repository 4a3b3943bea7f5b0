// Package progress waits in tests for what takes as long as the machine is slow:
// it gives up when nothing is done any more, not when much is left.
package progress

import (
	"cmp"
	"fmt"
	"time"
)

// polling is how often it is looked.
const polling = 250 * time.Millisecond

// UntilNoneIsLeft returns when left is 0. It fails when left has been no less than
// its lowest for as long as patience lasts.
func UntilNoneIsLeft[T cmp.Ordered](patience time.Duration, left func() T) error {
	var none T
	lowest := left()
	for since := time.Now(); lowest > none; time.Sleep(polling) {
		switch now := left(); {
		case now < lowest:
			lowest, since = now, time.Now()
		case time.Since(since) > patience:
			return fmt.Errorf("nothing was done for %v, with %v left", patience, lowest)
		}
	}
	return nil
}
