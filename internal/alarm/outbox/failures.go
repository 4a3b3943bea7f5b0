package outbox

import (
	"context"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/outbox/file"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// Failure is why the last attempt to send a message failed.
type Failure struct {
	// Error is for users. NoteFailure cuts it.
	Error string
	// Next is when the operator tries again, zero if that is unknown.
	Next time.Time
}

// maxFailure is the maximum length of Failure.Error, in bytes.
const maxFailure = 256

// NoteFailure stores the last failure of an attempt, for Inspect. It does not wait for the disk,
// and fails with file.ErrFull before it uses reserved space: the caller can ignore errors.
func (s *Store) NoteFailure(ctx context.Context, a *Attempt, f Failure) error {
	return s.do(ctx, "store the failure of a message", file.Lazy|file.Bounded, func(ctx context.Context, tx *tx) error {
		_, err := tx.exec(ctx, `REPLACE INTO failure (attempt, error, next) SELECT id, ?, ? FROM attempt WHERE id = ?`,
			plaintext.Cut(plaintext.Line(f.Error), maxFailure), micros(f.Next), a.ID)
		return err
	})
}
