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
type SlidingWindow struct {
	buckets []bucket
}

// moment is n occurrences in one second.
type bucket struct{ at, n int64 }

// Add takes in n occurrences and tells whether there are enough within the window
// that ends with the newest one known. What is older than the window counts for
// nothing, also if it comes late.
func (t *Threshold) Add(b SlidingWindow, at time.Time, n int64) (_ SlidingWindow, reached bool) {
	moments := b.with(bucket{at.Unix(), min(n, t.Count)})
	oldest := moments[len(moments)-1].at - int64(t.Within/time.Second)
	kept, sum := len(moments), int64(0)
	for kept > 0 && moments[kept-1].at >= oldest && sum < t.Count {
		kept--
		sum += moments[kept].n
	}
	return SlidingWindow{moments[kept:]}, sum >= t.Count
}

// with returns the moments and one more, in their order.
func (b SlidingWindow) with(m bucket) []bucket {
	i, found := slices.BinarySearchFunc(b.buckets, m, func(a, b bucket) int { return int(a.at - b.at) })
	if !found {
		return slices.Insert(slices.Clone(b.buckets), i, m)
	}
	moments := slices.Clone(b.buckets)
	moments[i].n += m.n
	return moments
}

// Until is when the newest occurrence ceases to count.
func (t *Threshold) Expiry(b SlidingWindow) time.Time {
	if len(b.buckets) == 0 {
		return time.Time{}
	}
	return time.Unix(b.buckets[len(b.buckets)-1].at, 0).Add(t.Within)
}

// MarshalBinary is for the ledger: pairs of numbers, each time as what has passed
// since the one before.
func (b SlidingWindow) MarshalBinary() ([]byte, error) {
	var data []byte
	var last int64
	for _, m := range b.buckets {
		data = binary.AppendVarint(data, m.at-last)
		data = binary.AppendVarint(data, m.n)
		last = m.at
	}
	return data, nil
}

var errSlidingWindow = errors.New("what a threshold remembered cannot be read")

// UnmarshalBinary reads what MarshalBinary made.
func (b *SlidingWindow) UnmarshalBinary(data []byte) error {
	b.buckets = nil
	var last int64
	for len(data) > 0 {
		at, size := binary.Varint(data)
		n, more := binary.Varint(data[max(size, 0):])
		if size <= 0 || more <= 0 {
			return errSlidingWindow
		}
		last += at
		b.buckets = append(b.buckets, bucket{last, n})
		data = data[size+more:]
	}
	return nil
}
