package notify

// Working is how many receivers have a goroutine.
func Working(d *Dispatcher) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for _, q := range d.queues {
		if q.working {
			n++
		}
	}
	return n
}

// Limiters is how many rate limits are held.
func Limiters(d *Dispatcher) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.limiters)
}
