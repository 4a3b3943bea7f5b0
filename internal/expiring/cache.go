// Package expiring provides a cache whose entries expire. It has no goroutine: that of golang-lru's
// package expirable never ends, and wakes up a hundred times in the time that an entry lives.
package expiring

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"k8s.io/utils/clock"
)

// Cache contains entries that were added a short time ago. It is safe for concurrent use.
type Cache[K comparable, V any] struct {
	ttl   time.Duration
	clock clock.PassiveClock

	mu sync.Mutex
	// entries is in the order of Add: nothing else marks an entry as used.
	entries *simplelru.LRU[K, entry[V]]
}

type entry[V any] struct {
	value V
	until time.Time
}

// New returns a Cache of at most size entries, from 1, which live for ttl. When it is full, the oldest
// entry is removed. The memory of expired entries is freed by the next Add.
func New[K comparable, V any](size int, ttl time.Duration, clk clock.PassiveClock) *Cache[K, V] {
	entries, err := simplelru.NewLRU[K, entry[V]](size, nil)
	if err != nil {
		panic(err) // the size is not positive
	}
	return &Cache[K, V]{ttl: ttl, clock: clk, entries: entries}
}

// Add adds an entry, or replaces it.
func (c *Cache[K, V]) Add(key K, value V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	for _, oldest, ok := c.entries.GetOldest(); ok && !now.Before(oldest.until); _, oldest, ok = c.entries.GetOldest() {
		c.entries.RemoveOldest()
	}
	c.entries.Add(key, entry[V]{value, now.Add(c.ttl)})
}

// Get returns the value of an entry that has not expired.
func (c *Cache[K, V]) Get(key K) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, found := c.entries.Peek(key); found && c.clock.Now().Before(e.until) {
		return e.value, true
	}
	return value, false
}
