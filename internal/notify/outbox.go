package notify

import (
	"context"
	"time"

	"github.com/bongsu-io/bongsu/internal/ledger"
)

// Outbox is what the Dispatcher needs of a [ledger.Ledger], which says what each
// method does. The payload of an entry is an alarm.Message as JSON.
type Outbox interface {
	Snapshot() ledger.Snapshot
	Backlog(receiver string) ledger.Backlog
	Pending(ctx context.Context, receiver string, after int64, limit int) ([]ledger.Entry, error)
	Frozen(ctx context.Context, receiver string) (*ledger.Attempt, error)
	Freeze(ctx context.Context, receiver string, last int64, key string, body []byte) (*ledger.Attempt, error)
	Reference(ctx context.Context, receiver, group string) (string, error)
	Settle(ctx context.Context, a *ledger.Attempt) (ledger.Tally, error)
	DropOlderThan(ctx context.Context, receiver string, t time.Time) (ledger.Tally, error)
	DropReceiver(ctx context.Context, receiver string) (ledger.Tally, error)
}

var _ Outbox = (*ledger.Ledger)(nil)
