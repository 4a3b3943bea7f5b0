package pipeline

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

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
	// changed is closed at the next change.
	changed chan struct{}
	byUID   map[string]*match.Alarm // as old as index
	// held are the UIDs of alarms that exist and cannot be active now, by key.
	held map[string]string
}

// activeAlarm is a compiled alarm and its version.
type activeAlarm struct {
	version  string
	compiled *match.Alarm
}

// NewAlarms returns an empty set.
func NewAlarms() *Alarms {
	return &Alarms{byKey: map[string]activeAlarm{}, held: map[string]string{}, changed: make(chan struct{})}
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
	delete(a.held, key)
	a.index = nil
	a.notifyChanged()
}

// Delete removes an alarm.
func (a *Alarms) Delete(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.remove(key, "")
}

// Hold removes an alarm that exists and cannot be active now. Its states that were reported are
// kept. If uid is empty, the alarm is the active one with the key.
func (a *Alarms) Hold(key, uid string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if active, ok := a.byKey[key]; ok && uid == "" {
		uid = active.compiled.UID
	}
	a.remove(key, cmp.Or(uid, a.held[key]))
}

// remove removes an alarm, and holds the UID if it is not empty. The caller holds a.mu.
func (a *Alarms) remove(key, held string) {
	_, active := a.byKey[key]
	if !active && a.held[key] == held {
		return
	}
	delete(a.byKey, key)
	delete(a.held, key)
	if held != "" {
		a.held[key] = held
	}
	a.index = nil
	a.notifyChanged()
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
	a.build()
	return a.index
}

// withUID returns the active alarm with a UID, or nil. The alarm exists also if it is held.
func (a *Alarms) withUID(uid string) (active *match.Alarm, exists bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.build()
	active, exists = a.byUID[uid]
	return active, exists
}

// build builds the indexes after a change.
func (a *Alarms) build() {
	if a.index == nil {
		a.byUID = make(map[string]*match.Alarm, len(a.byKey))
		for _, uid := range a.held {
			a.byUID[uid] = nil
		}
		compiled := make([]*match.Alarm, 0, len(a.byKey))
		for _, key := range slices.Sorted(maps.Keys(a.byKey)) {
			active := a.byKey[key].compiled
			compiled = append(compiled, active)
			a.byUID[active.UID] = active
		}
		a.index = match.NewIndex(compiled)
	}
}

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

// evaluation is the result of one alarm for one occurrence.
type evaluation struct {
	alarm *match.Alarm
	// recipients are the receivers of the occurrence.
	recipients []recipient
	// route is that of the alarm, nil if no label chooses receivers. noReceiver is set if a label
	// that exists chooses none.
	route      *match.Route
	noReceiver *match.NoReceiverError
	outcome    match.Outcome
	err        error
	// unread says why the outcome is Undecided, if the alarm itself decides so.
	unread  alarm.Unread
	message message.Message
	// resolves: the occurrence only resolves its group. It is not counted.
	resolves bool
	// lasts: it is about a state, whose group stays open until it ends. handled are the delivered
	// offsets of the occurrence if they differ from those of the batch.
	lasts   bool
	handled *outbox.DeliveredOffsets
	// by contains the values of the occurrence's group, if the alarm has groups. lacks is a key of
	// spec.group.by that the object does not have.
	by    []alarm.GroupValue
	lacks string
	// budget names the space of the entries and of the state. stateless: the outbox has no
	// space for the state. The occurrence is then in no group, and the threshold counts only
	// occurrences of the same batch.
	budget    string
	stateless bool
	// suppressed says why the occurrence is not sent; empty if it is.
	suppressed Suppression
	// replayed: an earlier process evaluated the occurrence, and counted it. A replay reads it
	// again because of one receiver that is behind, or because of a threshold.
	replayed bool
	// parked: the outcome is Undecided, and the occurrence is evaluated again later.
	parked bool
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
	// identify, repeats and namespaceLabels are those of Config.
	identify        func(key string) (id string, since time.Time)
	repeats         func(id string) bool
	namespaceLabels func(id string) []string
}

// recipient is a receiver of an alarm.
type recipient struct {
	key, id string
	// since is when the receiver was created, zero if that does not matter.
	since time.Time
	// onlyEnd: it has the group open, and gets the occurrence only to resolve it.
	onlyEnd bool
}

// identified returns the receivers with these keys that exist. Nothing waits for others.
func (m *matcher) identified(keys []string) []recipient {
	all := make([]recipient, 0, len(keys))
	for _, key := range keys {
		if id, since := m.identify(key); id != "" {
			all = append(all, recipient{key: key, id: id, since: since})
		}
	}
	return all
}

// entryKey returns the key of the entry about an occurrence.
func (r *recipient) entryKey(alarmUID string, occ *alarm.Occurrence) string {
	return alarm.Key(r.key, alarmUID, occ)
}

// handled reports whether the receiver needs no entry about an occurrence: it was handled
// before, or it is for a former receiver.
func (r *recipient) handled(before outbox.DeliveredOffsets, entryKey string, occ *alarm.Occurrence) bool {
	return r.isForFormer(occ) || r.covered(before, entryKey, occ)
}

// covered reports whether an earlier process handled an occurrence.
func (r *recipient) covered(before outbox.DeliveredOffsets, entryKey string, occ *alarm.Occurrence) bool {
	return before.Covers(entryKey, occ.Position, r.id)
}

// isForFormer reports whether an occurrence happened before the receiver was created.
func (r *recipient) isForFormer(occ *alarm.Occurrence) bool { return occ.ObservedAt.Before(r.since) }

func newMatcher(alarms *Alarms, namespaces match.Namespaces, enricher Enricher, clk clock.PassiveClock) *matcher {
	return &matcher{
		identify: func(key string) (string, time.Time) { return key, time.Time{} },
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

// skipped are alarms that were not evaluated for all occurrences of a batch.
type skipped struct {
	alarms []*match.Alarm
	why    *match.OverBudgetError
}

// match returns the evaluations of each occurrence, in the order of the occurrences. It
// also returns the alarms that were skipped for some of them, because a namespace is over
// its budget. An occurrence that was handled before for all receivers of an alarm is
// evaluated only if the alarm has a window.
func (m *matcher) match(ctx context.Context, occurrences []alarm.Occurrence, handled outbox.DeliveredOffsets) ([][]evaluation, []skipped, error) {
	reads, cancel := context.WithTimeout(ctx, batchReadTime)
	defer cancel()
	b := m.newBatch(reads, occurrences, handled)
	cluster := lanesOf(occurrences, m.ofClusterAlarms, func(string) bool { return len(b.index.ClusterAlarms()) > 0 })
	own := lanesOf(occurrences, m.ofAlarms, func(namespace string) bool { return len(b.index.AlarmsIn(namespace)) > 0 })
	err := runLanes(ctx, cluster, func(ctx context.Context, i int, meter *match.Meter) {
		b.evaluate(ctx, i, b.index.ClusterCandidates(&occurrences[i], m.namespaces, meter))
	})
	if err != nil {
		return nil, nil, err
	}
	err = runLanes(ctx, own, func(ctx context.Context, i int, meter *match.Meter) {
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
// named resources, it is that of Enricher.Named.
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
	handled     outbox.DeliveredOffsets
	index       *match.Index
	// identified and address are those of the matcher.
	identified func(keys []string) []recipient
	address    func(e *evaluation, occ *alarm.Occurrence, known *alarm.Context)
	// context is that of the matcher.
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
func (m *matcher) newBatch(reads context.Context, occurrences []alarm.Occurrence, handled outbox.DeliveredOffsets) *batch {
	return &batch{
		occurrences: occurrences, handled: handled, index: m.alarms.Index(), identified: m.identified, address: m.address,
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
		e.replayed = occ.Position <= b.handled.Default
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
		for _, r := range b.identified([]string{key}) {
			if !r.covered(b.handled, r.entryKey(a.UID, occ), occ) {
				return false
			}
			exists = true
		}
	}
	return exists || occ.Position <= b.handled.Default
}
