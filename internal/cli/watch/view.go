package watch

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
)

// view tells a part of an object's state in words that people use, instead of
// field by field.
type view struct {
	covers []pattern
	// facts returns none of an object that has nothing to view.
	facts func(object map[string]any) []fact
}

// fact is something that is so.
type fact struct {
	what  string
	value any
	note  string
}

// allViews are told in this order.
var allViews = []view{lifecycle, readiness, containers, conditions}

// viewed are the views of two states of an object.
type viewed []struct {
	view
	from, to []fact
}

func viewsOf(from, to map[string]any) viewed {
	all := make(viewed, len(allViews))
	for i, v := range allViews {
		all[i].view, all[i].from, all[i].to = v, v.facts(from), v.facts(to)
	}
	return all
}

// cover says whether what is to be said of a place is said by a view.
func (all viewed) cover(at path) bool {
	for _, v := range all {
		if len(v.from)+len(v.to) > 0 && slices.ContainsFunc(v.covers, func(p pattern) bool { _, ok := p.match(at); return ok }) {
			return true
		}
	}
	return false
}

func (all viewed) differences() []Difference {
	var found []Difference
	for _, v := range all {
		found = append(found, differencesOfFacts(v.from, v.to)...)
	}
	return found
}

func differencesOfFacts(from, to []fact) []Difference {
	former, present := byWhat(from), byWhat(to)
	var all []Difference
	for _, f := range to {
		if was := former[f.what]; was != f {
			all = append(all, Difference{What: f.what, From: was.value, To: f.value, Note: f.note})
		}
	}
	gone := sets.KeySet(former).Difference(sets.KeySet(present))
	for _, what := range slices.Sorted(maps.Keys(gone)) {
		all = append(all, Difference{What: what, From: former[what].value})
	}
	return all
}

func byWhat(facts []fact) map[string]fact {
	all := make(map[string]fact, len(facts))
	for _, f := range facts {
		all[f.what] = f
	}
	return all
}

// field returns a field of an object, nil if there is none.
func field(object map[string]any, at ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(object, at...) // a wrong type is no field
	return value
}

func text(object map[string]any, at ...string) string {
	s, _ := field(object, at...).(string)
	return s
}

func number(object map[string]any, at ...string) int64 {
	n, _ := field(object, at...).(int64)
	return n
}

func list(object map[string]any, at ...string) []any {
	l, _ := field(object, at...).([]any)
	return l
}
