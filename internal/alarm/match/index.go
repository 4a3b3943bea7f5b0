package match

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
)

// Namespaces returns the labels of a namespace, or false if it does not exist.
type Namespaces interface {
	Labels(namespace string) (map[string]string, bool)
}

// Index finds the alarms that an occurrence can match. The time does not depend on the
// number of other alarms. An Index is immutable and safe for concurrent use.
type Index struct {
	alarms     []*Alarm
	cluster    scope
	namespaced map[string]*scope
}

// scope contains the entries of the Alarms of one namespace, or of all ClusterAlarms. An
// entry is listed under each of its reasons. An entry without reasons is listed under
// each of its kinds, and one without kinds under any. It is at most once in a list. Pairs
// of reason and kind would need up to 2,048 lists for one entry.
type scope struct {
	byReason map[string][]posting
	byKind   map[string][]posting
	any      []posting
	alarms   []*Alarm
}

// posting is one entry, as indexes of Index.alarms and Alarm.entries.
type posting struct {
	alarm, entry int32
}

// NewIndex returns an index of the alarms that are not suspended.
func NewIndex(alarms []*Alarm) *Index {
	ix := &Index{
		alarms:     slices.Clone(alarms),
		cluster:    newScope(),
		namespaced: map[string]*scope{},
	}
	for i, a := range ix.alarms {
		if a.suspended {
			continue
		}
		s := ix.scopeOf(a)
		s.alarms = append(s.alarms, a)
		for j := range a.entries {
			s.add(&a.entries[j], posting{alarm: int32(i), entry: int32(j)})
		}
	}
	return ix
}

func newScope() scope {
	return scope{byReason: map[string][]posting{}, byKind: map[string][]posting{}}
}

func (ix *Index) scopeOf(a *Alarm) *scope {
	if a.ID.Kind == alarm.KindClusterAlarm {
		return &ix.cluster
	}
	s, ok := ix.namespaced[a.ID.Namespace]
	if !ok {
		created := newScope()
		s = &created
		ix.namespaced[a.ID.Namespace] = s
	}
	return s
}

func (s *scope) add(e *entry, p posting) {
	switch {
	case len(e.reasons) > 0:
		addTo(s.byReason, e.reasons, p)
	case len(e.kinds) > 0:
		addTo(s.byKind, e.kinds, p)
	default:
		s.any = append(s.any, p)
	}
}

func addTo(lists map[string][]posting, keys []string, p posting) {
	for _, key := range keys {
		list := lists[key]
		if n := len(list); n > 0 && list[n-1] == p {
			continue // a duplicate key
		}
		lists[key] = append(list, p)
	}
}

// AlarmsIn returns the Alarms of a namespace that are not suspended.
func (ix *Index) AlarmsIn(namespace string) []*Alarm {
	if s, ok := ix.namespaced[namespace]; ok {
		return s.alarms
	}
	return nil
}

// Candidates returns the alarms that match as far as the Event shows. Each alarm appears
// once, in the order of NewIndex. Without candidates, it allocates nothing. It reads
// namespace labels only if a namespaceSelector needs them.
//
// meter counts the cost of the Alarms in the occurrence's namespace. When it is
// exhausted, here or in Match, the remaining ones are skipped.
func (ix *Index) Candidates(occ *alarm.Occurrence, namespaces Namespaces, meter *Meter) []Candidate {
	s := search{index: ix, occ: occ, namespaces: namespaces}
	s.searchScope(&ix.cluster)
	if namespace, trusted := trustedNamespace(&occ.Event); trusted {
		if own, ok := ix.namespaced[namespace]; ok {
			s.meter = meter
			s.searchScope(own)
		}
	}
	return s.group(meter)
}

// search is one call of Candidates.
type search struct {
	index      *Index
	occ        *alarm.Occurrence
	namespaces Namespaces
	found      []posting
	// meter counts the cost of the current scope.
	meter *Meter

	// labels of the regarding object's namespace; valid if labelsRead is true.
	labels             labels.Set
	labelsRead, exists bool
}

func (s *search) searchScope(sc *scope) {
	s.searchPostings(sc.byReason[s.occ.Event.Reason])
	s.searchPostings(sc.byKind[s.occ.Event.Regarding.Kind])
	s.searchPostings(sc.any)
}

// stepsPerUnit is the number of glob steps that take as long as one CEL cost unit.
const stepsPerUnit = 32

func (s *search) searchPostings(postings []posting) {
	for _, p := range postings {
		if s.meter.Exhausted() {
			return
		}
		a, steps := s.index.alarms[p.alarm], 0
		if a.inScope(s.occ) && a.entries[p.entry].accepts(&s.occ.Event, &steps) && s.selected(a.namespaces) {
			s.found = append(s.found, p)
		}
		s.meter.spend(int64(1 + steps/stepsPerUnit))
	}
}

// selected reports whether a namespaceSelector selects the namespace of the regarding
// object.
func (s *search) selected(selector labels.Selector) bool {
	if selector == nil {
		return true
	}
	if !s.labelsRead {
		s.labels, s.exists = s.namespaces.Labels(s.occ.Event.Regarding.Namespace)
		s.labelsRead = true
	}
	return s.exists && selector.Matches(s.labels)
}

// group returns the found entries as candidates, one for each alarm. meter counts the
// cost of Alarms.
func (s *search) group(meter *Meter) []Candidate {
	slices.SortFunc(s.found, func(a, b posting) int {
		return cmp.Or(cmp.Compare(a.alarm, b.alarm), cmp.Compare(a.entry, b.entry))
	})
	var candidates []Candidate
	for rest := s.found; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].alarm == rest[0].alarm {
			n++
		}
		c := Candidate{Alarm: s.index.alarms[rest[0].alarm], occ: s.occ, postings: rest[:n]}
		if c.Alarm.ID.Kind == alarm.KindAlarm {
			c.meter = meter
		}
		candidates = append(candidates, c)
		rest = rest[n:]
	}
	return candidates
}

// Outcome is the result of evaluating an alarm for an occurrence.
type Outcome int

const (
	// NotMatched: the alarm does not match the occurrence.
	NotMatched Outcome = iota
	// Unresolved: the alarm needs an object that is gone.
	Unresolved
	// Failed: an expression failed; see Result.Err.
	Failed
	// Matched: the alarm matches the occurrence.
	Matched
)

// Result is the outcome of one alarm for one occurrence.
type Result struct {
	Outcome Outcome
	// Err is the first runtime failure of an expression. It names the field. It can be
	// set together with Matched, if another entry matched. If the context was cancelled,
	// Err wraps its cause and the outcome means nothing.
	Err error
}

// Candidate is an alarm that matches an occurrence as far as the Event shows.
type Candidate struct {
	Alarm *Alarm

	occ      *alarm.Occurrence
	postings []posting // the entries that can match, in the order of the spec
	meter    *Meter    // nil: unlimited
}

// NeedsContext reports whether Match needs more than the Event. If it does not, you can
// pass an empty Context to Match.
func (c Candidate) NeedsContext() bool {
	for _, p := range c.postings {
		if c.Alarm.entries[p.entry].needsContext() {
			return true
		}
	}
	return false
}

// Match evaluates the alarm. One matching entry is enough. Otherwise, a failure takes
// precedence over Unresolved, and Unresolved over NotMatched. If the budget is exhausted,
// the alarm is skipped and the result is zero.
func (c Candidate) Match(ctx context.Context, known *alarm.Context) Result {
	var result Result
	if c.meter.Exhausted() {
		return result
	}
	vars := &variables{event: &c.occ.Event, context: known}
	defer func() { c.meter.spend(vars.cost) }()
	for _, p := range c.postings {
		r := c.Alarm.entries[p.entry].evaluate(ctx, vars)
		result.Outcome = max(result.Outcome, r.Outcome)
		if result.Err == nil {
			result.Err = r.Err
		}
		if r.Outcome == Matched {
			break
		}
	}
	return result
}

// Render is [Alarm.Render] for the candidate's occurrence.
func (c Candidate) Render(ctx context.Context, known *alarm.Context) (message.Message, error) {
	vars := &variables{event: &c.occ.Event, context: known}
	defer func() { c.meter.spend(vars.cost) }()
	return c.Alarm.render(ctx, c.occ, vars)
}

// ErrOverBudget reports that some Events were not evaluated for the Alarms of a
// namespace, because these Alarms are too expensive together.
var ErrOverBudget = errors.New("some Events were not evaluated, because the Alarms of this namespace are too expensive together: " +
	"simplify their expressions and globs, or name kinds and reasons")

// Meter limits the cost of the Alarms of one namespace, so that they cannot delay the
// alarms of others. The unit is CEL's cost unit, some tens of nanoseconds. A nil Meter is
// unlimited. A Meter is safe for concurrent use.
type Meter struct {
	spent atomic.Int64
	limit int64
}

// NewMeter returns a Meter with this limit.
func NewMeter(limit int64) *Meter { return &Meter{limit: limit} }

// Spent returns the cost so far. It can exceed the limit a little.
func (m *Meter) Spent() int64 { return m.spent.Load() }

// Exhausted reports whether the limit is reached.
func (m *Meter) Exhausted() bool { return m != nil && m.spent.Load() >= m.limit }

func (m *Meter) spend(cost int64) {
	if m != nil {
		m.spent.Add(cost)
	}
}
