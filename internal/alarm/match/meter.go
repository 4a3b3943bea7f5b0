package match

import (
	"errors"
	"sync/atomic"
)

// ErrOverBudget says that the Alarms of a namespace cost more to match than they
// may, so that some Events were not looked at for them.
var ErrOverBudget = errors.New("the Alarms of this namespace cost too much together, so that some Events were not looked at: " +
	"make their expressions and globs simpler, or name kinds and reasons")

// Meter bounds what the Alarms of one namespace may cost, so that nobody's hold up
// everyone else's. Costs are in CEL's units, each some tens of nanoseconds. A nil
// Meter is no bound. It is safe for concurrent use.
type Meter struct {
	spent atomic.Int64
	limit int64
}

// NewMeter returns a Meter of which so much may be spent.
func NewMeter(limit int64) *Meter { return &Meter{limit: limit} }

// Spent returns what was spent so far, which may be a little more than the limit.
func (m *Meter) Spent() int64 { return m.spent.Load() }

// Exhausted tells whether nothing is left.
func (m *Meter) Exhausted() bool { return m != nil && m.spent.Load() >= m.limit }

func (m *Meter) spend(cost int64) {
	if m != nil {
		m.spent.Add(cost)
	}
}
