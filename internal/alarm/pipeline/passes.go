package pipeline

import (
	"slices"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// tenantID identifies states with a common budget: those of a kind of alarms for the objects of a
// namespace.
type tenantID struct{ kind, namespace string }

func tenantOf(s *match.State, namespace string) tenantID { return tenantID{s.Alarm.ID.Kind, namespace} }

// stateSet is a set of states.
type stateSet uint8

const (
	// usingNow are the states that use the present time.
	usingNow stateSet = 1 << iota
	// usingOthers are those that depend on the labels of a namespace, or on the number of Nodes.
	usingOthers
	// newStates are those in sweeps.fresh.
	newStates
	// allStates are all.
	allStates
)

// later returns what a stateSet is after a walk: states are new only once.
func (s stateSet) later() stateSet {
	if s&newStates != 0 {
		return allStates
	}
	return s
}

// place is where an evaluation continues: at a state of an object. The zero place is the begin.
type place struct {
	// object is the ID of the baseline. state is nil for the first state.
	object int64
	state  *match.State
}

// pass is an evaluation of the objects of a tenant that is not complete.
type pass struct {
	states stateSet
	place  place
	since  time.Time
	// again are states that must be evaluated for all objects when the pass is complete, and
	// againSince is the oldest time of those.
	again      stateSet
	againSince time.Time
}

// merge returns a pass that evaluates what two passes do. It continues at the later place, so that
// no object waits for ever.
func (p pass) merge(other pass) pass {
	if other.place.object > p.place.object {
		p, other = other, p
	}
	p.states |= other.states
	if other.place != p.place {
		p = p.repeat(other.states, other.since)
	}
	p = p.repeat(other.again, other.againSince)
	if other.since.Before(p.since) {
		p.since = other.since
	}
	return p
}

// repeat returns a pass after which states are evaluated for all objects.
func (p pass) repeat(states stateSet, since time.Time) pass {
	if states != 0 && (p.again == 0 || since.Before(p.againSince)) {
		p.againSince = since
	}
	p.again |= states
	return p
}

// walk is one evaluation of the objects of a stream, in the order of their IDs.
type walk struct {
	// whole are the states that are evaluated for all objects. fresh are new ones.
	whole stateSet
	fresh map[*match.State]bool
	// tenants are passes that continue. left are those whose budget was exhausted in this walk.
	tenants, left map[tenantID]pass
}

// newWalk returns a walk that evaluates states of all objects, and continues passes.
func newWalk(whole stateSet, tenants map[tenantID]pass, fresh map[*match.State]bool, now time.Time) *walk {
	w := &walk{whole: whole, fresh: fresh, tenants: map[tenantID]pass{}, left: map[tenantID]pass{}}
	for tenant, p := range tenants {
		if whole != 0 {
			p = p.merge(pass{states: whole, since: now})
		}
		w.tenants[tenant] = p
	}
	return w
}

// passOf returns the pass of a tenant. It evaluates nothing if the budget was exhausted before.
func (w *walk) passOf(tenant tenantID) pass {
	if _, ok := w.left[tenant]; ok {
		return pass{}
	}
	if p, ok := w.tenants[tenant]; ok {
		return p
	}
	return pass{states: w.whole}
}

// rest returns where the next page begins after an ID, and its namespaces, nil for all. It is false
// if all budgets are exhausted.
func (w *walk) rest(after int64) (int64, []string, bool) {
	if w.whole != 0 {
		return after, nil, true
	}
	first, namespaces := int64(-1), []string(nil)
	for tenant, p := range w.tenants {
		if _, ok := w.left[tenant]; !ok {
			namespaces = append(namespaces, tenant.namespace)
			if before := max(p.place.object-1, 0); first < 0 || before < first {
				first = before
			}
		}
	}
	return max(first, after), namespaces, len(namespaces) > 0
}

// selected returns the states of an object that are evaluated.
func (w *walk) selected(states []*match.State, b *outbox.Baseline) (all []*match.State) {
	own, cluster := w.passOf(tenantID{alarm.KindAlarm, b.Namespace}), w.passOf(tenantID{alarm.KindClusterAlarm, b.Namespace})
	for _, s := range states {
		p := own
		if s.Alarm.ID.Kind == alarm.KindClusterAlarm {
			p = cluster
		}
		if b.ID < p.place.object || !w.includes(p.states, s) {
			continue
		}
		if s == p.place.state && b.ID == p.place.object { // the ones before it are done
			all = slices.DeleteFunc(all, func(o *match.State) bool { return o.Alarm.ID.Kind == s.Alarm.ID.Kind })
		}
		all = append(all, s)
	}
	return all
}

func (w *walk) includes(states stateSet, s *match.State) bool {
	return states&allStates != 0 || states&usingNow != 0 && s.UsesNow ||
		states&usingOthers != 0 && s.UsesOthers() || states&newStates != 0 && w.fresh[s]
}

// leave adds tenants whose budget is exhausted.
func (w *walk) leave(tenants map[tenantID]place, now time.Time) {
	for tenant, at := range tenants {
		p := w.passOf(tenant)
		if p.place = at; p.since.IsZero() {
			p.since = now
		}
		p.states, p.again = p.states.later(), p.again.later()
		w.left[tenant] = p
	}
}

// unfinished returns the passes that must continue after the walk.
func (w *walk) unfinished() map[tenantID]pass {
	for tenant, p := range w.tenants {
		if _, ok := w.left[tenant]; !ok && p.again != 0 {
			w.left[tenant] = pass{states: p.again.later(), since: p.againSince}
		}
	}
	return w.left
}
