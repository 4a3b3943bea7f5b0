package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// releaseRetry is how long to wait after the ledger could not be written.
const releaseRetry = 5 * time.Second

// keepReleasing puts the messages of groups into the outbox when they are due.
func (p *Pipeline) releaseGroups(ctx context.Context) error {
	for ctx.Err() == nil {
		wait, err := p.releaseDue(ctx)
		if errors.Is(err, outbox.ErrCorrupt) {
			return err
		}
		if err != nil && ctx.Err() == nil {
			p.log.Error(err, "messages of groups could not be made; retrying")
			wait = releaseRetry
		}
		p.awaitDue(ctx, wait)
	}
	return nil
}

// release puts what is due into the outbox, and returns how long to wait for more; 0
// if there is nothing to wait for.
func (p *Pipeline) releaseDue(ctx context.Context) (wait time.Duration, err error) {
	made, err := p.ledger.Release(ctx, composeGroup)
	for receiver, r := range made {
		p.Reporter.Merged(r.Parts - r.Messages)
		p.Dispatcher.Wake(receiver)
	}
	if err != nil {
		return 0, err
	}
	due, err := p.ledger.NextDue(ctx)
	if due.IsZero() || err != nil {
		return 0, err
	}
	return max(due.Sub(p.clock.Now()), time.Millisecond), nil
}

// awaitDue waits so long, or until something was put into a group.
func (p *Pipeline) awaitDue(ctx context.Context, wait time.Duration) {
	var due <-chan time.Time
	if wait > 0 {
		timer := p.clock.NewTimer(wait)
		defer timer.Stop()
		due = timer.C()
	}
	select {
	case <-ctx.Done():
	case <-due:
	case <-p.groupAdded:
	}
}

// composeGroup makes the message of a group. What cannot be read of it is left out:
// it would be the same each time.
func composeGroup(g outbox.Group, parts []outbox.Entry, count int64) (key string, payload []byte, err error) {
	group := message.Group{Key: g.ID, Total: g.Total, Since: g.Since, First: g.First, Resolved: g.Resolved}
	_ = json.Unmarshal(g.By, &group.By)
	keys := sha256.New()
	messages := make([]message.Message, 0, len(parts))
	for i := range parts {
		_, _ = io.WriteString(keys, parts[i].Key+"\x00") // a hash does not fail
		var m message.Message
		if json.Unmarshal(parts[i].Payload, &m) == nil {
			messages = append(messages, m)
		}
	}
	if payload, err = json.Marshal(message.Compose(group, messages, count)); err != nil {
		return "", nil, fmt.Errorf("encode a group's message: %w", err)
	}
	return hex.EncodeToString(keys.Sum(nil)[:16]), payload, nil
}
