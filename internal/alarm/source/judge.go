package source

import "time"

// sighting is what one look at an Event tells.
type observation struct {
	position uint64
	count    int32
	created  time.Time
}

// vantage is from where an Event that is not remembered is judged.
type progress struct {
	// position is the last one that was read; time is the creation time of the
	// newest Event up to there, zero if it is not known.
	position uint64
	time     time.Time
	// complete says that every Event that was live at position is remembered.
	complete bool
	// reset says that the API server was set back: what was created before time was
	// read before, in the history that was undone.
	reset bool
}

// firstIncrease returns by how much the count of an Event that is not remembered
// has increased since v.
//
// Where the count as of v is lost for good, an Event that existed then has
// changed since, for a reason that is unknown: once, so that nothing is lost. One
// that was created in the very second of v.time counts as new, for the same
// reason.
func (v progress) firstIncrease(s observation) int32 {
	older := s.created.Before(v.time)
	switch {
	case s.position <= v.position, v.reset && older:
		return 0
	case !v.complete && older:
		return 1
	default:
		return s.count
	}
}

// increase returns by how much the count of a remembered Event has increased. One
// that fell is taken over silently.
func (k known) increase(s observation) int32 {
	return max(s.count-k.count, 0)
}
