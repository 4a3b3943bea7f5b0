package notify

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"

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

// Limits of the CPU for the receivers of one namespace, in CEL's cost units. They are those of
// evaluating alarms.
const (
	// unit is about the time for a unit.
	unit = 100 * time.Nanosecond
	// costPerSecond is about a twentieth of a CPU.
	costPerSecond = 500_000
	maxCost       = 5 * costPerSecond
)

// computing limits the CPU for templates and for signatures. It prevents the receivers of one
// namespace from delaying the messages of others.
type computing struct {
	mu       sync.Mutex
	accounts map[string]*account
	// turn contains a value while an AlarmReceiver uses CPU. Those of many namespaces together
	// therefore use one CPU at most.
	turn chan struct{}
}

// account is what the receivers of a namespace may still use at a time. The last use can exceed it.
type account struct {
	left float64
	at   time.Time
	// turn contains a value while one of the receivers prepares a message or signs.
	turn chan struct{}
}

func newComputing() *computing {
	return &computing{accounts: map[string]*account{}, turn: make(chan struct{}, 1)}
}

// account returns the account of a receiver as of now. Receivers of a namespace share one. The
// caller holds r.mu.
func (r *computing) account(of *Receiver, now time.Time) *account {
	key := of.Key
	if of.Namespace != "" {
		key = "/" + of.Namespace
	}
	a, ok := r.accounts[key]
	if !ok {
		a = &account{left: maxCost, at: now, turn: make(chan struct{}, 1)}
		r.accounts[key] = a
	}
	a.refill(now)
	return a
}

func (a *account) refill(now time.Time) {
	a.left = min(a.left+now.Sub(a.at).Seconds()*costPerSecond, maxCost)
	a.at = now
}

// delay returns how long a receiver must wait before its next message.
func (r *computing) delay(of *Receiver, now time.Time) time.Duration {
	if of.Namespace == "" && !hasTemplate(of.Notifier) {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	left := r.account(of, now).left
	if left >= 0 {
		return 0
	}
	return time.Duration(-left/costPerSecond*float64(time.Second)) + time.Millisecond
}

// charge subtracts a cost.
func (r *computing) charge(of *Receiver, cost int64, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.account(of, now).left -= float64(cost)
}

// turnOf returns the turn of a receiver's namespace.
func (r *computing) turnOf(of *Receiver, now time.Time) chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.account(of, now).turn
}

// sweep forgets the accounts that are full and not in use.
func (r *computing) sweep(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, a := range r.accounts {
		if a.refill(now); a.left >= maxCost && len(a.turn) == 0 {
			delete(r.accounts, key)
		}
	}
}

func hasTemplate(n Notifier) bool {
	costly, ok := n.(Costly)
	return ok && costly.HasTemplate()
}

type turnsKey struct{}

// turns runs a function in the turn of a receiver.
type turns func(ctx context.Context, f func()) error

// withTurns returns a context in which InTurn limits the CPU of a receiver.
func (r *computing) withTurns(ctx context.Context, of *Receiver, clk clock.PassiveClock) context.Context {
	if of.Namespace == "" {
		return ctx
	}
	return context.WithValue(ctx, turnsKey{}, turns(func(ctx context.Context, f func()) error {
		for _, turn := range []chan struct{}{r.turnOf(of, clk.Now()), r.turn} {
			select {
			case turn <- struct{}{}:
				defer func() { <-turn }()
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		begun := clk.Now()
		f()
		r.charge(of, int64(clk.Since(begun)/unit), clk.Now())
		return nil
	}))
}

// InTurn runs a function whose CPU a user determines, such as a signature with the user's key. ctx is
// derived from the context of Send. One function of AlarmReceivers runs at a time. A namespace that
// used much CPU waits before its next message. InTurn returns an error if ctx ends before f begins.
func InTurn(ctx context.Context, f func()) error {
	if run, ok := ctx.Value(turnsKey{}).(turns); ok {
		return run(ctx, f)
	}
	f()
	return nil
}
