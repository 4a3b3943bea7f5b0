package notify

import (
	"context"
	"errors"
	"fmt"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// mayRender waits until no other receiver of the namespace renders a template. ok is false if the
// namespace must wait because it used too much CPU. Otherwise, the caller calls done.
func (w *worker) mayRender(c config) (done func(), ok bool) {
	done = func() {}
	if hasTemplate(c.receiver.Notifier) {
		turn := w.computing.turnOf(c.receiver, w.clock.Now())
		if !w.await(c.current, turn) {
			return nil, false
		}
		done = func() { <-turn }
	}
	if w.computing.delay(c.receiver, w.clock.Now()) > 0 {
		done()
		return nil, false
	}
	return done, true
}

// await takes a turn, unless the operator stops or the receiver changes before.
func (w *worker) await(current context.Context, turn chan<- struct{}) bool {
	select {
	case turn <- struct{}{}:
		return true
	case <-current.Done():
	case <-w.work.Done():
	}
	return false
}

// render renders a message. The caller has called mayRender. It returns ErrInterrupted if the
// operator stops or the receiver changes before.
func (w *worker) render(c config, m message.Message) ([]byte, error) {
	if !hasTemplate(c.receiver.Notifier) {
		return c.receiver.Notifier.Render(m)
	}
	if c.receiver.Namespace != "" {
		if !w.await(c.current, w.computing.turn) {
			return nil, ErrInterrupted
		}
		defer func() { <-w.computing.turn }()
	}
	body, cost, err := c.receiver.Notifier.(Costly).RenderAtCost(m)
	w.computing.charge(c.receiver, cost, w.clock.Now())
	return body, err
}

// renderAll renders one message for all entries.
func (w *worker) renderAll(c config, d *draft) error {
	if d.readable == 0 {
		return errNothingReadable
	}
	m := d.combined.Message()
	switch {
	case len(d.ids) > 1 && !d.incident:
		d.Kind = KindDigest
	case m.Group != nil:
		d.Kind, d.Groups = KindGroup, []outbox.GroupState{groupState(c.receiver.Notifier, &m)}
	default:
		d.Kind = KindOccurrence
	}
	body, err := w.render(c, m)
	if err != nil {
		return fmt.Errorf("render a message: %w", err)
	}
	d.Format, d.Messages = c.receiver.Notifier.Format(), []BatchMessage{{d.key(), body}}
	return nil
}

var errNothingReadable = errors.New("nothing of the message can be read")
