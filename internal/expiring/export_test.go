package expiring

// Len returns the number of entries in memory.
func (c *Cache[K, V]) Len() int { return c.entries.Len() }
