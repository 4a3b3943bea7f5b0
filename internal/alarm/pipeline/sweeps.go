package pipeline

import (
	"maps"
	"sync"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/match"
)

// sweeps remembers what must be evaluated without a change of an object.
type sweeps struct {
	mu sync.Mutex
	// todo is what must be evaluated, by stream. wake has a value if something of it can be that
	// could not be before.
	todo map[string]*todo
	wake chan struct{}
	// planned is when the next sweep begins, zero while one runs.
	planned time.Time

	// The following belong to the goroutine of followStates.

	// seen are the states of each stream in the last sweep, nil before the first one, and inactive the
	// alarms that were inactive. fresh are states that were not evaluated for all objects since they
	// are active.
	seen     map[string][]*match.State
	inactive []string
	fresh    map[*match.State]bool
	// calm is when the next changes of alarms are considered.
	calm time.Time
	// ticked is when states that use the present time were evaluated, and ticks is how often.
	ticked time.Time
	ticks  int
	// over is the stream that used up budgets first in the last sweep that did.
	over string
	// due is up to when states were evaluated that can be reported.
	due time.Time
	// swept is the time of the last sweep, by the clock as it was set then.
	swept time.Time
}

// todo is what must be evaluated of a stream.
type todo struct {
	// whole are states of all objects. tenants are passes that are not complete. They continue at a
	// time.
	whole   stateSet
	tenants map[tenantID]pass
	at      time.Time
	// full are tenants with a state that had no space. unread: labels of a namespace or the number
	// of Nodes were not known. Both are considered at the next tick.
	full   map[tenantID]bool
	unread bool
}

func newSweeps() *sweeps {
	return &sweeps{todo: map[string]*todo{}, fresh: map[*match.State]bool{}, wake: make(chan struct{}, 1)}
}

// of returns what must be evaluated of a stream. The caller holds s.mu.
func (s *sweeps) of(stream string) *todo {
	if s.todo[stream] == nil {
		s.todo[stream] = &todo{tenants: map[tenantID]pass{}, full: map[tenantID]bool{}}
	}
	return s.todo[stream]
}

// addWhole adds states of all objects.
func (s *sweeps) addWhole(stream string, states stateSet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(stream).whole |= states
}

// add adds passes that continue at a time, or with those that are there.
func (s *sweeps) add(stream string, tenants map[tenantID]pass, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.of(stream)
	if len(t.tenants) == 0 {
		t.at = at
	}
	for tenant, p := range tenants {
		if before, ok := t.tenants[tenant]; ok {
			p = p.merge(before)
		}
		t.tenants[tenant] = p
	}
}

// addChanged adds tenants with an object that changed, whose budget is exhausted.
func (s *sweeps) addChanged(stream string, tenants map[tenantID]place, now time.Time) {
	if len(tenants) == 0 {
		return
	}
	passes := map[tenantID]pass{}
	for tenant := range tenants {
		passes[tenant] = pass{states: allStates, since: now}
	}
	s.add(stream, passes, now.Add(retryLeft))
	s.notify()
}

// addUnknown adds what is considered at the next tick.
func (s *sweeps) addUnknown(stream string, full map[tenantID]bool, unread bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.of(stream)
	maps.Copy(t.full, full)
	t.unread = t.unread || unread
}

// takeUnknown returns and removes what is considered at a tick.
func (s *sweeps) takeUnknown(stream string) (full map[tenantID]bool, unread bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.of(stream)
	full, unread = t.full, t.unread
	t.full, t.unread = map[tenantID]bool{}, false
	return full, unread
}

// isPending reports whether a pass of a tenant waits.
func (s *sweeps) isPending(stream string, tenant tenantID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.of(stream).tenants[tenant]
	return ok
}

// current wakes the sweep if it waited for the stream.
func (s *sweeps) current(stream string, now time.Time) {
	s.mu.Lock()
	waits := s.of(stream).isDue(now)
	s.mu.Unlock()
	if waits {
		s.notify()
	}
}

// plan records when the next sweep begins, or that one runs if at is zero.
func (s *sweeps) plan(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.planned = at
}

// dueAt wakes the sweep for a state that can be reported before the next one begins.
func (s *sweeps) dueAt(due time.Time) {
	s.mu.Lock()
	late := s.planned.IsZero() || due.Before(s.planned)
	s.mu.Unlock()
	if late {
		s.notify()
	}
}

func (s *sweeps) notify() {
	select {
	case s.wake <- struct{}{}:
	default: // already notified
	}
}

// isDue reports whether something must be evaluated now.
func (t *todo) isDue(now time.Time) bool {
	return t.whole != 0 || len(t.tenants) > 0 && !now.Before(t.at)
}

// take returns and removes what must be evaluated now.
func (s *sweeps) take(stream string, now time.Time) (whole stateSet, tenants map[tenantID]pass) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.of(stream)
	if !t.isDue(now) {
		return 0, nil
	}
	whole, tenants = t.whole, t.tenants
	t.whole, t.tenants = 0, map[tenantID]pass{}
	return whole, tenants
}

// late returns the tenants whose pass has taken long.
func (s *sweeps) late(stream string, now time.Time) (late []tenantID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for tenant, p := range s.of(stream).tenants {
		if now.Sub(p.since) >= lateAfter {
			late = append(late, tenant)
		}
	}
	return late
}

// excuse makes passes begin now that could not continue. Their alarms are not the cause.
func (s *sweeps) excuse(stream string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tenants := s.of(stream).tenants
	for tenant, p := range tenants {
		p.since, p.againSince = now, now
		tenants[tenant] = p
	}
}

// next returns the first time after now at which a pass continues, or the zero time.
func (s *sweeps) next(now time.Time) (next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.todo {
		if len(t.tenants) > 0 && t.at.After(now) && (next.IsZero() || t.at.Before(next)) {
			next = t.at
		}
	}
	return next
}

// evaluated forgets that states are new.
func (s *sweeps) evaluated(states []*match.State) {
	for _, state := range states {
		delete(s.fresh, state)
	}
}

// noteFresh adds the states that were not seen before.
func (s *sweeps) noteFresh(all, seen []*match.State) {
	known := map[*match.State]bool{}
	for _, state := range seen {
		known[state] = true
	}
	for _, state := range all {
		if !known[state] {
			s.fresh[state] = true
		}
	}
}
