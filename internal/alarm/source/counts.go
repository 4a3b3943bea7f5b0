package source

import (
	"encoding/hex"
	"iter"
)

// uuid is a UID in 16 bytes instead of 52: the API server issues no other kind.
type uuid [16]byte

// known is what is remembered of a live Event.
type known struct {
	position uint64
	count    int32
	// seen is the generation of the list that it was last part of, or the one
	// that was current when it came.
	generation uint8
}

// counts remembers the live Events. Its memory is measured by BenchmarkCounts.
type counts struct {
	byUUID map[uuid]known
	// other holds the UIDs that are no UUID in canonical form.
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

// set remembers k as seen now.
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

// beginList starts the list of which sweep tells what was missing.
func (c *counts) beginList() {
	c.generation++
}

// sweep removes and returns what was not set since beginList.
func (c *counts) sweep() []string {
	var gone []string
	for id, k := range c.byUUID { // not all: most are not gone, and need no text
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

// forgetPositions makes every position the lowest: they are of another history.
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

// uuidGroups are the offsets of the hexadecimal groups of a UUID's text, and of
// their bytes.
var uuidGroups = [...]struct{ text, textEnd, raw, rawEnd int }{
	{0, 8, 0, 4}, {9, 13, 4, 6}, {14, 18, 6, 8}, {19, 23, 8, 10}, {24, 36, 10, 16},
}

// parseUUID refuses what String would not give back: upper case, other dashes.
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
