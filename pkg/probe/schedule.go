package probe

import (
	"container/heap"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// entry is a check and when it is next run.
type entry[T any] struct {
	check Check[T]
	due   time.Time
	// index in the heap.
	index int
	// postponed: it waits for its namespace to have room.
	postponed bool
}

func (e *entry[T]) namespace() string { return e.check.Key.Namespace }

// schedule is the checks by when they are due. It does not lock.
type schedule[T any] struct {
	byKey map[types.NamespacedName]*entry[T]
	queue queue[T]
}

func newSchedule[T any]() *schedule[T] {
	return &schedule[T]{byKey: map[types.NamespacedName]*entry[T]{}}
}

// put adds or updates a check. replaced is the entry that it took the place of, if
// that was for another pod.
func (s *schedule[T]) put(c Check[T], now time.Time) (replaced *entry[T]) {
	old := s.byKey[c.Key]
	switch {
	case old == nil:
		s.add(c, now)
	case old.check.PodUID != c.PodUID:
		s.remove(c.Key)
		s.add(c, now)
		return old
	case old.check.sameCadence(&c):
		old.check = c
	default:
		old.check, old.due = c, now.Add(c.firstDelay())
		heap.Fix(&s.queue, old.index)
	}
	return nil
}

func (s *schedule[T]) add(c Check[T], now time.Time) {
	e := &entry[T]{check: c, due: now.Add(c.firstDelay())}
	s.byKey[c.Key] = e
	heap.Push(&s.queue, e)
}

// remove takes a check out and returns it; nil if there is none.
func (s *schedule[T]) remove(key types.NamespacedName) *entry[T] {
	e := s.byKey[key]
	if e == nil {
		return nil
	}
	delete(s.byKey, key)
	heap.Remove(&s.queue, e.index)
	return e
}

// holds says whether the entry is still what there is for its key.
func (s *schedule[T]) holds(e *entry[T]) bool { return s.byKey[e.check.Key] == e }

// next returns the entry that is due first; nil if there is none.
func (s *schedule[T]) next() *entry[T] {
	if len(s.queue) == 0 {
		return nil
	}
	return s.queue[0]
}

// advance sets when the entry is due again: a multiple of its period after it was,
// so that lateness does not add up, and what was missed is not made up for.
func (s *schedule[T]) advance(e *entry[T], now time.Time) {
	late := max(0, now.Sub(e.due))
	e.due = e.due.Add(late - late%e.check.Period + e.check.Period)
	heap.Fix(&s.queue, e.index)
}

// queue is a heap.Interface: what is due first is first.
type queue[T any] []*entry[T]

func (q queue[T]) Len() int           { return len(q) }
func (q queue[T]) Less(i, j int) bool { return q[i].due.Before(q[j].due) }
func (q queue[T]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push is for package heap.
func (q *queue[T]) Push(x any) {
	e := x.(*entry[T])
	e.index = len(*q)
	*q = append(*q, e)
}

// Pop is for package heap.
func (q *queue[T]) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = nil // for the garbage collector
	*q = (*q)[:last]
	return e
}
