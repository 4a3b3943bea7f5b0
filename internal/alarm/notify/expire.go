package notify

import (
	"fmt"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// expire drops what is older than the maximum age, whether the receiver is usable
// or not. It returns the frozen message, if there is one, and whether anything is
// left.
func (w *worker) expire() (frozen *outbox.Attempt, waiting bool, err error) {
	before := w.clock.Now().Add(-w.opts.MaxAge)
	frozen, err = w.outbox.Prepared(w.marking, w.queue.key)
	if err != nil {
		return nil, false, err
	}
	if frozen != nil && tooOld(frozen, before) {
		w.answered = &answered{attempt: frozen, cause: DropExpired, text: w.expiredText()}
		frozen, err = nil, w.settle()
	}
	if frozen != nil || err != nil {
		return frozen, true, err
	}
	waiting, err = w.expirePending(before)
	return nil, waiting, err
}

// tooOld is so when all that the message stands for is.
func tooOld(a *outbox.Attempt, before time.Time) bool {
	newest := a.Oldest
	if f, err := thaw(a); err == nil {
		newest = f.Newest
	}
	return newest.Before(before)
}

func (w *worker) expirePending(before time.Time) (waiting bool, err error) {
	oldest, err := w.outbox.Pending(w.marking, w.queue.key, 0, 1)
	if err != nil || len(oldest) == 0 {
		return false, err
	}
	if !oldest[0].CreatedAt.Before(before) {
		return true, nil
	}
	tally, err := w.outbox.DropOlderThan(w.marking, w.queue.key, before)
	if err != nil {
		return false, err
	}
	w.dropped(tally, DropExpired, w.expiredText())
	oldest, err = w.outbox.Pending(w.marking, w.queue.key, 0, 1)
	return len(oldest) > 0, err
}

func (w *worker) expiredText() string {
	return fmt.Sprintf("not delivered within %s", w.opts.MaxAge.Round(time.Second))
}
