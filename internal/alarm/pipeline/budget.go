package pipeline

import (
	"cmp"
	"context"
	"slices"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
)

// Limits of the cost of evaluating the Events of one namespace, in CEL's cost units. A
// unit takes about a tenth of a microsecond. Typical expressions cost some tens of units.
//
// The limits are costs instead of times. On a busy machine, a time limit would drop
// Events of namespaces that cost little.
const (
	// costPerSecond is about a twentieth of a CPU.
	costPerSecond = 500_000
	costBurst     = 5 * costPerSecond
	// costPerBatch limits how long one namespace delays the batch, and with it all
	// others: about 0.1 s of a CPU.
	costPerBatch = 1_000_000
	// totalCostPerBatch limits all namespaces together, if there are many. A namespace
	// that costs less than its share of it is always evaluated.
	totalCostPerBatch = 3_000_000
)

// maxBudgets is the number of namespaces whose budgets are kept. Other namespaces start
// with a full budget.
const maxBudgets = 4096

// budget prevents the Events of one namespace from delaying those of others.
type budget struct {
	clock    clock.PassiveClock
	limiters *lru.Cache[string, *rate.Limiter]
}

func newBudget(clk clock.PassiveClock) *budget {
	limiters, err := lru.New[string, *rate.Limiter](maxBudgets)
	if err != nil {
		panic(err) // only if the size is not positive
	}
	return &budget{clock: clk, limiters: limiters}
}

func (b *budget) limiter(namespace string) *rate.Limiter {
	l, ok := b.limiters.Get(namespace)
	if !ok {
		l = rate.NewLimiter(costPerSecond, costBurst)
		b.limiters.Add(namespace, l)
	}
	return l
}

// left returns how much a namespace can cost in the next batch.
func (b *budget) left(namespace string) int64 { return b.leftAbove(namespace, 0) }

// leftAbove is left, and does not use a part of the budget.
func (b *budget) leftAbove(namespace string, reserved int64) int64 {
	return min(int64(b.limiter(namespace).TokensAt(b.clock.Now()))-reserved, costPerBatch)
}

// charge subtracts the measured cost from the budgets. It returns the namespaces some of
// whose occurrences were not evaluated.
func (b *budget) charge(tenants []*tenant) (over []string) {
	now := b.clock.Now()
	for _, l := range tenants {
		if l.meter.Exhausted() || l.stopped {
			over = append(over, l.namespace)
		}
		b.limiter(l.namespace).ReserveN(now, int(min(l.meter.Spent(), costBurst)))
	}
	return over
}

// tenant contains the occurrences of one namespace in a batch.
type tenant struct {
	namespace string
	// occurrences are their indexes in the batch.
	occurrences []int
	meter       *match.Meter
	// stopped is true if the batch ended before all of them were evaluated.
	stopped bool
}

// tenantsOf returns the tenants of a batch, without the namespaces that have no alarms. Those
// that cost little recently come first.
func tenantsOf(occurrences []alarm.Occurrence, b *budget, hasAlarms func(namespace string) bool) []*tenant {
	byNamespace := map[string]*tenant{}
	var tenants []*tenant
	left := map[*tenant]int64{}
	for i := range occurrences {
		namespace := occurrences[i].Event.Namespace
		if !hasAlarms(namespace) {
			continue
		}
		l, ok := byNamespace[namespace]
		if !ok {
			l = &tenant{namespace: namespace}
			left[l] = b.left(namespace)
			l.meter = match.NewMeter(left[l])
			byNamespace[namespace] = l
			tenants = append(tenants, l)
		}
		l.occurrences = append(l.occurrences, i)
	}
	slices.SortStableFunc(tenants, func(a, b *tenant) int { return cmp.Compare(left[b], left[a]) })
	return tenants
}

// matchConcurrency is the number of occurrences that are matched at once. Most of the time
// is spent waiting for the objects that Events regard.
const matchConcurrency = 8

// runTenants evaluates all occurrences, in turns: one of each tenant, then the next one of
// each. A tenant with many expensive occurrences is therefore the last one that ends. When
// the total cost is reached, the tenants that cost more than their share are stopped.
func runTenants(ctx context.Context, tenants []*tenant, evaluate func(ctx context.Context, i int, meter *match.Meter)) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(matchConcurrency)
	for turn, left := 0, tenants; len(left) > 0; turn++ {
		left = slices.DeleteFunc(slices.Clone(left), func(l *tenant) bool {
			return turn >= len(l.occurrences) || l.meter.Exhausted()
		})
		for _, l := range left {
			if totalSpent(tenants) >= totalCostPerBatch && l.meter.Spent() > totalCostPerBatch/int64(len(tenants)) {
				l.stopped = true
				continue
			}
			group.Go(func() error {
				evaluate(ctx, l.occurrences[turn], l.meter)
				return ctx.Err()
			})
		}
	}
	return group.Wait()
}

func totalSpent(tenants []*tenant) int64 {
	var sum int64
	for _, l := range tenants {
		sum += l.meter.Spent()
	}
	return sum
}
