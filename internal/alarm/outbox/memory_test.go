package outbox

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestSnapshotAgreesWithTheFile does random things and compares after each.
func TestSnapshotAgreesWithTheFile(t *testing.T) {
	ctx, l := context.Background(), open(t, t.TempDir())
	random := rand.New(rand.NewPCG(1, 2))
	receiver := func() string { return fmt.Sprint("r", random.IntN(4)) }
	now := day
	actions := []func() error{
		func() error {
			now = now.Add(time.Minute)
			batch := Batch{Position: l.State().Position + 3, Entries: entries(receiver(), int(l.State().Position)+1, 3)}
			batch.Entries[0].CreatedAt = now
			return l.Commit(ctx, batch)
		},
		func() error { // a replay: some of it is there already
			position := l.State().Position
			return l.Commit(ctx, Batch{Position: position, Entries: entries(receiver(), max(1, int(position)-10), 5)})
		},
		func() error { return ignore(l.Prepare(ctx, receiver(), random.Int64N(200), "key", nil)) },
		func() error {
			a, err := l.Prepared(ctx, receiver())
			if a != nil {
				_, err = l.Acknowledge(ctx, a)
			}
			return err
		},
		func() error { return second(l.DropOlderThan(ctx, receiver(), now.Add(-10*time.Minute))) },
		func() error {
			done := l.State().Position - min(l.State().Position, 20)
			return second(l.DropAtOrBelow(ctx, done, map[string]uint64{receiver(): done / 2}))
		},
	}
	for i := range 500 {
		must(t, actions[random.IntN(len(actions))]())
		var file memory
		must(t, file.load(ctx, l.readers))
		want := Snapshot{State: file.state, Backlogs: file.backlogs}
		if diff := cmp.Diff(want, l.Snapshot()); diff != "" {
			t.Fatalf("after %d actions: %s", i+1, diff)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func ignore[T any](T, error) error { return nil }
