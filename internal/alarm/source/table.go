package source

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"iter"
	"math/bits"
	"syscall"
	"unsafe"

	"github.com/google/uuid"
)

// table is a map of live Events. It needs 32 to 40 bytes for each, free slots included. A Go
// map needs 52. All Events are in memory: a look-up on disk takes longer than reading an
// Event.
//
// Large parts are outside of Go's heap. The operator lets the heap grow by half before it
// collects garbage, so each byte on the heap would cost one and a half. Call close when the
// table is no longer used.
type table struct {
	seed maphash.Seed
	// Each part grows alone, so that few Events are copied at once.
	parts [tableParts]part
}

const tableParts = 128

// part is a hash table with open addressing and linear probing. It is at most seven eighths
// full.
type part struct {
	slots []slot
	used  int
}

// slot has no pointers, which the garbage collector would follow, and no padding.
type slot struct {
	id       uuid.UUID
	position [8]byte
	// state is the count, with the bit marked. A count is at least 1, and 0 is a free slot.
	state uint32
}

// marked is set on the Events that were set since unmark.
const marked = 1 << 31

func (s *slot) free() bool { return s.state == 0 }

func (s *slot) known() known {
	return known{position: binary.LittleEndian.Uint64(s.position[:]), count: int32(s.state &^ marked)}
}

// newTable returns a table whose parts have different sizes. Otherwise, they would all grow
// at the same time, and then have the most free slots.
func newTable() *table {
	t := &table{seed: maphash.MakeSeed()}
	for i := range t.parts {
		t.parts[i].slots = newSlots(smallestPart + i*smallestPart/4/tableParts)
	}
	return t
}

// close frees the memory. The table must not be used afterwards.
func (t *table) close() {
	for i := range t.parts {
		freeSlots(t.parts[i].slots)
		t.parts[i].slots = nil
	}
}

// mappedSlots is the number of slots from which on they are outside of the heap. Fewer would
// waste much of a page of the system.
const mappedSlots = 64 << 10 / int(slotSize)

const slotSize = unsafe.Sizeof(slot{})

// newSlots returns free slots. freeSlots must get them when they are no longer used.
func newSlots(n int) []slot {
	if n < mappedSlots {
		return make([]slot, n)
	}
	memory, err := syscall.Mmap(-1, 0, n*int(slotSize), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		panic(fmt.Sprintf("no memory for %d Events: %v", n, err)) // as if the heap could not grow
	}
	return unsafe.Slice((*slot)(unsafe.Pointer(unsafe.SliceData(memory))), n) //nolint:gosec // a slot has no pointers, and its alignment is that of bytes and a uint32
}

func freeSlots(slots []slot) {
	if len(slots) < mappedSlots {
		return
	}
	memory := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(slots))), len(slots)*int(slotSize)) //nolint:gosec // the memory that newSlots mapped
	if err := syscall.Munmap(memory); err != nil {
		panic(err) // it was not mapped
	}
}

// smallestPart is the smallest number of slots of a part.
const smallestPart = 32

func (t *table) hash(id *uuid.UUID) uint64 { return maphash.Bytes(t.seed, id[:]) }

// find returns the part and the slot of an Event. The slot is free if the table does not
// contain the Event.
func (t *table) find(id *uuid.UUID) (*part, int) {
	h := t.hash(id)
	p := &t.parts[h%tableParts]
	return p, p.find(id, h)
}

func (t *table) get(id uuid.UUID) (known, bool) {
	p, at := t.find(&id)
	return p.slots[at].known(), !p.slots[at].free()
}

// set stores and marks an Event.
func (t *table) set(id uuid.UUID, k known) {
	p, at := t.find(&id)
	if p.slots[at].free() {
		if p.used++; 8*p.used > 7*len(p.slots) {
			t.resize(p, len(p.slots)*5/4)
			_, at = t.find(&id)
		}
	}
	s := &p.slots[at]
	s.id, s.state = id, uint32(max(k.count, 1))|marked
	binary.LittleEndian.PutUint64(s.position[:], k.position)
}

func (t *table) remove(id uuid.UUID) {
	p, at := t.find(&id)
	if p.slots[at].free() {
		return
	}
	t.free(p, at)
	if p.used--; 4*p.used < len(p.slots) && len(p.slots) >= 2*smallestPart {
		t.resize(p, len(p.slots)/2)
	}
}

func (t *table) len() (n int) {
	for i := range t.parts {
		n += t.parts[i].used
	}
	return n
}

func (t *table) all() iter.Seq2[uuid.UUID, known] {
	return func(yield func(uuid.UUID, known) bool) {
		t.each(func(s *slot) bool { return yield(s.id, s.known()) })
	}
}

// each calls fn with each Event until fn returns false.
func (t *table) each(fn func(*slot) bool) {
	for i := range t.parts {
		for j := range t.parts[i].slots {
			if s := &t.parts[i].slots[j]; !s.free() && !fn(s) {
				return
			}
		}
	}
}

func (t *table) forgetPositions() {
	t.each(func(s *slot) bool {
		s.position = [8]byte{}
		return true
	})
}

// unmark removes the marks of all Events.
func (t *table) unmark() {
	t.each(func(s *slot) bool {
		s.state &^= marked
		return true
	})
}

// sweep removes the Events without a mark. It calls gone after each removal, and stops at
// its first error.
func (t *table) sweep(gone func(uuid.UUID) error) error {
	for i := range t.parts {
		var ids []uuid.UUID
		for _, s := range t.parts[i].slots {
			if !s.free() && s.state&marked == 0 {
				ids = append(ids, s.id)
			}
		}
		for _, id := range ids {
			t.remove(id)
			if err := gone(id); err != nil {
				return err
			}
		}
	}
	return nil
}

// first returns the slot in which the search for an Event begins.
func (p *part) first(hash uint64) int {
	first, _ := bits.Mul64(hash, uint64(len(p.slots)))
	return int(first)
}

func (p *part) next(at int) int {
	if at++; at == len(p.slots) {
		return 0
	}
	return at
}

func (p *part) find(id *uuid.UUID, hash uint64) int {
	for at := p.first(hash); ; at = p.next(at) {
		if s := &p.slots[at]; s.free() || s.id == *id {
			return at
		}
	}
}

// free makes a slot free. It moves the Events whose search would now end there.
func (t *table) free(p *part, hole int) {
	for at := p.next(hole); !p.slots[at].free(); at = p.next(at) {
		first := p.first(t.hash(&p.slots[at].id))
		if p.steps(first, at) >= p.steps(hole, at) {
			p.slots[hole], hole = p.slots[at], at
		}
	}
	p.slots[hole] = slot{}
}

// steps returns how far the slot to is after the slot from.
func (p *part) steps(from, to int) int {
	if to < from {
		return to + len(p.slots) - from
	}
	return to - from
}

// resize changes the number of slots.
func (t *table) resize(p *part, slots int) {
	old := p.slots
	defer freeSlots(old)
	p.slots = newSlots(slots)
	for i := range old {
		if s := &old[i]; !s.free() {
			p.slots[p.find(&s.id, t.hash(&s.id))] = *s
		}
	}
}
