package source

import (
	"encoding/hex"
	"iter"
	"time"
)

// uuid is a UID in 16 bytes instead of 52. The API server creates only UUIDs.
type uuid [16]byte

// known is the state of a live Event.
type known struct {
	position uint64
	count    int32
	// generation is that of the last list that contained the Event, or the current one
	// when the Event was first seen.
	generation uint8
}

// counts remembers the live Events. BenchmarkCounts measures its memory.
type counts struct {
	byUUID map[uuid]known
	// other contains UIDs that are not UUIDs in canonical form.
	other      map[string]known
	generation uint8
}

func newCounts() *counts {
	return &counts{byUUID: map[uuid]known{}, other: map[string]known{}}
}

func (c *counts) get(uid string) (known, bool) {
	if id, ok := parseUUID(uid); ok {
		k, ok := c.byUUID[id]
		return k, ok
	}
	k, ok := c.other[uid]
	return k, ok
}

// set remembers k in the current generation.
func (c *counts) set(uid string, k known) {
	k.generation = c.generation
	if id, ok := parseUUID(uid); ok {
		c.byUUID[id] = k
		return
	}
	c.other[uid] = k
}

func (c *counts) remove(uid string) {
	if id, ok := parseUUID(uid); ok {
		delete(c.byUUID, id)
		return
	}
	delete(c.other, uid)
}

// beginList starts a new generation. sweep then finds what the list does not contain.
func (c *counts) beginList() {
	c.generation++
}

// sweep removes and returns the UIDs that were not set since beginList.
func (c *counts) sweep() []string {
	var gone []string
	for id, k := range c.byUUID { // only for these: String allocates
		if k.generation != c.generation {
			gone = append(gone, id.String())
		}
	}
	for uid, k := range c.other {
		if k.generation != c.generation {
			gone = append(gone, uid)
		}
	}
	for _, uid := range gone {
		c.remove(uid)
	}
	return gone
}

// forgetPositions sets every position to the lowest one, because they belong to another
// history.
func (c *counts) forgetPositions() {
	for id, k := range c.byUUID {
		k.position = 0
		c.byUUID[id] = k
	}
	for uid, k := range c.other {
		k.position = 0
		c.other[uid] = k
	}
}

func (c *counts) len() int {
	return len(c.byUUID) + len(c.other)
}

func (c *counts) all() iter.Seq2[string, known] {
	return func(yield func(string, known) bool) {
		for id, k := range c.byUUID {
			if !yield(id.String(), k) {
				return
			}
		}
		for uid, k := range c.other {
			if !yield(uid, k) {
				return
			}
		}
	}
}

// uuidGroups are the offsets of the groups in a UUID's text and in its bytes.
var uuidGroups = [...]struct{ text, textEnd, raw, rawEnd int }{
	{0, 8, 0, 4}, {9, 13, 4, 6}, {14, 18, 6, 8}, {19, 23, 8, 10}, {24, 36, 10, 16},
}

// parseUUID accepts only texts that String returns: lower case, with dashes in their
// place.
func parseUUID(s string) (uuid, bool) {
	var id uuid
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return id, false
	}
	for _, g := range uuidGroups {
		for i := g.raw; i < g.rawEnd; i++ {
			at := g.text + 2*(i-g.raw)
			high, low := hexDigit(s[at]), hexDigit(s[at+1])
			if high|low > 0xf {
				return id, false
			}
			id[i] = high<<4 | low
		}
	}
	return id, true
}

func hexDigit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	default:
		return 0xff
	}
}

// String returns the canonical text.
func (id uuid) String() string {
	text := []byte("00000000-0000-0000-0000-000000000000")
	for _, g := range uuidGroups {
		hex.Encode(text[g.text:g.textEnd], id[g.raw:g.rawEnd])
	}
	return string(text)
}

// observation is what one entry shows of an Event.
type observation struct {
	position uint64
	count    int32
	created  time.Time
}

// progress is how far the reader is. An Event without a remembered count is compared with
// it.
type progress struct {
	// position is the last position that was read. time is the creation time of the
	// newest Event up to it, zero if it is unknown.
	position uint64
	time     time.Time
	// complete is true if all Events that were live at position are remembered.
	complete bool
	// reset is true after a restore of etcd. Events created before time were read before,
	// in the former history.
	reset bool
}

// firstIncrease returns the increase of the count of an Event that is not remembered.
//
// If the count as of position is lost, an Event that existed then has changed since. The
// increase is unknown and counts as one, so that nothing is lost. For the same reason, an
// Event created in the same second as time counts as new.
func (p progress) firstIncrease(o observation) int32 {
	older := o.created.Before(p.time)
	switch {
	case o.position <= p.position, p.reset && older:
		return 0
	case !p.complete && older:
		return 1
	default:
		return o.count
	}
}

// increase returns the increase of the count of a remembered Event, 0 if the count fell.
func (k known) increase(o observation) int32 {
	return max(o.count-k.count, 0)
}
