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
	costAtOnce    = 5 * costPerSecond
)

// budgeted is for how many namespaces it is remembered what they spent; who is
// forgotten begins with a full budget.
const budgeted = 4096

// budget keeps the Alarms of one namespace from holding up everyone else's.
type budget struct {
	clock    clock.PassiveClock
	limiters *lru.Cache[string, *rate.Limiter]
}

func newBudget(clk clock.PassiveClock) *budget {
	limiters, err := lru.New[string, *rate.Limiter](budgeted)
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	return &budget{clock: clk, limiters: limiters}
}

// open returns the meters of one batch.
func (b *budget) open() *meters { return &meters{budget: b, open: map[string]*match.Meter{}} }

func (b *budget) limiter(namespace string) *rate.Limiter {
	l, ok := b.limiters.Get(namespace)
	if !ok {
		l = rate.NewLimiter(costPerSecond, costAtOnce)
		b.limiters.Add(namespace, l)
	}
	return l
}

// meters are those of the namespaces of a batch. One goroutine uses them.
type meters struct {
	budget *budget
	open   map[string]*match.Meter
}

// of returns the meter of a namespace, nil if it has no Alarms.
func (m *meters) of(index *match.Index, namespace string) *match.Meter {
	if len(index.Own(namespace)) == 0 {
		return nil
	}
	meter, ok := m.open[namespace]
	if !ok {
		left := m.budget.limiter(namespace).TokensAt(m.budget.clock.Now())
		meter = match.NewMeter(int64(left))
		m.open[namespace] = meter
	}
	return meter
}

// close takes what was spent off the budgets, and returns the namespaces that have
// nothing left.
func (m *meters) close() (exhausted []string) {
	now := m.budget.clock.Now()
	for _, namespace := range slices.Sorted(maps.Keys(m.open)) {
		meter := m.open[namespace]
		if meter.Exhausted() {
			exhausted = append(exhausted, namespace)
		}
		m.budget.limiter(namespace).ReserveN(now, int(min(meter.Spent(), costAtOnce)))
	}
	return exhausted
}
