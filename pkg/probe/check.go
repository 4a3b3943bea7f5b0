package probe

import (
	"context"
	"hash/fnv"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// maxSpread bounds how long the first run of a check waits for the sake of
// spreading: who asks once an hour wants to know sooner whether it works.
const maxSpread = time.Minute

// Check is what is run for a pod.
type Check[T any] struct {
	// Key names the check. There is one of each key.
	Key types.NamespacedName
	// PodUID is the pod that is checked. Another one replaces the check.
	PodUID types.UID
	// InitialDelay passes before the first run.
	InitialDelay time.Duration
	// Period lies between the beginnings of two runs. Greater than 0.
	Period time.Duration
	// Timeout is how long a run may take. Greater than 0.
	Timeout time.Duration
	// Run does it. Its context ends at the timeout, when the check is removed or
	// replaced, and when the pool stops; what that comes to, Run says in its result.
	Run func(ctx context.Context) T
	// Overdue makes the result of a run that has not returned although its context
	// ended, once when it is given up and again at every period until it returns.
	// Nil: nothing is reported.
	Overdue func() T
}

// sameCadence says whether the check can go on in the rhythm of the other.
func (c *Check[T]) sameCadence(other *Check[T]) bool {
	return c.PodUID == other.PodUID && c.InitialDelay == other.InitialDelay &&
		c.Period == other.Period && c.Timeout == other.Timeout
}

// firstDelay is how long the first run waits: the same for the same pod in every
// process, and spread evenly among pods.
func (c *Check[T]) firstDelay() time.Duration {
	hash := fnv.New64a()
	_, _ = io.WriteString(hash, c.Key.String()+"/"+string(c.PodUID))
	spread := min(c.Period, maxSpread)
	return c.InitialDelay + time.Duration(mix(hash.Sum64())%uint64(spread))
}

// mix has every bit of h bear on every bit of the result: of keys that differ in
// their last character only, fnv's high bits hardly differ.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	return h
}
