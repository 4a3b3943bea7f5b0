package notify

import (
	"context"
	"sync"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
)

// Costly is a Notifier whose Render can need much CPU, because a user wrote a template.
type Costly interface {
	Notifier
	// HasTemplate reports whether Render uses a template.
	HasTemplate() bool
	// RenderAtCost is Render. It also returns what it cost, in CEL's cost units.
	RenderAtCost(m message.Message) (body []byte, cost int64, err error)
}

// Limits of the cost of rendering for the receivers of one namespace, in CEL's cost units. A unit
// takes about a tenth of a microsecond. They are those of evaluating alarms.
const (
	// renderPerSecond is about a twentieth of a CPU.
	renderPerSecond = 500_000
	renderBurst     = 5 * renderPerSecond
)

// rendering limits the CPU for templates. It prevents the receivers of one namespace from
// delaying the messages of others.
type rendering struct {
	mu       sync.Mutex
	accounts map[string]*renderAccount
	// turn contains a value while a template of an AlarmReceiver is rendered. Those of many
	// namespaces together therefore use one CPU at most.
	turn chan struct{}
}

// renderAccount is what the receivers of a namespace may still use at a time. The one that is
// rendered last can exceed it.
type renderAccount struct {
	left float64
	at   time.Time
	// turn contains a value while one of the receivers prepares a message.
	turn chan struct{}
}

func newRendering() *rendering {
	return &rendering{accounts: map[string]*renderAccount{}, turn: make(chan struct{}, 1)}
}

// account returns the account of a receiver as of now. Receivers of a namespace share one. The
// caller holds r.mu.
func (r *rendering) account(of *Receiver, now time.Time) *renderAccount {
	key := of.Key
	if of.Namespace != "" {
		key = "/" + of.Namespace
	}
	a, ok := r.accounts[key]
	if !ok {
		a = &renderAccount{left: renderBurst, at: now, turn: make(chan struct{}, 1)}
		r.accounts[key] = a
	}
	a.refill(now)
	return a
}

func (a *renderAccount) refill(now time.Time) {
	a.left = min(a.left+now.Sub(a.at).Seconds()*renderPerSecond, renderBurst)
	a.at = now
}

// delay returns how long a receiver must wait before its next template is rendered.
func (r *rendering) delay(of *Receiver, now time.Time) time.Duration {
	if !hasTemplate(of.Notifier) {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	left := r.account(of, now).left
	if left >= 0 {
		return 0
	}
	return time.Duration(-left/renderPerSecond*float64(time.Second)) + time.Millisecond
}

// charge subtracts a cost.
func (r *rendering) charge(of *Receiver, cost int64, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.account(of, now).left -= float64(cost)
}

// turnOf returns the turn of a receiver's namespace.
func (r *rendering) turnOf(of *Receiver, now time.Time) chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.account(of, now).turn
}

// sweep forgets the accounts that are full and not in use.
func (r *rendering) sweep(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, a := range r.accounts {
		if a.refill(now); a.left >= renderBurst && len(a.turn) == 0 {
			delete(r.accounts, key)
		}
	}
}

func hasTemplate(n Notifier) bool {
	costly, ok := n.(Costly)
	return ok && costly.HasTemplate()
}

// mayRender waits until no other receiver of the namespace renders a template. ok is false if the
// namespace must wait because that cost too much. Otherwise, the caller calls done.
func (w *worker) mayRender(c config) (done func(), ok bool) {
	if !hasTemplate(c.receiver.Notifier) {
		return func() {}, true
	}
	turn := w.rendering.turnOf(c.receiver, w.clock.Now())
	if !w.await(c.current, turn) {
		return nil, false
	}
	done = func() { <-turn }
	if w.rendering.delay(c.receiver, w.clock.Now()) > 0 {
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
		if !w.await(c.current, w.rendering.turn) {
			return nil, ErrInterrupted
		}
		defer func() { <-w.rendering.turn }()
	}
	body, cost, err := c.receiver.Notifier.(Costly).RenderAtCost(m)
	w.rendering.charge(c.receiver, cost, w.clock.Now())
	return body, err
}
