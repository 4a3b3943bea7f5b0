package notify_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// Its messages are accepted alone, so that nothing else reports the failure.
func TestABatchThatIsRefusedIsReported(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &batches{max: 8, answerBatch: func([]string) error { return failure(notify.Reject, "400") }}
		h.submit(t, store, ops, 0, 16)
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		wait()
		if diff := cmp.Diff(names(0, 15), n.got()); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"8: 400", "4: 400", "2: 400", "2: 400"}, h.observer.refused); diff != "" {
			t.Error(diff)
		}
		if failures, _ := h.observer.statusChanges(); len(failures) != 0 || h.Failure(ops) != nil {
			t.Errorf("the receiver gets all messages, and failed with %q", failures)
		}
	})
}

// The server stores the first messages of the batch before it refuses the batch.
func TestAPartOfABatchThatIsRefusedIsRepeatedWithItsIDs(t *testing.T) {
	inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
		n := &batches{max: 10}
		n.answerBatch = func(bodies []string) error {
			n.accepted = append(n.accepted, bodies[:2]...)
			return failure(notify.Reject, "400")
		}
		commit(t, store, ops, 0, 4)
		h.Configure(notify.Receiver{Key: ops, Notifier: n})
		wait()
		if diff := cmp.Diff(append(names(0, 1), names(0, 3)...), n.got()); diff != "" {
			t.Error(diff)
		}
		for _, s := range n.fake.all() {
			if s.Key != keyOf(s.Body) {
				t.Errorf("%s has the key %q", s.Body, s.Key)
			}
		}
	})
}

// unprepared fails to prepare batches, and takes time for it.
type unprepared struct {
	*outbox.Store
	err   error
	times int
}

func (u *unprepared) Prepare(ctx context.Context, receiver string, lane int64, entries []int64, key string, body []byte) (*outbox.Attempt, error) {
	if u.times == 0 || len(entries) == 1 {
		return u.Store.Prepare(ctx, receiver, lane, entries, key, body)
	}
	u.times--
	time.Sleep(time.Millisecond)
	return nil, u.err
}

func TestABatchThatIsNotPreparedReturnsItsPermissions(t *testing.T) {
	for name, tc := range map[string]struct {
		err   error
		times int
		left  int
	}{
		"too many are prepared": {outbox.ErrTooManyPrepared, 4, 15}, // a permission for each message
		"nothing is pending":    {outbox.ErrNothingPending, 4, 15},
		"the database fails":    {errors.New("disk I/O error"), 1, 15},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := openOutbox(t, t.TempDir())
				h := start(t, &unprepared{store, tc.err, tc.times}, notify.Options{})
				shared := []notify.Limit{{Key: "shop", Every: time.Hour, Burst: 20}}
				h.submit(t, store, ops, 0, 5)
				h.Configure(notify.Receiver{Key: ops, Notifier: &batches{max: 5}, Limits: shared})
				after(time.Minute)
				other := &fake{}
				h.Configure(notify.Receiver{Key: shop, Notifier: other, Limits: shared})
				h.submit(t, store, shop, 0, 20)
				wait()
				if got := len(other.all()); got != tc.left || h.observer.messages()[notify.KindDigest] != 0 {
					t.Errorf("%d messages of another receiver with the same limit, want %d", got, tc.left)
				}
				h.stop()
				if err := store.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestAUserDropsAMessageOfABatch(t *testing.T) {
	for name, tc := range map[string]struct {
		drop string
		want []string
	}{
		"the first":     {keyOf("node-0"), names(1, 4)},
		"in the middle": {keyOf("node-2"), []string{"node-0", "node-1", "node-3", "node-4"}},
		"the last":      {keyOf("node-4"), names(0, 3)},
		"none of them":  {"unknown", names(0, 4)},
		"set aside":     {"all", names(0, 4)},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, store *outbox.Store, h *harness) {
				n := &batches{max: 10}
				n.set(true)
				commit(t, store, ops, 0, 5)
				h.Configure(notify.Receiver{Key: ops, Notifier: n})
				wait()
				n.set(false)
				h.Configure(notify.Receiver{Key: ops, Notifier: n, Fingerprint: "annotated", Drop: tc.drop})
				wait()
				if diff := cmp.Diff(tc.want, n.got()); diff != "" {
					t.Error(diff)
				}
				if got := h.observer.dropped(notify.DropByUser); got != int64(5-len(tc.want)) || h.Dropped(ops) != tc.drop {
					t.Errorf("%d were dropped, and %q was handled", got, h.Dropped(ops))
				}
				if left := store.Backlog(ops).Entries; left != 0 {
					t.Errorf("%d are left", left)
				}
			})
		})
	}
}
