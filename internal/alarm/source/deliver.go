package source

import (
	"context"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/apiwatch"
)

// change is what one entry of a watch or a list changes.
type change struct {
	// position is where to resume after this change and all earlier ones are committed.
	// time is Batch.Time.
	position uint64
	time     time.Time
	// since is the time of the occurrence if it is known, else the time at which the
	// entry was read.
	since time.Time
	// readUpTo is Batch.ReadUpTo, or zero.
	readUpTo time.Time
	// complete is Batch.CountsKnown.
	complete bool

	occurrence *alarm.Occurrence
	// count is the new count of an Event. Without a UID, the count is unchanged.
	count alarm.EventCount
	// forget is the UID of a deleted Event.
	forget string
	reset  *Reset
}

// deliver calls the handler with batches until ctx ends or in is closed.
func (s *Source) deliver(ctx context.Context, in <-chan change, handle Handler) {
	for batches := (&batcher{in: in}); ; {
		g, ok := batches.next(ctx)
		if !ok {
			return
		}
		s.batchTaken(g.oldest, len(in))
		s.commit(ctx, g.batch, handle)
	}
}

// commit offers a batch until the handler accepts it or ctx ends.
func (s *Source) commit(ctx context.Context, b Batch, handle Handler) {
	err := apiwatch.Commit(ctx, s.clock, s.backoff, func() error { return handle(ctx, b) }, s.commitFailed)
	if err == nil {
		s.committed(b)
	}
}

// batcher gathers changes into batches.
type batcher struct {
	in <-chan change
	// following is the change that begins the next batch, or nil.
	following *change
}

// next waits for a change and adds the changes that already wait. A reset begins a batch, so
// that no batch contains Events of two histories. ok is false after the last batch.
func (b *batcher) next(ctx context.Context) (g gathered, ok bool) {
	g.counted = map[string]int{}
	for !g.full() {
		c, ok := b.take(ctx, g.changes == 0)
		if !ok {
			break
		}
		if c.reset != nil && g.changes > 0 {
			b.following = &c
			break
		}
		g.add(c)
	}
	return g, g.changes > 0
}

// take returns the next change, if there is one. It waits only if wait is true.
func (b *batcher) take(ctx context.Context, wait bool) (c change, ok bool) {
	if b.following != nil {
		c, b.following = *b.following, nil
		return c, true
	}
	if wait {
		select {
		case c, ok = <-b.in:
		case <-ctx.Done():
		}
		return c, ok
	}
	select {
	case c, ok = <-b.in:
	default:
	}
	return c, ok
}

// gathered is a batch that is being built.
type gathered struct {
	batch Batch
	// oldest is the time of the first change.
	oldest  time.Time
	changes int
	// counted is the index of each UID in batch.Counts.
	counted map[string]int
}

func (g *gathered) full() bool {
	return g.changes >= maxChanges || len(g.batch.Occurrences) >= maxOccurrences
}

func (g *gathered) add(c change) {
	g.changes++
	if g.oldest.IsZero() || c.since.Before(g.oldest) {
		g.oldest = c.since
	}
	b := &g.batch
	b.Position, b.Time, b.CountsKnown = c.position, c.time, c.complete
	b.ReadUpTo = alarm.Later(b.ReadUpTo, c.readUpTo)
	if c.reset != nil {
		b.Reset = c.reset
	}
	if c.occurrence != nil {
		b.Occurrences = append(b.Occurrences, *c.occurrence)
	}
	if c.count.UID != "" {
		g.count(c.count)
	}
	if c.forget != "" {
		g.forget(c.forget)
	}
}

func (g *gathered) count(c alarm.EventCount) {
	if at, ok := g.counted[c.UID]; ok {
		g.batch.Counts[at] = c
		return
	}
	g.counted[c.UID] = len(g.batch.Counts)
	g.batch.Counts = append(g.batch.Counts, c)
}

// forget removes the count of a deleted Event from the batch.
func (g *gathered) forget(uid string) {
	counts := g.batch.Counts
	if at, ok := g.counted[uid]; ok {
		last := len(counts) - 1
		counts[at] = counts[last]
		g.counted[counts[at].UID] = at
		g.batch.Counts = counts[:last]
		delete(g.counted, uid)
	}
	g.batch.Forget = append(g.batch.Forget, uid)
}

// eventPosition is the position of the changed Event.
func (c change) eventPosition() uint64 {
	if c.occurrence != nil {
		return c.occurrence.Position
	}
	return c.count.Position
}

const (
	// maxOccurrences limits the occurrences of a batch, and maxChanges all its changes.
	// maxChanges is also the number of changes that can wait for the handler before the
	// watch pauses.
	maxOccurrences = 512
	maxChanges     = 4096
	// listWindow is the number of occurrences of a list that are sorted together.
	listWindow = 10_000
)
