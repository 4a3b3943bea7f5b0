package outbox

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Many messages can be about one object. Moving them must not delay other writes for long, and
// a crash in between must not change their order.
func TestALongLaneIsMovedInChunks(t *testing.T) {
	const n = 2*chunk + chunk/2
	for name, crash := range map[string]bool{"without a crash": false, "with a crash after the first chunk": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			all := entries("r", 1, n)
			for i := range all {
				all[i].Subject = "object"
			}
			all[1].Subject = "other"
			must(t, s.Commit(t.Context(), Change{Events: &EventStep{Position: n}, Entries: all}))
			a := prepare(t, s, "r", 1)
			if crash {
				var done bool
				must(t, s.write(t.Context(), "set a message aside", func(ctx context.Context, tx *tx) (err error) {
					if _, _, err = tx.setAside(ctx, a); err == nil {
						done, err = tx.gather(ctx, "r")
					}
					return err
				}))
				if got := len(pending(t, s, "r")); done || got != n-1-chunk {
					t.Errorf("one step moved all but %d, done %t", got, done)
				}
				must(t, s.Close())
				s = open(t, dir)
			} else if moved, err := s.SetAside(t.Context(), a); !moved || err != nil {
				t.Fatalf("moved %t, %v", moved, err)
			}
			if lanes, err := s.SideLanes(t.Context(), "r"); len(lanes) != 1 || err != nil {
				t.Fatalf("lanes %v, %v", lanes, err)
			}
			if got := pending(t, s, "r"); len(got) != 1 || got[0] != 2 {
				t.Errorf("in the main lane: %v", got)
			}
			aside, err := s.Pending(t.Context(), Query{Receiver: "r", Lane: laneOf("object"), Limit: n})
			must(t, err)
			if len(aside) != n-2 || aside[0].Position != 3 || len(waitingEvents(t, s)["r"]) != n-1 {
				t.Errorf("%d are behind the message, %d in the checkpoint", len(aside), len(waitingEvents(t, s)["r"]))
			}
			if got := s.Backlog("r"); got.Entries != n || got.Lowest != 2 {
				t.Errorf("backlog %+v", got)
			}
		})
	}
}

func TestOneMessageOfABatchIsDroppedInOneTransaction(t *testing.T) {
	for name, tc := range map[string]struct {
		drop    []int64
		dropped int64
		left    []uint64
		lowest  uint64
	}{
		"the first":    {[]int64{1}, 1, []uint64{2, 3, 4}, 2},
		"the last":     {[]int64{3}, 1, []uint64{1, 2, 4}, 4},
		"none of them": {nil, 0, []uint64{1, 2, 3, 4}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			must(t, s.Commit(t.Context(), Change{Events: &EventStep{Position: 4}, Entries: append(of("r", 1, 4), of("other", 1, 1)...), Status: map[string]StatusCounts{shopWeb: {Matched: 5}}}))
			a := prepare(t, s, "r", 3)
			counts, err := s.Discard(t.Context(), a, tc.drop...)
			must(t, err)
			if counts[shopWeb] != tc.dropped {
				t.Errorf("dropped %v, want %d", counts, tc.dropped)
			}
			must(t, s.Close())
			s = open(t, dir)
			must(t, s.Confirm(t.Context()))
			if diff := cmp.Diff(tc.left, pending(t, s, "r")); diff != "" {
				t.Error(diff)
			}
			if got := s.Backlog("r"); got.Entries != int64(len(tc.left)) || got.Lowest != tc.lowest || s.Backlog("other").Entries != 1 {
				t.Errorf("backlog %+v, of another receiver %+v", got, s.Backlog("other"))
			}
			if a, err := s.Prepared(t.Context(), "r", MainLane); a != nil || err != nil {
				t.Errorf("prepared: %+v, %v", a, err)
			}
			if got := statusOf(t, s, shopWeb); got.Dropped != tc.dropped {
				t.Errorf("counted as %+v", got)
			}
		})
	}
}
