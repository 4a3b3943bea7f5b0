package source

import (
	"iter"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

// reader follows the API server and sends the changes.
type reader struct {
	source *Source
	client *client
	out    chan<- change
	counts *counts

	// progress advances with each Event of a watch, but not during a list.
	progress
	// newest is the creation time of the newest Event, including Events of a list.
	newest time.Time

	// relist is true if the next watch must begin with a list. listing is true during the
	// list.
	relist, listing bool
	// needed is Start.Needed. The API server no longer has the positions of a replay up to
	// expired.
	needed, expired uint64
	// asked is the position of the API server at the time askedAt, before the watch. The time is
	// zero if an Event after that position has come.
	asked   uint64
	askedAt time.Time
	// window contains changes of a list that are not sent yet.
	window []change

	// failing is true if the last watch failed.
	failing bool
}

func newReader(source *Source, start Start, remembered *counts, out chan<- change) *reader {
	r := &reader{
		source: source,
		client: source.client,
		out:    out,
		counts: remembered,
		progress: progress{
			position: start.Position, time: start.Time, complete: start.CountsKnown,
			until: start.Until, untilTime: start.UntilTime,
		},
		newest: start.Time,
		needed: start.Needed,
	}
	if start.Position == alarm.ResetPosition {
		r.counts.forgetPositions()
		r.progress.reset = true
		r.relist = r.until <= r.position // else it begins a replay: see seedAtPosition
	}
	return r
}

// Start is where the source begins to read.
type Start struct {
	// Position is the last committed position. 0 begins now: earlier occurrences are not
	// reported.
	Position uint64
	// Time is the last committed Batch.Time, zero if it is unknown. It matters only if a
	// count is missing: an Event that is not newer existed at Position, and counts as one
	// occurrence. If it is unknown, that applies to every Event. It must not be too late.
	Time time.Time
	// Needed is a position during a replay: the occurrences before it were handled, and only
	// restore state. If Position has expired, the source lists the Events as of Needed and
	// continues there, so that it misses no later occurrence. 0 is none.
	Needed uint64
	// Until is the end of a replay: the position up to which all Events were read before.
	// If Position and Needed have expired, the source lists the Events as of Until. Without a
	// replay, it is 0. UntilTime is like Time, for Until.
	Until     uint64
	UntilTime time.Time
	// Counts are the counts as committed with Position, in any order; nil is none. They
	// are read once, when Run begins. Run returns their error.
	Counts iter.Seq2[alarm.EventCount, error]
	// CountsKnown is true if Counts is complete as of Position. Otherwise, the source
	// lists the Events as of that position.
	CountsKnown bool
}
