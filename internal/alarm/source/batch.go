package source

import (
	"context"
	"iter"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

// Start says where the feed begins.
type Start struct {
	// Position is the last one committed. 0 begins now: what happened before is
	// not reported.
	Position uint64
	// Time is the last Batch.Time committed, or the zero time if it is not known.
	// It is asked only where a count is missing: what was created before it has
	// been seen before. It may be too early (more is reported then), never too late.
	Time time.Time
	// Counts are the counts as they were committed with Position, in any order; nil
	// is none. It is read once, when Run begins; Run returns its error.
	Counts iter.Seq2[Count, error]
	// CountsKnown says that Counts is complete as of Position. Without it the feed
	// asks the API server for the counts as they stood then.
	CountsKnown bool
}

// Count is what the feed remembers of one live Event.
type Count struct {
	// UID of the Event.
	UID string
	// Count is how often it has occurred.
	Count int64
	// Position is the resourceVersion at which it had that count.
	Position uint64
}

// Batch is what happened next. Its parts belong into one transaction.
type Batch struct {
	// Position is where to resume once the batch is committed. It grows from batch
	// to batch but for one that carries a Reset, and stays where it was while a list
	// is under way, so that an unfinished list is done again.
	Position uint64
	// Time is the creation time of the newest Event seen, on the API server's clock.
	Time time.Time
	// Occurrences are in order of position, but for those found by listing, which
	// are in order within windows of 10,000: the API server lists in order of names,
	// and a list is not held in memory. At most 512.
	Occurrences []alarm.Occurrence
	// Counts are those that changed, each UID once. After a first list they are all
	// there are; otherwise at most 4,096.
	Counts []Count
	// CountsKnown says that with these all counts as of Position are known: the next
	// Start.CountsKnown.
	CountsKnown bool
	// Forget lists the UIDs of Events that are gone; none of them is in Counts.
	Forget []string
	// Reset is set if Position is not of the same history as the one before.
	Reset *Reset
}

// Reset tells that the API server's Events are not those of which the position
// was taken.
type Reset struct {
	// Reason is a sentence for a user.
	Reason string
}

// Handler commits a batch: when it returns nil, the batch must be durable. On an
// error the same batch is offered again after a back-off, as often as needed;
// nothing is skipped. The batch is the handler's to keep.
type Handler func(ctx context.Context, b Batch) error
