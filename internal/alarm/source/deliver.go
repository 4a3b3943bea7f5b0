package source

import (
	"context"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
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
	// complete is Batch.CountsKnown.
	complete bool

	occurrence *alarm.Occurrence
	// count is the new count of an Event. Without a UID, the count is unchanged.
	count Count
	// forget is the UID of a deleted Event.
	forget string
	reset  *Reset
	// baseline is the result of a first list. It is never split.
	baseline *baseline
}

// baseline contains the counts from which increases are computed.
type baseline struct {
	counts []Count
	forget []string
}

// deliver calls the handler with batches until ctx ends or in is closed.
func (s *Source) deliver(ctx context.Context, in <-chan change, handle Handler) {
	for {
		g, ok := gather(ctx, in)
		if !ok {
			return
		}
		s.batchTaken(g.oldest, len(in))
		s.commit(ctx, g.batch, handle)
	}
}

// commit offers a batch until the handler accepts it or ctx ends.
func (s *Source) commit(ctx context.Context, b Batch, handle Handler) {
	backoff := s.backoff
	for ctx.Err() == nil {
		err := handle(ctx, b)
		if err == nil {
			s.committed(b)
			return
		}
		if ctx.Err() != nil {
			return
		}
		s.commitFailed(err)
		s.sleep(ctx, backoff.Step())
	}
}

// gather waits for a change and adds the changes that already wait.
func gather(ctx context.Context, in <-chan change) (gathered, bool) {
	g := gathered{counted: map[string]int{}}
	select {
	case <-ctx.Done():
		return g, false
	case c, ok := <-in:
		if !ok {
			return g, false
		}
		g.add(c)
	}
	for !g.full() {
		select {
		case c, ok := <-in:
			if !ok {
				return g, true
			}
			g.add(c)
		default:
			return g, true
		}
	}
	return g, true
}

// gathered is a batch that is being built.
type gathered struct {
	batch Batch
	// oldest is the time of the first change.
	oldest time.Time
	// changes is the number of changes. sealed is true if no more can be added.
	changes int
	sealed  bool
	// counted is the index of each UID in batch.Counts.
	counted map[string]int
}

func (g *gathered) full() bool {
	return g.sealed || g.changes >= maxChanges || len(g.batch.Occurrences) >= maxOccurrences
}

func (g *gathered) add(c change) {
	g.changes++
	if g.oldest.IsZero() || c.since.Before(g.oldest) {
		g.oldest = c.since
	}
	b := &g.batch
	b.Position, b.Time, b.CountsKnown = c.position, c.time, c.complete
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
	if c.baseline != nil {
		b.Counts, b.Forget = c.baseline.counts, c.baseline.forget
		g.sealed = true
	}
}

func (g *gathered) count(c Count) {
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
