package pipeline

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/ledger"
	"github.com/bongsu-io/bongsu/internal/mirror"
)

func TestTheMirrorTellsWhatWaitsInGroups(t *testing.T) {
	replaying := ledger.State{Position: 50, Floors: ledger.Floors{
		Default: 90, Waiting: map[string]ledger.Held{"ops": {"passed": 50, "ahead": 60}, "other": {"ahead": 70}},
	}}
	for name, tc := range map[string]struct {
		state         ledger.State
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
			state: replaying, held: mirror.MaxWaiting,
			behind: map[string]uint64{"other": 65}, wants: map[string]uint64{"ops": 0, "other": 65},
		},
		"too much, and further behind already": {
			held: mirror.MaxWaiting + 1, behind: map[string]uint64{"ops": 0}, wants: map[string]uint64{"ops": 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			books, err := ledger.Open(t.Context(), t.TempDir())
			must(t, err)
			defer func() { must(t, books.Close()) }()
			batch := ledger.Batch{Position: mirror.MaxWaiting + 10}
			for i := range uint64(tc.held) {
				batch.Entries = append(batch.Entries, ledger.Entry{
					Receiver: "ops", Alarm: "ClusterAlarm//some", Key: fmt.Sprint("k", i+1), Position: i + 1, Count: 1,
					Member: &ledger.Membership{Group: "g", At: time.Unix(1_800_000_000, 0), Wait: time.Hour},
				})
			}
			must(t, books.Commit(t.Context(), batch))
			m := mirror.Mirror{Position: 90, Behind: map[string]uint64{}}
			maps.Copy(m.Behind, tc.behind)
			p := &Pipeline{ledger: books}
			must(t, p.addWaiting(t.Context(), &m, ledger.Snapshot{State: tc.state}))
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
