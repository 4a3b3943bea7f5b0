package checkpoint

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/bongsu-io/bongsu/internal/alarm/progress"
)

// maxStreams limits the bytes of Streams as JSON. They are a part of maxWaiting. maxStreamRows
// limits those without Waiting: that is enough for 1,000 resources.
const (
	maxStreams    = 160 << 10
	maxStreamRows = 96 << 10
)

// Limits returns how much each receiver can have if the sum of all is limited, for those whose
// size is larger. It divides the limit among the owners of the receivers like Excess, and the
// share of an owner among its receivers in the same way.
func Limits(sizes map[string]int, limit int) map[string]int {
	limits := map[string]int{}
	receivers, sums := byOwner(sizes)
	share := shareOf(slices.Sorted(maps.Values(sums)), limit)
	for of, sum := range sums {
		if sum <= share {
			continue
		}
		own := make([]int, 0, len(receivers[of]))
		for _, receiver := range receivers[of] {
			own = append(own, sizes[receiver])
		}
		slices.Sort(own)
		each := shareOf(own, share)
		for _, receiver := range receivers[of] {
			if sizes[receiver] > each {
				limits[receiver] = each
			}
		}
	}
	return limits
}

// waitingChange is an element of Stream.Waiting.
type waitingChange struct {
	stream, receiver, key string
	position              uint64
}

func (w *waitingChange) size() int { return len(fmt.Sprintf("%q:%d,", w.key, w.position)) }

// header returns the bytes of the object that contains the element.
func (w *waitingChange) header() int { return len(fmt.Sprintf("%q:{},", w.receiver)) }

// fitStreams makes Streams small enough. It returns their size, and the number of receivers
// whose oldest changes it omitted. If there are very many resources, it omits some: changes of
// these begin from now if the outbox is lost.
func (c *Checkpoint) fitStreams() (size, trimmed int) {
	for _, name := range slices.Sorted(maps.Keys(c.Streams)) {
		s := c.Streams[name]
		s.Waiting, s.States = progress.Waiting{}, nil
		row, _ := json.Marshal(s) // numbers and texts have a JSON form
		n := len(fmt.Sprintf("%q:%s,", name, row)) + len(`,"waiting":{}`)
		if size+n > maxStreamRows {
			delete(c.Streams, name)
			continue
		}
		size += n
	}
	changes, sizes := c.waitingChanges()
	limits := Limits(sizes, maxStreams-size)
	for receiver, limit := range limits {
		sizes[receiver] = c.trim(changes[receiver], limit)
	}
	for _, n := range sizes {
		size += n
	}
	return size, len(limits)
}

// waitingChanges returns the changes of each receiver, newest first, and their sizes.
func (c *Checkpoint) waitingChanges() (changes map[string][]waitingChange, sizes map[string]int) {
	changes, sizes = map[string][]waitingChange{}, map[string]int{}
	for name, s := range c.Streams {
		for receiver, held := range s.Waiting {
			for key, position := range held {
				w := waitingChange{name, receiver, key, position}
				changes[receiver] = append(changes[receiver], w)
				sizes[receiver] += w.size()
			}
			sizes[receiver] += (&waitingChange{receiver: receiver}).header()
		}
	}
	for _, of := range changes {
		slices.SortFunc(of, func(a, b waitingChange) int {
			return cmp.Or(cmp.Compare(b.position, a.position), cmp.Compare(a.stream, b.stream), cmp.Compare(a.key, b.key))
		})
	}
	return changes, sizes
}

// trim removes the oldest changes of a receiver, so that the others are within a limit. It
// returns their size.
func (c *Checkpoint) trim(newestFirst []waitingChange, limit int) (size int) {
	streams, full := map[string]bool{}, false
	for i := range newestFirst {
		w := &newestFirst[i]
		n := w.size()
		if !streams[w.stream] {
			n += w.header()
		}
		if full = full || size+n > limit; !full {
			streams[w.stream] = true
			size += n
			continue
		}
		of := c.Streams[w.stream].Waiting
		if delete(of[w.receiver], w.key); len(of[w.receiver]) == 0 {
			delete(of, w.receiver)
		}
	}
	return size
}

// maxStates limits the bytes of the states of all streams as JSON.
const maxStates = 128 << 10

// fitStates omits states of the namespaces with too many, the oldest first. It returns the size
// of the others. If the outbox is lost, states that are omitted are reported again.
func (c *Checkpoint) fitStates() (size int) {
	sums := map[string]int{}
	for _, s := range c.Streams {
		for i := range s.States {
			sums[s.States[i].Namespace] += s.States[i].size()
		}
	}
	share := shareOf(slices.Sorted(maps.Values(sums)), maxStates)
	used := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(c.Streams)) {
		s := c.Streams[name]
		var kept []State
		for i := range s.States {
			of := s.States[i].Namespace
			if used[of] += s.States[i].size(); used[of] <= share {
				kept = append(kept, s.States[i])
				size += s.States[i].size()
			}
		}
		s.States = kept
		c.Streams[name] = s
	}
	return size
}

func (s *State) size() int {
	text, _ := json.Marshal(s) // numbers and texts have a JSON form
	return len(text) + 1
}

// Equal reports whether all fields are equal.
func (c Checkpoint) Equal(o Checkpoint) bool {
	return c.ClusterUID == o.ClusterUID && c.Epoch == o.Epoch && c.History == o.History && c.Time == o.Time &&
		c.Offsets.Equal(o.Offsets) && maps.EqualFunc(c.Streams, o.Streams, Stream.Equal) &&
		slices.Equal(c.PositionHistory, o.PositionHistory)
}
