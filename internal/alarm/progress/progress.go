// Package progress describes what receivers have got of a stream of occurrences. The outbox derives it
// from what waits, and the checkpoint contains it. A leader without the outbox of the last one begins
// with it.
//
// An occurrence is covered if its position is not after the offset of its receiver, unless it is listed
// as waiting. What is sent in the order of positions holds the offset back. All else that waits is
// listed by key.
package progress

import (
	"maps"
	"math"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

// Keys are occurrences that wait for a receiver: the position of each outbox.Entry.Key.
type Keys = map[string]uint64

// Waiting contains Keys by receiver.
type Waiting map[string]Keys

// Add adds an occurrence.
func (w Waiting) Add(receiver, key string, position uint64) {
	if w[receiver] == nil {
		w[receiver] = Keys{}
	}
	w[receiver][key] = position
}

// AddAll adds all occurrences of another map.
func (w Waiting) AddAll(other Waiting) {
	for receiver, keys := range other {
		for key, position := range keys {
			w.Add(receiver, key, position)
		}
	}
}

// Select returns the occurrences that a function selects, nil if there are none.
func (w Waiting) Select(selects func(receiver, key string, position uint64) bool) (selected Waiting) {
	for receiver, keys := range w {
		for key, position := range keys {
			if !selects(receiver, key, position) {
				continue
			}
			if selected == nil {
				selected = Waiting{}
			}
			selected.Add(receiver, key, position)
		}
	}
	return selected
}

// Lowest returns the lowest position that waits for a receiver, the highest number if there is none.
func (w Waiting) Lowest(receiver string) uint64 {
	lowest := uint64(math.MaxUint64)
	for _, position := range w[receiver] {
		lowest = min(lowest, position)
	}
	return lowest
}

// Offsets say up to which positions of a stream receivers have everything.
type Offsets struct {
	// Position is the offset of the receivers that are not in Behind.
	Position uint64            `json:"position"`
	Behind   map[string]uint64 `json:"behind,omitempty"`
	// Waiting are occurrences that are not sent, although their positions are at or below the offset
	// of their receiver.
	Waiting Waiting `json:"waiting,omitempty"`
	// Reset means that a reset began the history of the positions. What waited then has no known
	// position in it.
	Reset bool `json:"-"`
}

// Of returns the offset of a receiver.
func (o Offsets) Of(receiver string) uint64 {
	if position, ok := o.Behind[receiver]; ok {
		return position
	}
	return o.Position
}

// Covers reports whether a receiver has the occurrence with the key, at the position.
func (o Offsets) Covers(receiver, key string, position uint64) bool {
	_, waits := o.Waiting[receiver][key]
	return !waits && position <= o.Of(receiver)
}

// CoversSurely is Covers, but false for what waited at a reset and is perhaps not sent.
func (o Offsets) CoversSurely(receiver, key string, position uint64) bool {
	_, behind := o.Behind[receiver]
	mayLack := o.Reset && (behind || len(o.Waiting[receiver]) > 0)
	return o.Covers(receiver, key, position) && (position > alarm.ResetPosition || !mayLack)
}

// PassedBy reports whether no offset is after the position.
func (o Offsets) PassedBy(position uint64) bool {
	for _, offset := range o.Behind {
		if offset > position {
			return false
		}
	}
	return o.Position <= position
}

// With returns the offsets together with what an outbox has. It began with its own offsets, and has read
// up to a position: that is sent, or waits there. If a replay of the outbox was interrupted, the outbox has all up to
// where that would have ended.
func (o Offsets) With(position uint64, own Offsets) Offsets {
	read := own.Position
	for _, offset := range own.Behind {
		read = min(read, offset)
	}
	read = max(read, position)
	unreadAnd := func(other Offsets) func(receiver, key string, at uint64) bool {
		return func(receiver, key string, at uint64) bool { return at > position && !other.Covers(receiver, key, at) }
	}
	sum := Offsets{Position: max(o.Position, read), Waiting: Waiting{}}
	sum.Waiting.AddAll(o.Waiting.Select(unreadAnd(own)))
	sum.Waiting.AddAll(own.Waiting.Select(unreadAnd(o)))
	for receiver, offset := range o.Behind {
		if offset = max(offset, read); offset < sum.Position {
			sum.FallBehind(receiver, offset+1)
		}
	}
	return sum
}

// Needed returns the position after which occurrences can be that are not covered.
func (o Offsets) Needed() uint64 {
	needed := o.Position
	for _, position := range o.Behind {
		needed = min(needed, position)
	}
	for receiver, keys := range o.Waiting {
		if len(keys) > 0 {
			needed = min(needed, o.Waiting.Lowest(receiver)-1)
		}
	}
	return needed
}

// FallBehind lowers the offset of a receiver to before a position.
func (o *Offsets) FallBehind(receiver string, position uint64) {
	if o.Behind == nil {
		o.Behind = map[string]uint64{}
	}
	o.Behind[receiver] = min(o.Of(receiver), position-1)
}

// Equal reports whether all fields are equal.
func (o Offsets) Equal(other Offsets) bool {
	return o.Position == other.Position && o.Reset == other.Reset && maps.Equal(o.Behind, other.Behind) &&
		maps.EqualFunc(o.Waiting, other.Waiting, maps.Equal[Keys])
}
