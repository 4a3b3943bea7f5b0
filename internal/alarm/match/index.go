package match

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
)

// Index finds the alarms that an occurrence can match. The time does not depend on the
// number of other alarms. An Index is immutable and safe for concurrent use.
type Index struct {
	alarms     []*Alarm
	cluster    scope
	namespaced map[string]*scope
	// streams are those with states.
	streams map[string]bool
}

// scope contains the entries of the Alarms of one namespace, or of all ClusterAlarms. An
// entry is listed under each of its reasons. An entry without reasons is listed under
// each of its kinds, and one without kinds under any. It is at most once in a list. Pairs
// of reason and kind would need up to 2,048 lists for one entry.
type scope struct {
	byReason map[string][]posting
	byKind   map[string][]posting
	any      []posting
	// byStream contains the entries of spec.changes, by the stream of their resource, and
	// states those of spec.states.
	byStream map[string][]posting
	states   map[string][]*State
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
		streams:    map[string]bool{},
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
		for _, state := range a.states {
			stream := state.Resource.Stream()
			s.states[stream] = append(s.states[stream], state)
			ix.streams[stream] = true
		}
	}
	return ix
}

func newScope() scope {
	return scope{byReason: map[string][]posting{}, byKind: map[string][]posting{}, byStream: map[string][]posting{}, states: map[string][]*State{}}
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
	case e.change != nil:
		addTo(s.byStream, []string{e.change.resource.Stream()}, p)
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

// ClusterAlarms returns the ClusterAlarms that are not suspended.
func (ix *Index) ClusterAlarms() []*Alarm { return ix.cluster.alarms }

// ClusterCandidates returns the ClusterAlarms that match as far as the Event shows. Each
// appears once, in the order of NewIndex. Without candidates, it allocates nothing. It
// reads namespace labels only if a namespaceSelector needs them.
//
// meter counts the cost. When it is exhausted, here or in Match, the remaining alarms are
// skipped.
func (ix *Index) ClusterCandidates(occ *alarm.Occurrence, namespaces Namespaces, meter *Meter) []Candidate {
	s := search{index: ix, occ: occ, namespaces: namespaces, meter: meter}
	return s.candidates(&ix.cluster)
}

// NamespacedCandidates is like ClusterCandidates for the Alarms in the namespace of the
// Event.
func (ix *Index) NamespacedCandidates(occ *alarm.Occurrence, meter *Meter) []Candidate {
	namespace, trusted := TrustedNamespace(&occ.Event)
	own, ok := ix.namespaced[namespace]
	if !trusted || !ok {
		return nil
	}
	s := search{index: ix, occ: occ, meter: meter}
	return s.candidates(own)
}

// States returns the states of a stream that can hold for objects of a namespace. They are those
// of ClusterAlarms and of the Alarms in the namespace.
func (ix *Index) States(stream, namespace string) []*State {
	states := ix.cluster.states[stream]
	if s, ok := ix.namespaced[namespace]; ok && namespace != "" {
		return slices.Concat(states, s.states[stream])
	}
	return states
}

// HasStates reports whether an alarm has a state of a stream.
func (ix *Index) HasStates(stream string) bool { return ix.streams[stream] }

// StreamAlarms returns the alarms with changes or states of a stream that can select a namespace.
func (ix *Index) StreamAlarms(stream, namespace string, namespaces Namespaces) (alarms []*Alarm) {
	s := search{namespaces: namespaces, occ: &alarm.Occurrence{Event: alarm.Event{Regarding: alarm.Reference{Namespace: namespace}}}}
	hasChange := func(e entry) bool { return e.change != nil && e.change.resource.Stream() == stream }
	hasState := func(state *State) bool { return state.Resource.Stream() == stream }
	for _, a := range slices.Concat(ix.ClusterAlarms(), ix.AlarmsIn(namespace)) {
		if (slices.ContainsFunc(a.entries, hasChange) || slices.ContainsFunc(a.states, hasState)) && s.selected(a.namespaces) {
			alarms = append(alarms, a)
		}
	}
	return alarms
}

// search is one call of ClusterCandidates or NamespacedCandidates.
type search struct {
	index      *Index
	occ        *alarm.Occurrence
	namespaces Namespaces
	found      []posting
	meter      *Meter

	// labels of the regarding object's namespace; valid if labelsRead is true.
	labels             labels.Set
	labelsRead, exists bool
	unread             alarm.Unread
}

func (s *search) candidates(sc *scope) []Candidate {
	if change := s.occ.Change; change != nil {
		s.searchPostings(sc.byStream[change.Resource.Stream()])
		return s.group()
	}
	s.searchPostings(sc.byReason[s.occ.Event.Reason])
	s.searchPostings(sc.byKind[s.occ.Event.Regarding.Kind])
	s.searchPostings(sc.any)
	return s.group()
}

func (s *search) searchPostings(postings []posting) {
	for _, p := range postings {
		if s.meter.Exhausted() {
			return
		}
		a, steps := s.index.alarms[p.alarm], 0
		if a.inScope(s.occ) && a.entries[p.entry].accepts(s.occ, &steps) && s.selected(a.namespaces) {
			s.found = append(s.found, p)
		}
		s.meter.spend(int64(1 + steps/stepsPerUnit))
	}
}

// selected reports whether a namespaceSelector can select the namespace of the regarding
// object. It can if the labels of the namespace are unread.
func (s *search) selected(selector labels.Selector) bool {
	if selector == nil {
		return true
	}
	if !s.labelsRead {
		s.labels, s.exists, s.unread = s.namespaces.Labels(s.occ.Event.Regarding.Namespace)
		s.labelsRead = true
	}
	return s.unread != "" || s.exists && selector.Matches(s.labels)
}

// group returns the found entries as candidates, one for each alarm.
func (s *search) group() []Candidate {
	slices.SortFunc(s.found, func(a, b posting) int {
		return cmp.Or(cmp.Compare(a.alarm, b.alarm), cmp.Compare(a.entry, b.entry))
	})
	var candidates []Candidate
	for rest := s.found; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].alarm == rest[0].alarm {
			n++
		}
		c := Candidate{Alarm: s.index.alarms[rest[0].alarm], occ: s.occ, postings: rest[:n], meter: s.meter}
		if c.Alarm.namespaces != nil {
			c.unread = s.unread
		}
		candidates = append(candidates, c)
		rest = rest[n:]
	}
	return candidates
}

// Candidate is an alarm that matches an occurrence as far as the Event shows.
type Candidate struct {
	Alarm *Alarm

	occ      *alarm.Occurrence
	postings []posting // the entries that can match, in the order of the spec
	meter    *Meter    // nil: unlimited
	// unread says why it is unknown whether the alarm selects the namespace.
	unread alarm.Unread
}

// Match evaluates the alarm. One matching entry is enough. Otherwise, Undecided takes
// precedence over a failure, a failure over Unresolved, and Unresolved over NotMatched. If
// the budget is exhausted, the alarm is skipped and the result is zero.
func (c Candidate) Match(ctx context.Context, known *alarm.Context) Result {
	if c.meter.Exhausted() {
		return Result{}
	}
	if c.unread != "" {
		return Result{Outcome: Undecided, Unread: c.unread}
	}
	result := c.matchEntries(ctx, known)
	group := c.Alarm.group
	switch {
	case result.Outcome == Matched && group != nil && group.needsObject && known.ObjectUnread != "":
		return Result{Outcome: Undecided, Unread: known.ObjectUnread}
	case result.Outcome == Undecided:
		result.Err = nil // it is reported after the decision
	default:
		result.Unread = ""
	}
	return result
}

func (c Candidate) matchEntries(ctx context.Context, known *alarm.Context) (result Result) {
	for _, p := range c.postings {
		if c.meter.Exhausted() {
			return Result{}
		}
		vars := &variables{event: &c.occ.Event, change: c.occ.Change, context: known}
		r := c.Alarm.entries[p.entry].decide(ctx, vars)
		c.meter.spend(vars.cost)
		result.Outcome = max(result.Outcome, r.Outcome)
		if result.Err == nil {
			result.Err = r.Err
		}
		result.Unread = cmp.Or(result.Unread, r.Unread)
		if r.Outcome == Matched {
			result.Note = r.Note
		}
		resolves := c.Alarm.entries[p.entry].resolves
		if r.Outcome == Matched || resolves && r.Outcome == Undecided { // the entries of spec.resolve come first
			result.Resolves = resolves
			break
		}
	}
	return result
}

// WithNote returns the candidate for an occurrence with another note, that of a Result.
func (c Candidate) WithNote(note string) Candidate {
	occ := *c.occ
	occ.Event.Note = note
	c.occ = &occ
	return c
}

// Render is [Alarm.Render] for the candidate's occurrence.
func (c Candidate) Render(ctx context.Context, known *alarm.Context) (message.Message, error) {
	vars := &variables{event: &c.occ.Event, context: known}
	defer func() { c.meter.spend(vars.cost) }()
	return c.Alarm.render(ctx, c.occ, vars)
}

// CandidateOf returns an alarm as a candidate for the occurrence of a state, to render it.
func CandidateOf(a *Alarm, occ *alarm.Occurrence, meter *Meter) Candidate {
	return Candidate{Alarm: a, occ: occ, meter: meter}
}
