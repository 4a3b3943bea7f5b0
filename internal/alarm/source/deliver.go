package source

import (
	"context"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

// change is what one entry of a watch or list amounts to.
type change struct {
	// position is where to resume once this and all before it are committed; time
	// is Batch.Time.
	position uint64
	time     time.Time
	// since is when it happened, as far as that is known, or when it was read.
	since time.Time
	// complete is Batch.CountsKnown.
	complete bool

	occurrence *alarm.Occurrence
	// count is what is now known of an Event; without UID it is nothing new.
	count Count
	// forget is the UID of an Event that is gone.
	forget string
	reset  *Reset
	// baseline is what a first list found; it is not divided.
	baseline *baseline
}

// baseline is the state from which increases are told.
type baseline struct {
	counts []Count
	forget []string
}

// deliver hands out batches until ctx ends or in is closed.
func (f *Source) deliver(ctx context.Context, in <-chan change, handle Handler) {
	for {
		g, ok := gather(ctx, in)
		if !ok {
			return
		}
		f.batchTaken(g.oldest, len(in))
		f.commit(ctx, g.batch, handle)
	}
}

// commit offers b until the handler takes it or ctx ends.
func (f *Source) commit(ctx context.Context, b Batch, handle Handler) {
	backoff := f.backoff
	for ctx.Err() == nil {
		err := handle(ctx, b)
		if err == nil {
			f.committed(b)
			return
		}
		if ctx.Err() != nil {
			return
		}
		f.commitFailed(err)
		f.sleep(ctx, backoff.Step())
	}
}

// gather waits for a change and takes with it what else is there.
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

// gathering is a batch that grows.
type gathered struct {
	batch Batch
	// oldest is when the first of it happened.
	oldest time.Time
	// changes is how many it is made of; whole, that it takes no other.
	changes int
	sealed  bool
	// counted is where in batch.Counts a UID stands.
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

// forget keeps the promise that what is forgotten is not counted as well.
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
