package alarm_test

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/testing/setclock"
)

func TestTimesFollowAClockThatIsSet(t *testing.T) {
	began := time.Unix(1_800_000_000, 0)
	for name, tc := range map[string]struct {
		set                time.Duration
		wantBegan, wantNow time.Duration
	}{
		"not set":     {0, 0, time.Minute},
		"set back":    {-time.Hour, -time.Hour, time.Minute - time.Hour},
		"set forward": {time.Hour, time.Hour, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			passing := clocktesting.NewFakeClock(began)
			clk := &setclock.Clock{WithTicker: passing}
			passing.Step(time.Minute)
			clk.Set(tc.set)
			if got := alarm.Began(clk, began).Sub(began); got != tc.wantBegan {
				t.Errorf("it began at %v, want %v", got, tc.wantBegan)
			}
			if got := alarm.Now(clk, began).Sub(began); got != tc.wantNow {
				t.Errorf("it is %v, want %v", got, tc.wantNow)
			}
		})
	}
}
