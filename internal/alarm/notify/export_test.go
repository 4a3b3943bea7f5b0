package notify

// Working returns the number of receivers with a goroutine.
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

// Limiters returns the number of rate limiters in use.
func Limiters(d *Dispatcher) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.limiters)
}
