package checkpoint_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
)

// minute is a time in minutes after some other.
func minute(m float64) time.Time { return time.Unix(1_800_000_000+int64(60*m), 0) }

func TestTheTrailLeadsBackByAWindow(t *testing.T) {
	var m checkpoint.Checkpoint
	m.PositionHistory = checkpoint.ExtendPositionHistory(m.PositionHistory, 10, time.Time{}) // nothing has happened
	for i := range 10 {
		m.PositionHistory = checkpoint.ExtendPositionHistory(m.PositionHistory, uint64(20+10*i), minute(float64(i)))
	}
	for name, tc := range map[string]struct {
		position uint64
		window   time.Duration
		want     uint64
	}{
		"no window":                       {85, 0, 85},
		"before the mark at the position": {110, time.Minute, 90},
		"between two marks":               {109, time.Minute, 80},
		"several marks":                   {110, 5 * time.Minute, 50},
		"what happened in its first second is in the window": {110, 5*time.Minute - time.Second, 60},
		"to the beginning":              {40, time.Hour, 10},
		"right after the beginning":     {10, time.Hour, 10},
		"from before the trail's begin": {9, time.Hour, 9},
	} {
		if got := m.Before(tc.position, tc.window); got != tc.want {
			t.Errorf("%s: got %d, want %d", name, got, tc.want)
		}
	}
}

func TestTheTrailIsBounded(t *testing.T) {
	var m checkpoint.Checkpoint
	position := uint64(0)
	for i := range 5_000 {
		position++
		m.PositionHistory = checkpoint.ExtendPositionHistory(m.PositionHistory, position, minute(float64(i)/10))
		if before := m.Before(position, checkpoint.MaxWindow); i > 700 && position-before > 630 {
			t.Fatalf("at %d it leads back to %d, which is more than an hour and two marks", position, before)
		}
	}
	if len(m.PositionHistory) > 64 {
		t.Errorf("it has %d marks", len(m.PositionHistory))
	}
}

func TestNothingNewExtendsNoTrail(t *testing.T) {
	trail := checkpoint.ExtendPositionHistory(nil, 10, minute(0))
	for name, next := range map[string]checkpoint.TimedPosition{
		"the same":        {Position: 10, Time: minute(9).Unix()},
		"a replay":        {Position: 5, Time: minute(9).Unix()},
		"soon after":      {Position: 20, Time: minute(0.9).Unix()},
		"from now on":     {},
		"an older moment": {Position: 20, Time: minute(-9).Unix()},
	} {
		if diff := cmp.Diff(trail, checkpoint.ExtendPositionHistory(trail, next.Position, time.Unix(next.Time, 0))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
