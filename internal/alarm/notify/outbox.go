package notify

import (
	"context"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// Outbox is what the Dispatcher needs of a [ledger.Ledger], which says what each
// method does. The payload of an entry is an alarm.Message as JSON.
type Outbox interface {
	Snapshot() outbox.Snapshot
	Backlog(receiver string) outbox.Backlog
	Pending(ctx context.Context, receiver string, after int64, limit int) ([]outbox.Entry, error)
	Prepared(ctx context.Context, receiver string) (*outbox.Attempt, error)
	Prepare(ctx context.Context, receiver string, last int64, key string, body []byte) (*outbox.Attempt, error)
	Reference(ctx context.Context, receiver, group string) (string, error)
	Acknowledge(ctx context.Context, a *outbox.Attempt) (outbox.Counts, error)
	DropOlderThan(ctx context.Context, receiver string, t time.Time) (outbox.Counts, error)
	DropReceiver(ctx context.Context, receiver string) (outbox.Counts, error)
}

var _ Outbox = (*outbox.Store)(nil)
