package pipeline

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// Alarms contains the active alarms. Controllers change them, and the pipeline uses an
// index of them. The index is rebuilt only after a change.
type Alarms struct {
	mu    sync.Mutex
	byKey map[string]activeAlarm
	index *match.Index // nil after a change
}

// activeAlarm is a compiled alarm and its version.
type activeAlarm struct {
	version  string
	compiled *match.Alarm
}

// NewAlarms returns an empty set.
func NewAlarms() *Alarms {
	return &Alarms{byKey: map[string]activeAlarm{}}
}

// Has reports whether this version of the alarm is active. If so, it need not be
// compiled.
func (a *Alarms) Has(key, version string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.byKey[key].version == version
}

// Set adds the alarm, or replaces the one with the same key. version must not be empty,
// and must change whenever the alarm does.
func (a *Alarms) Set(key, version string, compiled *match.Alarm) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.byKey[key] = activeAlarm{version, compiled}
	a.index = nil
}

// Delete removes an alarm.
func (a *Alarms) Delete(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.byKey[key]; ok {
		delete(a.byKey, key)
		a.index = nil
	}
}

// Window returns the longest window of all active alarms.
func (a *Alarms) Window() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	var longest time.Duration
	for _, active := range a.byKey {
		longest = max(longest, active.compiled.Window())
	}
	return longest
}

// Index returns an index of the alarms that are active now.
func (a *Alarms) Index() *match.Index {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.index == nil {
		compiled := make([]*match.Alarm, 0, len(a.byKey))
		for _, key := range slices.Sorted(maps.Keys(a.byKey)) {
			compiled = append(compiled, a.byKey[key].compiled)
		}
		a.index = match.NewIndex(compiled)
	}
	return a.index
}

// matchConcurrency is the number of occurrences that are matched at once. Most of the time
// is spent waiting for the objects that Events regard.
const matchConcurrency = 8

// Enricher returns data that is not in an Event.
type Enricher interface {
	Context(ctx context.Context, event *alarm.Event) alarm.Context
}

// evaluation is the result of one alarm for one occurrence.
type evaluation struct {
	alarm   *match.Alarm
	outcome match.Outcome
	err     error
	message message.Message
	// by contains the values of the occurrence's group, if the alarm has groups.
	by []alarm.GroupValue
	// suppressed says why the occurrence is not sent; empty if it is.
	suppressed Suppression
	// replayed: the occurrence was handled before for all receivers. It only restores the
	// state of thresholds.
	replayed bool
}

// matcher decides which alarms a batch of occurrences matches.
type matcher struct {
	alarms     *Alarms
	namespaces match.Namespaces
	enricher   Enricher
	budget     *budget
}

// match returns the evaluations of each occurrence, in the order of the occurrences. It
// also returns the Alarms that were skipped for some of them, because their namespace is
// over its budget. Occurrences with candidates are evaluated in parallel. An occurrence
// that was handled before for all receivers of an alarm is evaluated only if the alarm
// has a window.
func (m *matcher) match(ctx context.Context, occurrences []alarm.Occurrence, handled outbox.DeliveredOffsets) ([][]evaluation, []*match.Alarm, error) {
	index := m.alarms.Index()
	meters := m.budget.newMeters()
	evaluations := make([][]evaluation, len(occurrences))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(matchConcurrency)
	for i := range occurrences {
		occ := &occurrences[i]
		candidates := index.Candidates(occ, m.namespaces, meters.forNamespace(index, occ.Event.Namespace))
		candidates = slices.DeleteFunc(candidates, func(c match.Candidate) bool {
			return c.Alarm.Window() == 0 && handledBefore(c.Alarm, occ, handled)
		})
		if len(candidates) == 0 {
			continue
		}
		group.Go(func() error {
			evaluations[i] = m.evaluate(ctx, occ, candidates, handled)
			return ctx.Err()
		})
	}
	err := group.Wait()
	var skipped []*match.Alarm
	for _, namespace := range meters.charge() {
		skipped = append(skipped, index.AlarmsIn(namespace)...)
	}
	return evaluations, skipped, err
}

func (m *matcher) evaluate(ctx context.Context, occ *alarm.Occurrence, candidates []match.Candidate, handled outbox.DeliveredOffsets) []evaluation {
	known := m.enricher.Context(ctx, &occ.Event)
	evaluations := make([]evaluation, 0, len(candidates))
	for _, c := range candidates {
		result := c.Match(ctx, &known)
		e := evaluation{alarm: c.Alarm, outcome: result.Outcome, err: result.Err, replayed: handledBefore(c.Alarm, occ, handled)}
		if e.outcome == match.Matched {
			var err error
			e.message, err = c.Render(ctx, &known)
			if g := c.Alarm.Grouping(); g != nil {
				e.by = g.Values(&occ.Event, &known.Object)
			}
			if e.err == nil {
				e.err = err
			}
		}
		if e.outcome != match.NotMatched || e.err != nil {
			evaluations = append(evaluations, e)
		}
	}
	return evaluations
}

// handledBefore reports whether the occurrence was handled for all receivers of the alarm.
func handledBefore(a *match.Alarm, occ *alarm.Occurrence, handled outbox.DeliveredOffsets) bool {
	for _, receiver := range a.Receivers {
		if !handled.Covers(receiver, alarm.Key(receiver, a.UID, occ), occ.Position) {
			return false
		}
	}
	return len(a.Receivers) > 0 || occ.Position <= handled.Default
}

// Limits of the cost of matching the Alarms of one namespace, in CEL's cost units. They are
// about a tenth of a CPU continuously, and half a second of a CPU at once. A typical
// expression costs some tens of units.
const (
	costPerSecond = 1_000_000
	costBurst     = 5 * costPerSecond
)

// maxBudgets is the number of namespaces whose budgets are kept. Other namespaces start
// with a full budget.
const maxBudgets = 4096

// budget prevents the Alarms of one namespace from delaying those of others.
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

// newMeters returns the meters of one batch.
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

// meters measure the cost of one batch for each namespace. They are not safe for
// concurrent use.
type meters struct {
	budget      *budget
	byNamespace map[string]*match.Meter
}

// forNamespace returns the meter of a namespace, or nil if it has no Alarms.
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

// charge subtracts the measured cost from the budgets. It returns the namespaces that are
// over their budget.
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
