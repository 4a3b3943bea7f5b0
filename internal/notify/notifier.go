package notify

import (
	"context"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

// Notifier speaks to one sink. It holds no state between messages and is safe
// for concurrent use.
type Notifier interface {
	// Format names the form of the bodies that Render makes. A body that was
	// frozen in one format is never sent by a Notifier of another.
	Format() string
	// Render makes the request's body. It is pure.
	Render(m alarm.Message) ([]byte, error)
	// Send makes one attempt to deliver body under the idempotency key. Nil means
	// that the receiver accepted it; otherwise the error is a *SendError, or it
	// is taken for one that may be retried.
	Send(ctx context.Context, key string, body []byte) error
}
