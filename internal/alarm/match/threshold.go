package match

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"
)

// Threshold is how many occurrences it takes, and within what time, for one to be
// sent.
type Threshold struct {
	Count  int64
	Within time.Duration
}

// Burst is what a Threshold remembers: of the newest occurrences as many as it takes
// to reach it, in order of time. The zero Burst is empty. A Burst is never changed.
type Burst struct {
	moments []moment
}

// moment is n occurrences in one second.
type moment struct{ at, n int64 }

// Add takes in n occurrences and tells whether there are enough within the window
// that ends with the newest one known. What is older than the window counts for
// nothing, also if it comes late.
func (t *Threshold) Add(b Burst, at time.Time, n int64) (_ Burst, reached bool) {
	moments := b.with(moment{at.Unix(), min(n, t.Count)})
	oldest := moments[len(moments)-1].at - int64(t.Within/time.Second)
	kept, sum := len(moments), int64(0)
	for kept > 0 && moments[kept-1].at >= oldest && sum < t.Count {
		kept--
		sum += moments[kept].n
	}
	return Burst{moments[kept:]}, sum >= t.Count
}

// with returns the moments and one more, in their order.
func (b Burst) with(m moment) []moment {
	i, found := slices.BinarySearchFunc(b.moments, m, func(a, b moment) int { return int(a.at - b.at) })
	if !found {
		return slices.Insert(slices.Clone(b.moments), i, m)
	}
	moments := slices.Clone(b.moments)
	moments[i].n += m.n
	return moments
}

// Until is when the newest occurrence ceases to count.
func (t *Threshold) Until(b Burst) time.Time {
	if len(b.moments) == 0 {
		return time.Time{}
	}
	return time.Unix(b.moments[len(b.moments)-1].at, 0).Add(t.Within)
}

// MarshalBinary is for the ledger: pairs of numbers, each time as what has passed
// since the one before.
func (b Burst) MarshalBinary() ([]byte, error) {
	var data []byte
	var last int64
	for _, m := range b.moments {
		data = binary.AppendVarint(data, m.at-last)
		data = binary.AppendVarint(data, m.n)
		last = m.at
	}
	return data, nil
}

var errBurst = errors.New("what a threshold remembered cannot be read")

// UnmarshalBinary reads what MarshalBinary made.
func (b *Burst) UnmarshalBinary(data []byte) error {
	b.moments = nil
	var last int64
	for len(data) > 0 {
		at, size := binary.Varint(data)
		n, more := binary.Varint(data[max(size, 0):])
		if size <= 0 || more <= 0 {
			return errBurst
		}
		last += at
		b.moments = append(b.moments, moment{last, n})
		data = data[size+more:]
	}
	return nil
}
