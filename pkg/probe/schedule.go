package probe

import (
	"container/heap"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// entry is a check with the time of its next run.
type entry[T any] struct {
	check Check[T]
	dueAt time.Time
	// index in the heap.
	index int
	// postponed: it waits for a worker.
	postponed bool
}

func (e *entry[T]) namespace() string { return e.check.Key.Namespace }

// schedule contains the checks, ordered by their next run. It does not lock.
type schedule[T any] struct {
	byKey map[types.NamespacedName]*entry[T]
	queue queue[T]
}

func newSchedule[T any]() *schedule[T] {
	return &schedule[T]{byKey: map[types.NamespacedName]*entry[T]{}}
}

// put adds or updates a check. It returns the entry of another pod that it replaced, or
// nil.
func (s *schedule[T]) put(c Check[T], now time.Time) (replaced *entry[T]) {
	old := s.byKey[c.Key]
	switch {
	case old == nil:
		s.add(c, now)
	case old.check.PodUID != c.PodUID:
		s.remove(c.Key)
		s.add(c, now)
		return old
	case old.check.sameTiming(&c):
		old.check = c
	default:
		old.check, old.dueAt = c, now.Add(c.firstDelay())
		heap.Fix(&s.queue, old.index)
	}
	return nil
}

func (s *schedule[T]) add(c Check[T], now time.Time) {
	e := &entry[T]{check: c, dueAt: now.Add(c.firstDelay())}
	s.byKey[c.Key] = e
	heap.Push(&s.queue, e)
}

// remove removes a check and returns its entry, or nil if there is none.
func (s *schedule[T]) remove(key types.NamespacedName) *entry[T] {
	e := s.byKey[key]
	if e == nil {
		return nil
	}
	delete(s.byKey, key)
	heap.Remove(&s.queue, e.index)
	return e
}

// contains reports whether the entry is the current one of its key.
func (s *schedule[T]) contains(e *entry[T]) bool { return s.byKey[e.check.Key] == e }

// next returns the entry that is due first, or nil.
func (s *schedule[T]) next() *entry[T] {
	if len(s.queue) == 0 {
		return nil
	}
	return s.queue[0]
}

// advance sets the next run to a multiple of the period after the last one. Delays do not
// add up, and missed runs are not made up for.
func (s *schedule[T]) advance(e *entry[T], now time.Time) {
	late := max(0, now.Sub(e.dueAt))
	e.dueAt = e.dueAt.Add(late - late%e.check.Period + e.check.Period)
	heap.Fix(&s.queue, e.index)
}

// queue implements heap.Interface, ordered by due time.
type queue[T any] []*entry[T]

func (q queue[T]) Len() int           { return len(q) }
func (q queue[T]) Less(i, j int) bool { return q[i].dueAt.Before(q[j].dueAt) }
func (q queue[T]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements heap.Interface.
func (q *queue[T]) Push(x any) {
	e := x.(*entry[T])
	e.index = len(*q)
	*q = append(*q, e)
}

// Pop implements heap.Interface.
func (q *queue[T]) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = nil // for the garbage collector
	*q = (*q)[:last]
	return e
}
