package outbox

import (
	"context"
	"errors"
	"sync"
	"testing"
)

func TestChangesThatWaitTogetherShareATransaction(t *testing.T) {
	s := open(t, t.TempDir())
	transactions := map[*tx]int{}
	note := func(_ context.Context, tx *tx) error {
		transactions[tx]++
		return nil
	}
	s.writer.queue = []*request{{change: note}, {change: note}, {change: note}}
	s.writer.flush(context.Background())
	if len(transactions) != 1 {
		t.Errorf("got %d transactions, want 1", len(transactions))
	}
}

func TestChangeThatFailsDoesNotFailOthers(t *testing.T) {
	ctx, s := context.Background(), open(t, t.TempDir())
	wrong := errors.New("wrong")
	claim := func(epoch string) change {
		return func(ctx context.Context, tx *tx) error { return tx.setState(ctx, State{Epoch: epoch}) }
	}
	requests := []*request{
		{change: claim("first")},
		{change: func(ctx context.Context, tx *tx) error { return errors.Join(claim("broken")(ctx, tx), wrong) }},
		{change: claim("last")},
	}
	s.writer.queue = requests
	s.writer.flush(ctx)
	for i, want := range []error{nil, wrong, nil} {
		if !errors.Is(requests[i].err, want) {
			t.Errorf("request %d: got %v, want %v", i, requests[i].err, want)
		}
	}
	if got := s.State().Epoch; got != "last" {
		t.Errorf("epoch: got %q, want that of the last change", got)
	}
}

func TestOnlyALazyTransactionDoesNotWaitForTheDisk(t *testing.T) {
	const normal, full = 1, 2 // https://www.sqlite.org/pragma.html#pragma_synchronous
	tests := map[string]struct {
		lazy []bool
		want int
	}{
		"eager":             {lazy: []bool{false}, want: full},
		"lazy":              {lazy: []bool{true}, want: normal},
		"lazy beside eager": {lazy: []bool{true, false, true}, want: full},
	}
	s := open(t, t.TempDir())
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got int
			for _, lazy := range tc.lazy {
				s.writer.queue = append(s.writer.queue, &request{lazy: lazy, change: func(ctx context.Context, tx *tx) error {
					return tx.row(ctx, `PRAGMA synchronous`).Scan(&got)
				}})
			}
			s.writer.flush(context.Background())
			if got != tc.want {
				t.Errorf("synchronous: got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestConcurrentWritersDeliverEverything(t *testing.T) {
	ctx, s := context.Background(), open(t, t.TempDir())
	var all sync.WaitGroup
	for _, receiver := range []string{"a", "b", "c", "d"} {
		all.Go(func() {
			for range 20 {
				err := s.Commit(ctx, Change{Events: &EventStep{}, Entries: entries(receiver, 1, 2)})
				if err = errors.Join(err, deliver(s, receiver)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got := s.Snapshot().Backlogs; len(got) != 0 {
		t.Errorf("got %v, want everything delivered", got)
	}
}

func TestCancelledCallChangesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s := open(t, t.TempDir())
	if err := s.Commit(ctx, Change{Events: &EventStep{Position: 1}}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	if got := s.State().Position; got != 0 {
		t.Errorf("position: got %d, want 0", got)
	}
}
