package notify_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
)

// The messages of a receiver can wait because of the other receivers of its namespace.
func TestAReceiverWhoseMessagesHaveNoSpaceSaysSo(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store := openOutbox(t, dir)
		s := &noSpace{Store: store}
		s.full.Store(true)
		h := start(t, s, notify.Options{})
		h.Configure(notify.Receiver{Key: ops, Notifier: &fake{}})
		wait()
		if failure := h.Failure(ops); failure != nil {
			t.Errorf("without messages: %v", failure)
		}
		h.submitAbout(t, store, 0, "a")
		after(time.Hour)
		failure := h.Failure(ops)
		if failure == nil || failure.Reason != v1alpha1.ReasonDeliveryFailing || !strings.Contains(failure.Text, "correct the receivers that are not Ready") {
			t.Errorf("without space: %v", failure)
		}
		if got := h.observer.pauses(); got != 1 {
			t.Errorf("the status changes %d times, want once", got)
		}
		s.full.Store(false)
		after(time.Hour)
		if failure := h.Failure(ops); failure != nil {
			t.Errorf("with space: %v", failure)
		}
		if got := h.observer.pauses(); got != 2 {
			t.Errorf("the status changes %d times, want twice", got)
		}
		s.full.Store(true)
		h.submitAbout(t, store, 1, "a")
		after(25 * time.Hour)
		if failure := h.Failure(ops); failure != nil {
			t.Errorf("after the message expired: %v", failure)
		}
		h.stop()
		_ = store.Close()
	})
}
