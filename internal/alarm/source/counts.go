package source

import (
	"iter"
	"maps"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

// known is the state of a live Event.
type known struct {
	position uint64
	count    int32
}

// counts remembers the live Events. The API server creates only UUIDs, which need 16 bytes instead of
// 52. BenchmarkCounts measures its memory.
type counts struct {
	byUUID *table
	// other contains UIDs that are not UUIDs in canonical form. listed contains those that
	// were set since beginList.
	other  map[string]known
	listed map[string]bool
}

func newCounts() *counts {
	return &counts{byUUID: newTable(), other: map[string]known{}}
}

// load remembers stored counts. A nil sequence is empty.
func (c *counts) load(stored iter.Seq2[alarm.EventCount, error]) error {
	if stored == nil {
		return nil
	}
	for k, err := range stored {
		if err != nil {
			return err
		}
		c.set(k.UID, known{position: k.Position, count: int32(k.Count)})
	}
	return nil
}

// close frees the memory. The counts must not be used afterwards.
func (c *counts) close() { c.byUUID.close() }

func (c *counts) get(uid string) (known, bool) {
	if id, ok := parseUUID(uid); ok {
		return c.byUUID.get(id)
	}
	k, ok := c.other[uid]
	return k, ok
}

// set remembers k. sweep then keeps it.
func (c *counts) set(uid string, k known) {
	if id, ok := parseUUID(uid); ok {
		c.byUUID.set(id, k)
		return
	}
	c.other[uid] = k
	if c.listed != nil {
		c.listed[uid] = true
	}
}

func (c *counts) remove(uid string) {
	if id, ok := parseUUID(uid); ok {
		c.byUUID.remove(id)
		return
	}
	delete(c.other, uid)
	delete(c.listed, uid)
}

// beginList forgets which Events an unfinished list contained. sweep then finds what this
// list does not contain.
func (c *counts) beginList() {
	c.byUUID.unmark()
	c.listed = map[string]bool{}
}

// sweep removes the Events that were not set since beginList, and calls gone with their
// UIDs. It stops at the first error of gone and returns it.
func (c *counts) sweep(gone func(uid string) error) error {
	if err := c.byUUID.sweep(func(id uuid.UUID) error { return gone(id.String()) }); err != nil {
		return err
	}
	for uid := range c.other {
		if c.listed[uid] {
			continue
		}
		c.remove(uid)
		if err := gone(uid); err != nil {
			return err
		}
	}
	c.listed = nil
	return nil
}

// forgetPositions sets every position to the lowest one, because they belong to another
// history.
func (c *counts) forgetPositions() {
	c.byUUID.forgetPositions()
	for uid, k := range c.other {
		k.position = 0
		c.other[uid] = k
	}
}

func (c *counts) len() int {
	return c.byUUID.len() + len(c.other)
}

func (c *counts) all() iter.Seq2[string, known] {
	return func(yield func(string, known) bool) {
		for id, k := range c.byUUID.all() {
			if !yield(id.String(), k) {
				return
			}
		}
		maps.All(c.other)(yield)
	}
}

// parseUUID accepts only texts that UUID.String returns.
func parseUUID(s string) (uuid.UUID, bool) {
	if len(s) != 36 || s != strings.ToLower(s) {
		return uuid.UUID{}, false
	}
	id, err := uuid.Parse(s)
	return id, err == nil
}

// observation is what one entry shows of an Event.
type observation struct {
	position uint64
	count    int32
	// created and changed are the times of its creation and its last change.
	created, changed time.Time
}

// progress is how far the reader is. An Event without a remembered count is compared with
// it.
type progress struct {
	// position is the last position that was read. time is the creation time of the
	// newest Event up to it, zero if it is unknown.
	position uint64
	time     time.Time
	// until and untilTime are those of Start.
	until     uint64
	untilTime time.Time
	// complete is true if all Events that were live at position are remembered.
	complete bool
	// reset is true after a restore of etcd. Events that changed before time, and not since, were
	// read before, in the former history. In a replay, that is so for those up to until.
	reset bool
}

// firstIncrease returns the increase of the count of an Event that is not remembered.
//
// If the count as of position is lost, an Event that existed then has changed since. The
// increase is unknown and counts as one: the whole count would contain occurrences that
// were read before. This includes an Event created in the same second as time, because
// time is that of the newest Event, which can be this one.
func (p progress) firstIncrease(o observation) int32 {
	readUpTo, isLater := p.time, p.until > p.position && o.position > p.until
	if isLater {
		readUpTo = p.untilTime
	}
	switch {
	case o.position <= p.position, p.reset && !isLater && o.changed.Before(readUpTo):
		return 0
	case !p.complete && (readUpTo.IsZero() || !o.created.After(readUpTo)), p.reset && !isLater && o.created.Before(readUpTo):
		return 1
	default:
		return o.count
	}
}

// lastKnown returns the last position that was read in the present history, also by
// another reader.
func (p progress) lastKnown() uint64 { return max(p.position, p.until) }

// increase returns the increase of the count of a remembered Event, 0 if the count fell.
func (k known) increase(o observation) int32 {
	return max(o.count-k.count, 0)
}
