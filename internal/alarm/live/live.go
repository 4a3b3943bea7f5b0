// Package live remembers a value of each live object of a watch, by UID. A list of the objects
// finds those that no longer exist.
package live

import (
	"iter"
	"maps"
	"strings"

	"github.com/google/uuid"
)

// Set contains values by UID. The API server creates only UUIDs, which need 16 bytes instead of 52
// and have no pointers, which the garbage collector would follow. V should have none either, and
// no padding. The zero Set is empty. It is not safe for concurrent use.
type Set[V any] struct {
	byUUID map[uuid.UUID]member[V]
	// other contains UIDs that are not UUIDs in canonical form.
	other map[string]member[V]
	// most is the largest size of byUUID, whose memory does not shrink by itself.
	most int
}

// member is a value, and whether the present list contained it.
type member[V any] struct {
	value  V
	listed bool
}

// Get returns the value of an object.
func (s *Set[V]) Get(uid string) (value V, ok bool) {
	var m member[V]
	if id, isUUID := parse(uid); isUUID {
		m, ok = s.byUUID[id]
	} else {
		m, ok = s.other[uid]
	}
	return m.value, ok
}

// Set stores the value of an object, which counts as listed.
func (s *Set[V]) Set(uid string, value V) {
	m := member[V]{value: value, listed: true}
	if id, ok := parse(uid); ok {
		if s.byUUID == nil {
			s.byUUID = map[uuid.UUID]member[V]{}
		}
		s.byUUID[id] = m
		s.most = max(s.most, len(s.byUUID))
		return
	}
	if s.other == nil {
		s.other = map[string]member[V]{}
	}
	s.other[uid] = m
}

// List records that the present list contains an object, if the Set has it.
func (s *Set[V]) List(uid string) {
	if value, ok := s.Get(uid); ok {
		s.Set(uid, value)
	}
}

// Remove removes an object.
func (s *Set[V]) Remove(uid string) {
	if id, ok := parse(uid); ok {
		delete(s.byUUID, id)
		s.shrink()
		return
	}
	delete(s.other, uid)
}

// smallest is the number of UUIDs up to which their map never shrinks.
const smallest = 1000

// shrink copies a map with far fewer UUIDs than it had.
func (s *Set[V]) shrink() {
	if s.most <= smallest || len(s.byUUID) > s.most/4 {
		return
	}
	s.most = len(s.byUUID)
	byUUID := make(map[uuid.UUID]member[V], s.most)
	maps.Copy(byUUID, s.byUUID) // maps.Clone would keep the size
	s.byUUID = byUUID
}

// Len returns the number of objects.
func (s *Set[V]) Len() int { return len(s.byUUID) + len(s.other) }

// All returns all objects and their values, in any order.
func (s *Set[V]) All() iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for id, m := range s.byUUID {
			if !yield(id.String(), m.value) {
				return
			}
		}
		for uid, m := range s.other {
			if !yield(uid, m.value) {
				return
			}
		}
	}
}

// Replace replaces each value.
func (s *Set[V]) Replace(with func(V) V) {
	for id, m := range s.byUUID {
		m.value = with(m.value)
		s.byUUID[id] = m
	}
	for uid, m := range s.other {
		m.value = with(m.value)
		s.other[uid] = m
	}
}

// BeginList begins a list. No object is listed any more, also if an earlier list did not end.
func (s *Set[V]) BeginList() {
	for id, m := range s.byUUID {
		m.listed = false
		s.byUUID[id] = m
	}
	for uid, m := range s.other {
		m.listed = false
		s.other[uid] = m
	}
}

// Unlisted returns the objects that are not listed. Those that it has returned can be removed
// meanwhile.
func (s *Set[V]) Unlisted() iter.Seq[string] {
	return func(yield func(string) bool) {
		for id, m := range s.byUUID {
			if !m.listed && !yield(id.String()) {
				return
			}
		}
		for uid, m := range s.other {
			if !m.listed && !yield(uid) {
				return
			}
		}
	}
}

// parse accepts only texts that uuid.UUID.String returns.
func parse(uid string) (uuid.UUID, bool) {
	if len(uid) != 36 || uid != strings.ToLower(uid) {
		return uuid.UUID{}, false
	}
	id, err := uuid.Parse(uid)
	return id, err == nil
}
