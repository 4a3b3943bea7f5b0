package pipeline

import (
	"testing"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

func TestWhatWaitsForLongerThanEventsAreKeptIsOnTheLeadersDiskAlone(t *testing.T) {
	for name, tc := range map[string]struct {
		lost bool
		want int
	}{
		"the leader has its disk": {lost: false, want: 1},
		"the disk is lost":        {lost: true, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, w := t.Context(), newWorld(t, 1)
			r := &replica{w: w, dir: t.TempDir()}
			first := r.lead(ctx)
			first.read(ctx, 0)
			w.happen(1)
			waits := "slow/" + alarm.Key("slow", w.compiled.UID, &w.events[0])
			first.read(ctx, 1)
			must(t, first.writeCheckpoint(ctx))
			first.crash()

			w.events = nil // they have expired
			if tc.lost {
				r.dir = t.TempDir()
			}
			next := r.lead(ctx)
			defer next.crash()
			next.read(ctx, 1)
			next.deliverAll(ctx)
			if got := w.got[waits]; got != tc.want {
				t.Errorf("sent %d times, want %d", got, tc.want)
			}
		})
	}
}
