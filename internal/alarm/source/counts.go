package source

import (
	"encoding/binary"
	"iter"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/live"
)

// known is the state of a live Event.
type known struct {
	position uint64
	count    int32
}

// packed is a known without padding, because the Events of a large cluster are millions.
type packed [12]byte

func (k known) pack() (p packed) {
	binary.LittleEndian.PutUint64(p[:], k.position)
	binary.LittleEndian.PutUint32(p[8:], uint32(k.count))
	return p
}

func (p packed) unpack() known {
	return known{position: binary.LittleEndian.Uint64(p[:]), count: int32(binary.LittleEndian.Uint32(p[8:]))}
}

// counts remembers the live Events. BenchmarkCounts measures its memory.
type counts struct{ events live.Set[packed] }

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

func (c *counts) get(uid string) (known, bool) {
	p, ok := c.events.Get(uid)
	if !ok {
		return known{}, false
	}
	return p.unpack(), true
}

// set remembers k. sweep then keeps it.
func (c *counts) set(uid string, k known) { c.events.Set(uid, k.pack()) }

// sweep removes the Events that were not set since the begin of the list, and calls gone with
// their UIDs. It stops at the first error of gone and returns it.
func (c *counts) sweep(gone func(uid string) error) error {
	for uid := range c.events.Unlisted() {
		c.events.Remove(uid)
		if err := gone(uid); err != nil {
			return err
		}
	}
	return nil
}

// forgetPositions sets every position to the lowest one, because they belong to another
// history.
func (c *counts) forgetPositions() {
	c.events.Replace(func(p packed) packed {
		k := p.unpack()
		k.position = 0
		return k.pack()
	})
}

func (c *counts) all() iter.Seq2[string, known] {
	return func(yield func(string, known) bool) {
		for uid, p := range c.events.All() {
			if !yield(uid, p.unpack()) {
				return
			}
		}
	}
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
	// until and untilTime come from Start.
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
// time is when the newest Event happened, which can be this one.
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
