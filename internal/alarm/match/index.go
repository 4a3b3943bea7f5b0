package match

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

// Namespaces tells the labels of a namespace; false if there is none of that name.
type Namespaces interface {
	Labels(namespace string) (map[string]string, bool)
}

// Index finds the alarms that an occurrence may match in a time that does not
// grow with the number of those that it can not. It is immutable and safe for
// concurrent use.
type Index struct {
	alarms     []*Alarm
	cluster    scope
	namespaced map[string]*scope
}

// scope holds the entries of one namespace's Alarms, or of all ClusterAlarms. An
// entry stands under each of its reasons, or else under each of its kinds, or
// else under any: never in two of them, and at most once in a list. (Pairs of
// reason and kind would be 2,048 places for an entry that names all it may.)
type scope struct {
	byReason map[string][]posting
	byKind   map[string][]posting
	any      []posting
	alarms   []*Alarm
}

// posting is one entry: positions in Index.alarms and Alarm.entries.
type posting struct {
	alarm, entry int32
}

// NewIndex returns an index of those of the alarms that are not suspended.
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
			continue // the key is given twice
		}
		lists[key] = append(list, p)
	}
}

// Own returns the Alarms of a namespace that are not suspended.
func (ix *Index) AlarmsIn(namespace string) []*Alarm {
	if s, ok := ix.namespaced[namespace]; ok {
		return s.alarms
	}
	return nil
}

// Candidates returns the alarms that match as far as can be told without the
// object that the occurrence regards, each once, in the order in which the index
// was given them. It allocates nothing if there are none. The labels of a
// namespace are asked for only where a namespaceSelector depends on them.
//
// What the Alarms of the occurrence's own namespace cost is spent of meter; once
// that is exhausted, here or in Match, the rest of them are left out.
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

// search is one run of Candidates.
type search struct {
	index      *Index
	occ        *alarm.Occurrence
	namespaces Namespaces
	found      []posting
	// meter is of the alarms that are looked through.
	meter *Meter

	labels        labels.Set // of the regarding object's namespace, once asked for
	asked, exists bool
}

func (s *search) searchScope(sc *scope) {
	s.searchPostings(sc.byReason[s.occ.Event.Reason])
	s.searchPostings(sc.byKind[s.occ.Event.Regarding.Kind])
	s.searchPostings(sc.any)
}

// stepsPerUnit is how many steps of a glob take as long as a unit of CEL's cost.
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

// selected tells whether a namespaceSelector selects the namespace of the
// regarding object.
func (s *search) selected(selector labels.Selector) bool {
	if selector == nil {
		return true
	}
	if !s.asked {
		s.labels, s.exists = s.namespaces.Labels(s.occ.Event.Regarding.Namespace)
		s.asked = true
	}
	return s.exists && selector.Matches(s.labels)
}

// candidates gathers what was found by alarm. meter is of the namespaced ones.
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
