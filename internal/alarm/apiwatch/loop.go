package apiwatch

import (
	"context"
	"errors"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

// Backoff waits 1 s to 20 s after failures, plus a random part of up to a half.
var Backoff = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 20 * time.Second}

// Loop calls connect until ctx ends. connect lists and watches until that fails. If it was alive, it is
// called again at once. Otherwise, failed handles its error, and Loop waits: for the pause that failed
// returns, or for the backoff if that is 0. It waits at least as long as the API server asks. The
// backoff begins again after connect was alive.
func Loop(ctx context.Context, clk clock.Clock, backoff wait.Backoff, connect func(context.Context) (alive bool, err error), failed func(error) (pause time.Duration)) {
	next := backoff
	for ctx.Err() == nil {
		alive, err := connect(ctx)
		switch {
		case alive:
			next = backoff
		case ctx.Err() == nil:
			pause := failed(err)
			if pause == 0 {
				pause = next.Step()
			}
			alarm.Sleep(ctx, clk, max(pause, retryAfter(err)))
		}
	}
}

// EarlyClose is the minimum duration of a watch that brings nothing. Some API servers
// close the watch of an expired position without an error (kubernetes#104171,
// kubernetes#137089).
const EarlyClose = 5 * time.Second

// Ended returns what the end of a watch shows. err ended it, after a number of entries. early
// is true if it lasted less than EarlyClose.
//
// expired is true if the position counts as expired, and the next watch must begin with a list. A
// watch that brought something is resumed, unless the API server says that the position has expired.
// alive is true if the watch brought something or lasted, so that the backoff begins again.
func Ended(err error, entries int, early bool) (expired, alive bool) {
	closed := early && errors.Is(err, io.EOF) // a broken connection has another error
	if IsExpired(err) || entries == 0 && (closed || isStatus(err)) {
		return true, false
	}
	return false, entries > 0 || !early
}

// Commit calls commit until it succeeds or ctx ends, whose error it then returns. It calls failed
// with each other error, and waits for the backoff after it.
func Commit(ctx context.Context, clk clock.Clock, backoff wait.Backoff, commit func() error, failed func(error)) error {
	for ctx.Err() == nil {
		err := commit()
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			failed(err)
			alarm.Sleep(ctx, clk, backoff.Step())
		}
	}
	return ctx.Err()
}
