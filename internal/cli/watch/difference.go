package watch

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
)

// Difference is one thing that has changed about an object.
type Difference struct {
	// What has changed: "phase", "image app", or a path such as "spec.suspend".
	What string `json:"what"`
	// From and To are the former and the present value, nil where there is none.
	// They are equal when it is Note that has changed.
	From any `json:"from,omitempty"`
	To   any `json:"to,omitempty"`
	// Note says more of the present value, or how something has changed that may
	// not be shown.
	Note string `json:"note,omitempty"`
}

// Differences returns what has changed from one state of an object to the next,
// what matters most first. Bookkeeping is told only if nothing else has changed,
// and the resourceVersion never.
func Differences(from, to *Object) []Difference {
	var ranks [rankCount][]Difference
	views := viewsOf(from.Object, to.Object)
	ranks[rankView] = views.differences()
	for _, p := range places(from.Object, to.Object) {
		rank, what := rankBookkeeping, p.at.String()
		if !views.cover(p.at) {
			rank, what = classify(p.at)
		}
		ranks[rank] = append(ranks[rank], Difference{What: what, From: p.from, To: p.to})
	}
	ranks[rankHidden] = differencesOfHidden(from.hidden, to.hidden)
	if told := slices.Concat(ranks[:rankBookkeeping]...); len(told) > 0 {
		return told
	}
	return ranks[rankBookkeeping]
}

// How something may have changed that is not shown.
const (
	wasAdded   = "added"
	wasChanged = "changed"
	wasRemoved = "removed"
)

func differencesOfHidden(from, to map[string]digest) []Difference {
	var all []Difference
	for _, name := range slices.Sorted(maps.Keys(sets.KeySet(from).Union(sets.KeySet(to)))) {
		former, had := from[name]
		present, has := to[name]
		switch {
		case !had:
			all = append(all, Difference{What: name, Note: wasAdded})
		case !has:
			all = append(all, Difference{What: name, Note: wasRemoved})
		case former != present:
			all = append(all, Difference{What: name, Note: wasChanged})
		}
	}
	return all
}
