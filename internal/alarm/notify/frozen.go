package notify

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// frozen is what the ledger keeps as the body of an attempt.
type frozen struct {
	// Format is that of the Notifier that rendered Body.
	Format string `json:"format"`
	Body   []byte `json:"body"`
	// Message is what Body was rendered from: a receiver that has become another
	// kind of sink since then needs another body.
	Message json.RawMessage `json:"message"`
	// Newest is when the newest of its entries was created.
	Newest time.Time `json:"newest"`
}

// freeze renders a message for storing it.
func freeze(n Notifier, m *message.Message, newest time.Time) ([]byte, error) {
	body, err := n.Render(*m)
	if err != nil {
		return nil, fmt.Errorf("render a message: %w", err)
	}
	message, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode a message: %w", err)
	}
	return json.Marshal(frozen{Format: n.Format(), Body: body, Message: message, Newest: newest})
}

func thaw(a *outbox.Attempt) (*frozen, error) {
	var f frozen
	if err := json.Unmarshal(a.Body, &f); err != nil {
		return nil, fmt.Errorf("decode a frozen message: %w", err)
	}
	return &f, nil
}

// bodyFor is the frozen body, or, for a sink of another format, the same message
// rendered for it: rendering is pure, so that too is the same each time.
func (f *frozen) bodyFor(n Notifier) ([]byte, error) {
	if f.Format == n.Format() {
		return f.Body, nil
	}
	var m message.Message
	if err := json.Unmarshal(f.Message, &m); err != nil {
		return nil, fmt.Errorf("decode a message: %w", err)
	}
	return n.Render(m)
}
