package checkpoint_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
)

// minute returns a time in minutes after a fixed one.
func minute(c float64) time.Time { return time.Unix(1_800_000_000+int64(60*c), 0) }

func TestThePositionHistoryFindsThePositionBeforeAWindow(t *testing.T) {
	var c checkpoint.Checkpoint
	c.PositionHistory = checkpoint.ExtendPositionHistory(c.PositionHistory, 10, time.Time{}) // before the first occurrence
	for i := range 10 {
		c.PositionHistory = checkpoint.ExtendPositionHistory(c.PositionHistory, uint64(20+10*i), minute(float64(i)))
	}
	for name, tc := range map[string]struct {
		position uint64
		window   time.Duration
		want     uint64
	}{
		"no window":                              {85, 0, 85},
		"before the recorded position":           {110, time.Minute, 90},
		"between two positions":                  {109, time.Minute, 80},
		"several positions":                      {110, 5 * time.Minute, 50},
		"the first second belongs to the window": {110, 5*time.Minute - time.Second, 60},
		"to the beginning":                       {40, time.Hour, 10},
		"right after the beginning":              {10, time.Hour, 10},
		"before the history begins":              {9, time.Hour, 9},
	} {
		if got := c.Before(tc.position, tc.window); got != tc.want {
			t.Errorf("%s: got %d, want %d", name, got, tc.want)
		}
	}
}

func TestThePositionHistoryIsLimited(t *testing.T) {
	var c checkpoint.Checkpoint
	position := uint64(alarm.ResetPosition)
	for i := range 5_000 {
		position++
		c.PositionHistory = checkpoint.ExtendPositionHistory(c.PositionHistory, position, minute(float64(i)/10))
		if before := c.Before(position, checkpoint.MaxWindow); i > 700 && position-before > 630 {
			t.Fatalf("at %d it leads back to %d, which is more than an hour and two intervals", position, before)
		}
	}
	if len(c.PositionHistory) > 64 {
		t.Errorf("it has %d positions", len(c.PositionHistory))
	}
}

func TestThePositionHistoryGrowsOnlyWithLaterPositions(t *testing.T) {
	history := checkpoint.ExtendPositionHistory(nil, 10, minute(0))
	for name, next := range map[string]checkpoint.TimedPosition{
		"the same":        {Position: 10, Time: minute(9).Unix()},
		"a replay":        {Position: 5, Time: minute(9).Unix()},
		"soon after":      {Position: 20, Time: minute(0.9).Unix()},
		"from now on":     {},
		"an older moment": {Position: 20, Time: minute(-9).Unix()},
	} {
		if diff := cmp.Diff(history, checkpoint.ExtendPositionHistory(history, next.Position, time.Unix(next.Time, 0))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestTheTimeOfAPositionIsNeverLaterThanThePosition(t *testing.T) {
	c := checkpoint.Checkpoint{
		Offsets: progress.Offsets{Position: 100}, Time: minute(10).Unix(),
		PositionHistory: []checkpoint.TimedPosition{{Position: 10}, {Position: 20, Time: minute(1).Unix()}, {Position: 90, Time: minute(9).Unix()}},
	}
	for position, want := range map[uint64]time.Time{
		5: {}, 15: {}, 20: minute(1), 89: minute(1), 99: minute(9), 100: minute(10), 120: minute(10),
	} {
		if got := c.TimeOf(position); !got.Equal(want) {
			t.Errorf("position %d has the time %v, want %v", position, got, want)
		}
	}
	if got := (&checkpoint.Checkpoint{Offsets: progress.Offsets{Position: 100}}).TimeOf(100); !got.IsZero() {
		t.Errorf("a checkpoint without a time returns %v", got)
	}
}
