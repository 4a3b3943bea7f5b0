package pipeline

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

func TestTheMirrorTellsWhatWaitsInGroups(t *testing.T) {
	replaying := outbox.State{Position: 50, Delivered: outbox.DeliveredOffsets{
		Default: 90, Waiting: map[string]outbox.Held{"ops": {"passed": 50, "ahead": 60}, "other": {"ahead": 70}},
	}}
	for name, tc := range map[string]struct {
		state         outbox.State
		held          int
		waits         map[string]map[string]uint64
		behind, wants map[string]uint64 // receivers that are behind before, and then
	}{
		"nothing": {waits: map[string]map[string]uint64{}},
		"what is held": {
			held: 2, waits: map[string]map[string]uint64{"ops": {"k1": 1, "k2": 2}},
		},
		"and what a replay has yet to come to": {
			state: replaying, held: 1,
			waits: map[string]map[string]uint64{"ops": {"k1": 1, "ahead": 60}, "other": {"ahead": 70}},
		},
		"too much: from there on it may be told again": {
			state: replaying, held: checkpoint.MaxWaiting,
			behind: map[string]uint64{"other": 65}, wants: map[string]uint64{"ops": 0, "other": 65},
		},
		"too much, and further behind already": {
			held: checkpoint.MaxWaiting + 1, behind: map[string]uint64{"ops": 0}, wants: map[string]uint64{"ops": 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			books, err := outbox.Open(t.Context(), t.TempDir())
			must(t, err)
			defer func() { must(t, books.Close()) }()
			batch := outbox.Batch{Position: checkpoint.MaxWaiting + 10}
			for i := range uint64(tc.held) {
				batch.Entries = append(batch.Entries, outbox.Entry{
					Receiver: "ops", Alarm: "ClusterAlarm//some", Key: fmt.Sprint("k", i+1), Position: i + 1, Count: 1,
					Member: &outbox.Membership{Group: "g", At: time.Unix(1_800_000_000, 0), Wait: time.Hour},
				})
			}
			must(t, books.Commit(t.Context(), batch))
			m := checkpoint.Checkpoint{Position: 90, Behind: map[string]uint64{}}
			maps.Copy(m.Behind, tc.behind)
			p := &Pipeline{ledger: books}
			must(t, p.addWaiting(t.Context(), &m, outbox.Snapshot{State: tc.state}))
			if diff := cmp.Diff(tc.waits, m.Waiting); diff != "" {
				t.Errorf("waits: %s", diff)
			}
			if tc.wants == nil {
				tc.wants = map[string]uint64{}
			}
			if diff := cmp.Diff(tc.wants, m.Behind); diff != "" {
				t.Errorf("behind: %s", diff)
			}
		})
	}
}
