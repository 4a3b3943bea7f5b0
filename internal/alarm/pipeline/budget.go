package pipeline

import (
	"maps"
	"slices"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm/match"
)

// What matching the Alarms of one namespace may cost, in CEL's units: about a tenth
// of a processor for as long as it lasts, and half a second of one at once. An
// ordinary expression costs some tens of units.
const (
	costPerSecond = 1_000_000
	costBurst     = 5 * costPerSecond
)

// budgeted is for how many namespaces it is remembered what they spent; who is
// forgotten begins with a full budget.
const maxBudgets = 4096

// budget keeps the Alarms of one namespace from holding up everyone else's.
type budget struct {
	clock    clock.PassiveClock
	limiters *lru.Cache[string, *rate.Limiter]
}

func newBudget(clk clock.PassiveClock) *budget {
	limiters, err := lru.New[string, *rate.Limiter](maxBudgets)
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	return &budget{clock: clk, limiters: limiters}
}

// open returns the meters of one batch.
func (b *budget) newMeters() *meters {
	return &meters{budget: b, byNamespace: map[string]*match.Meter{}}
}

func (b *budget) limiter(namespace string) *rate.Limiter {
	l, ok := b.limiters.Get(namespace)
	if !ok {
		l = rate.NewLimiter(costPerSecond, costBurst)
		b.limiters.Add(namespace, l)
	}
	return l
}

// meters are those of the namespaces of a batch. One goroutine uses them.
type meters struct {
	budget      *budget
	byNamespace map[string]*match.Meter
}

// of returns the meter of a namespace, nil if it has no Alarms.
func (m *meters) forNamespace(index *match.Index, namespace string) *match.Meter {
	if len(index.AlarmsIn(namespace)) == 0 {
		return nil
	}
	meter, ok := m.byNamespace[namespace]
	if !ok {
		left := m.budget.limiter(namespace).TokensAt(m.budget.clock.Now())
		meter = match.NewMeter(int64(left))
		m.byNamespace[namespace] = meter
	}
	return meter
}

// close takes what was spent off the budgets, and returns the namespaces that have
// nothing left.
func (m *meters) charge() (exhausted []string) {
	now := m.budget.clock.Now()
	for _, namespace := range slices.Sorted(maps.Keys(m.byNamespace)) {
		meter := m.byNamespace[namespace]
		if meter.Exhausted() {
			exhausted = append(exhausted, namespace)
		}
		m.budget.limiter(namespace).ReserveN(now, int(min(meter.Spent(), costBurst)))
	}
	return exhausted
}
