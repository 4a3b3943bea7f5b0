package outbox

import (
	"testing"
	"time"
)

// Otherwise the failures of all messages ever sent would fill the disk.
func TestTheFailureOfAMessageIsRemovedWithIt(t *testing.T) {
	s := open(t, t.TempDir())
	failures := func() (n int) {
		must(t, s.readers.QueryRowContext(t.Context(), `SELECT count(*) FROM attempt WHERE error <> ''`).Scan(&n))
		return n
	}
	commit(t, s, "r", 0, 2)
	f := Failure{Error: "the receiver answers 503", Next: time.Now()}
	for i, remove := range []func(a *Attempt) error{
		func(a *Attempt) error { _, err := s.Finish(t.Context(), a, Outcome{}); return err },
		func(a *Attempt) error { _, err := s.Discard(t.Context(), a); return err },
	} {
		a := prepare(t, s, "r", 1)
		for range 2 {
			must(t, s.NoteFailure(t.Context(), a, f))
		}
		if n := failures(); n != 1 {
			t.Errorf("message %d: %d failures are stored, want 1", i, n)
		}
		must(t, remove(a))
		must(t, s.NoteFailure(t.Context(), a, f)) // too late
		if n := failures(); n != 0 {
			t.Errorf("message %d: %d failures are stored after it, want none", i, n)
		}
	}
}
