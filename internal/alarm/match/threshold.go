package match

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"
)

// Threshold is the number of occurrences that must happen within a time before one is
// sent.
type Threshold struct {
	Count  int64
	Within time.Duration
}

// SlidingWindow is the state of a Threshold: the newest occurrences, only as many as the
// Threshold needs, in order of time. The zero value is empty. A SlidingWindow is
// immutable.
type SlidingWindow struct {
	buckets []bucket
}

// bucket is the number of occurrences in one second.
type bucket struct{ at, n int64 }

// Add returns the window with n more occurrences, and whether it reaches the threshold.
// The window ends at its newest occurrence. Older occurrences than the window do not
// count, even if they are added late.
func (t *Threshold) Add(w SlidingWindow, at time.Time, n int64) (_ SlidingWindow, reached bool) {
	buckets := w.with(bucket{at.Unix(), min(n, t.Count)})
	oldest := buckets[len(buckets)-1].at - int64(t.Within/time.Second)
	kept, sum := len(buckets), int64(0)
	for kept > 0 && buckets[kept-1].at >= oldest && sum < t.Count {
		kept--
		sum += buckets[kept].n
	}
	return SlidingWindow{buckets[kept:]}, sum >= t.Count
}

// NotAfter returns the window with later occurrences at this time. Their clock was set back since.
func (w SlidingWindow) NotAfter(at time.Time) SlidingWindow {
	last, n := at.Unix(), int64(0)
	kept := len(w.buckets)
	for ; kept > 0 && w.buckets[kept-1].at > last; kept-- {
		n += w.buckets[kept-1].n
	}
	if kept == len(w.buckets) {
		return w
	}
	return SlidingWindow{SlidingWindow{w.buckets[:kept]}.with(bucket{last, n})}
}

// with returns a copy of the buckets that includes one more, in order of time.
func (w SlidingWindow) with(added bucket) []bucket {
	i, found := slices.BinarySearchFunc(w.buckets, added, func(a, b bucket) int { return int(a.at - b.at) })
	buckets := slices.Clone(w.buckets)
	if !found {
		return slices.Insert(buckets, i, added)
	}
	buckets[i].n += added.n
	return buckets
}

// Expiry returns when the newest occurrence stops counting.
func (t *Threshold) Expiry(w SlidingWindow) time.Time {
	if len(w.buckets) == 0 {
		return time.Time{}
	}
	return time.Unix(w.buckets[len(w.buckets)-1].at, 0).Add(t.Within)
}

// MarshalBinary encodes the window for the outbox as pairs of varints. Each time is the
// difference from the time before it.
func (w SlidingWindow) MarshalBinary() ([]byte, error) {
	var data []byte
	var last int64
	for _, b := range w.buckets {
		data = binary.AppendVarint(data, b.at-last)
		data = binary.AppendVarint(data, b.n)
		last = b.at
	}
	return data, nil
}

var errSlidingWindow = errors.New("the stored state of a threshold is invalid")

// MaxBytes returns the largest size of an encoded window of the threshold, in bytes. A bucket
// has four at most, and more for the time of the first one.
func (t *Threshold) MaxBytes() int {
	return 16 + 4*int(min(t.Count, int64(t.Within/time.Second)+1))
}

// UnmarshalBinary decodes the result of MarshalBinary.
func (w *SlidingWindow) UnmarshalBinary(data []byte) error {
	w.buckets = nil
	var last int64
	for len(data) > 0 {
		at, size := binary.Varint(data)
		n, more := binary.Varint(data[max(size, 0):])
		if size <= 0 || more <= 0 {
			return errSlidingWindow
		}
		last += at
		w.buckets = append(w.buckets, bucket{last, n})
		data = data[size+more:]
	}
	return nil
}
