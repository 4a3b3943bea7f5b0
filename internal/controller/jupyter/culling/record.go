package culling

import "time"

// Observation is what one probe came to.
type Observation struct {
	// At is when it was begun: of what came later it knows nothing.
	At time.Time
	// Failure says why nothing was found out; empty if something was.
	Failure string
	// Last is when the server was last used, and Busy that it is being used.
	Last time.Time
	Busy bool
	// Detail says what there is, for people.
	Detail string
}

// Record is what the probes of one pod came to in this process. The zero Record is
// of a pod that was not probed yet.
type Record struct {
	latest   Observation
	failures int
	// used is the latest use of the notebook that any probe knew of.
	used time.Time
	// since is when probes were taken up again after they had broken off, or the clock
	// had jumped. Zero: never.
	since time.Time
}

// Add returns the record with a further observation, which must not be older.
func (r Record) Add(o Observation, s Settings) Record {
	o.At = o.At.Round(0) // a jump shows in the wall clock only
	if gap := o.At.Sub(r.latest.At); !r.latest.At.IsZero() && (gap < 0 || gap > s.fresh()) {
		r.since = o.At
	}
	r.latest = o
	if o.Failure != "" {
		r.failures++
		return r
	}
	r.failures = 0
	r.used = later(r.used, o.use())
	return r
}

// use is the latest use that an observation knows of.
func (o Observation) use() time.Time {
	if o.Busy {
		return later(o.Last, o.At)
	}
	return o.Last
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
