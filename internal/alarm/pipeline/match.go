package pipeline

import (
	"context"
	"slices"
	"time"

	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
)

// batchReadTime limits the time for all reads of a batch. Occurrences whose objects are then
// unread are parked, so that slow reads of one tenant do not delay the alarms of others.
const batchReadTime = 2 * time.Second

// Enricher returns data that is not in an Event.
type Enricher interface {
	Context(ctx context.Context, event *alarm.Event) alarm.Context
	// Named is Context for an alarm that names resources. It also reads an object of one of them, of.
	// ok is false if the object belongs to none of them: the result is then that of Context.
	Named(ctx context.Context, event *alarm.Event, resources []alarm.Resource) (known alarm.Context, of alarm.Resource, ok bool)
}

// matcher decides which alarms a batch of occurrences matches.
type matcher struct {
	alarms     *Alarms
	namespaces match.Namespaces
	enricher   Enricher
	// ofAlarms limits the cost of the Alarms of a namespace, ofClusterAlarms that of the
	// ClusterAlarms for the Events of a namespace. They are separate, so that a tenant
	// cannot use up what the ClusterAlarms need.
	ofAlarms, ofClusterAlarms *budget
	// receiver comes from Config.
	receiver func(key string) (Receiver, bool)
}

func newMatcher(alarms *Alarms, namespaces match.Namespaces, enricher Enricher, clk clock.PassiveClock) *matcher {
	return &matcher{
		receiver: func(key string) (Receiver, bool) { return Receiver{ID: key}, true },
		alarms:   alarms, namespaces: namespaces, enricher: enricher,
		ofAlarms: newBudget(clk), ofClusterAlarms: newBudget(clk),
	}
}

// budgetOfKind returns the budget of a kind of alarms.
func (m *matcher) budgetOfKind(kind string) *budget {
	if kind == alarm.KindClusterAlarm {
		return m.ofClusterAlarms
	}
	return m.ofAlarms
}

// match returns the evaluations of each occurrence, in the order of the occurrences. It
// also returns the alarms that were skipped for some of them, because a namespace is over
// its budget. An occurrence that was handled before for all receivers of an alarm is
// evaluated only if the alarm has a window.
func (m *matcher) match(ctx context.Context, occurrences []alarm.Occurrence, handled progress.Offsets) ([][]evaluation, []skipped, error) {
	reads, cancel := context.WithTimeout(ctx, batchReadTime)
	defer cancel()
	b := m.newBatch(reads, occurrences, handled)
	cluster := tenantsOf(occurrences, m.ofClusterAlarms, func(string) bool { return len(b.index.ClusterAlarms()) > 0 })
	own := tenantsOf(occurrences, m.ofAlarms, func(namespace string) bool { return len(b.index.AlarmsIn(namespace)) > 0 })
	err := runTenants(ctx, cluster, func(ctx context.Context, i int, meter *match.Meter) {
		b.evaluate(ctx, i, b.index.ClusterCandidates(&occurrences[i], m.namespaces, meter))
	})
	if err != nil {
		return nil, nil, err
	}
	err = runTenants(ctx, own, func(ctx context.Context, i int, meter *match.Meter) {
		b.evaluate(ctx, i, b.index.NamespacedCandidates(&occurrences[i], meter))
	})
	var over []skipped
	for _, namespace := range m.ofClusterAlarms.charge(cluster) {
		over = append(over, skipped{b.index.ClusterAlarms(), &match.OverBudgetError{Kind: alarm.KindClusterAlarm, Namespace: namespace}})
	}
	for _, namespace := range m.ofAlarms.charge(own) {
		over = append(over, skipped{b.index.AlarmsIn(namespace), &match.OverBudgetError{Kind: alarm.KindAlarm, Namespace: namespace}})
	}
	return b.evaluations, over, err
}

// context returns what every alarm may know about an occurrence. A change contains its object. With
// named resources, it comes from Enricher.Named.
func (m *matcher) context(ctx context.Context, occ *alarm.Occurrence, named []alarm.Resource) (known alarm.Context, of alarm.Resource, ok bool) {
	switch {
	case len(named) > 0:
		return m.enricher.Named(ctx, &occ.Event, named)
	case occ.Change == nil:
		return m.enricher.Context(ctx, &occ.Event), of, true
	}
	known = m.enricher.Context(ctx, &alarm.Event{}) // which regards nothing: it reads no object
	known.Object, known.Resolved, known.ObjectUnread = occ.Change.Describe(), true, ""
	return known, of, true
}

// batch is a batch of occurrences that is being evaluated. Different occurrences can be
// evaluated at the same time.
type batch struct {
	occurrences []alarm.Occurrence
	handled     progress.Offsets
	index       *match.Index
	// recipientsOf and address are methods of the matcher.
	recipientsOf func(keys []string) []recipient
	address      func(e *evaluation, occ *alarm.Occurrence, known *alarm.Context)
	// context is a method of the matcher.
	context func(occ *alarm.Occurrence, named []alarm.Resource) (known alarm.Context, of alarm.Resource, ok bool)
	// known contains what is known about each occurrence.
	known       []contexts
	evaluations [][]evaluation
}

// contexts are what alarms know about an occurrence. Both are nil before they are needed.
type contexts struct {
	// all is the context for every alarm.
	all *alarm.Context
	// named has the object. Only alarms that name its resource may see it.
	named *namedContext
}

type namedContext struct {
	alarm.Context
	of alarm.Resource
}

// newBatch returns a batch. reads ends its reads.
func (m *matcher) newBatch(reads context.Context, occurrences []alarm.Occurrence, handled progress.Offsets) *batch {
	return &batch{
		occurrences: occurrences, handled: handled, index: m.alarms.Index(), recipientsOf: m.recipients, address: m.address,
		context: func(occ *alarm.Occurrence, named []alarm.Resource) (alarm.Context, alarm.Resource, bool) {
			return m.context(reads, occ, named)
		},
		known: make([]contexts, len(occurrences)), evaluations: make([][]evaluation, len(occurrences)),
	}
}

// evaluate adds the evaluations of an occurrence.
func (b *batch) evaluate(ctx context.Context, i int, candidates []match.Candidate) {
	occ := &b.occurrences[i]
	for _, c := range candidates {
		// An occurrence that was handled before only restores the state of thresholds.
		if c.Alarm.Window() == 0 && b.handledBefore(c.Alarm, occ) {
			continue
		}
		known := b.knownTo(c.Alarm, i)
		e := evaluateOne(ctx, c, occ, known)
		b.address(&e, occ, known)
		e.replayed = occ.Position <= b.handled.Position
		if e.outcome != match.NotMatched || e.err != nil {
			b.evaluations[i] = append(b.evaluations[i], e)
		}
	}
}

// knownTo returns what an alarm may know about an occurrence. Alarms that name no resource share a
// context, and so do those that name the resource of the object: it is read once.
func (b *batch) knownTo(a *match.Alarm, i int) *alarm.Context {
	occ, known := &b.occurrences[i], &b.known[i]
	if resources := a.ReadObjects(); len(resources) > 0 && occ.Change == nil {
		if known.named != nil && slices.Contains(resources, known.named.of) {
			return &known.named.Context
		}
		if found, of, ok := b.context(occ, resources); ok {
			known.named = &namedContext{found, of}
			return &known.named.Context
		}
	}
	if known.all == nil {
		found, _, _ := b.context(occ, nil)
		known.all = &found
	}
	return known.all
}

func evaluateOne(ctx context.Context, c match.Candidate, occ *alarm.Occurrence, known *alarm.Context) evaluation {
	result := c.Match(ctx, known)
	e := evaluation{alarm: c.Alarm, outcome: result.Outcome, err: result.Err, unread: result.Unread, resolves: result.Resolves}
	if e.outcome != match.Matched {
		return e
	}
	if result.Note != "" {
		c = c.WithNote(result.Note)
	}
	var err error
	e.message, err = c.Render(ctx, known)
	if g := c.Alarm.Grouping(); g != nil {
		e.by, e.lacks = g.Values(&occ.Event, &known.Object), g.Lacks(&occ.Event, &known.Object)
	}
	if e.err == nil {
		e.err = err
	}
	return e
}

// handledBefore reports whether the occurrence was handled for all receivers that the alarm can
// have. The first of them mostly decides.
func (b *batch) handledBefore(a *match.Alarm, occ *alarm.Occurrence) bool {
	exists := false
	for _, key := range a.AllReceivers() {
		for _, r := range b.recipientsOf([]string{key}) {
			if !r.covered(b.handled, r.entryKey(a.UID, occ), occ) {
				return false
			}
			exists = true
		}
	}
	return exists || occ.Position <= b.handled.Position
}
