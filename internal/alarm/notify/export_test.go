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

// InFlight returns the numbers of requests to AlarmReceivers in flight and waiting.
func InFlight(d *Dispatcher) (granted, waiting int) {
	d.inFlight.mu.Lock()
	defer d.inFlight.mu.Unlock()
	for _, places := range d.inFlight.waiting {
		waiting += len(places)
	}
	return d.inFlight.total, waiting
}
