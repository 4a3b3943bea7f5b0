package checkpoint

import (
	"slices"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

// MaxWindow is the time that the position history covers.
const MaxWindow = time.Hour

// positionInterval is the minimum time between two positions of the history.
const positionInterval = time.Minute

// ExtendPositionHistory adds a position to a history if it is later than the last one by
// the interval. It removes positions that no window needs.
func ExtendPositionHistory(history []TimedPosition, position uint64, at time.Time) []TimedPosition {
	if position == 0 { // from now on: the position is not known yet
		return history
	}
	next := TimedPosition{Position: position}
	if !at.IsZero() {
		next.Time = at.Unix()
	}
	if n := len(history); n > 0 && (position <= history[n-1].Position || next.Time < history[n-1].Time+int64(positionInterval/time.Second)) {
		return history
	}
	history = append(slices.Clone(history), next)
	oldest := next.Time - int64((MaxWindow+2*positionInterval)/time.Second)
	kept := 0
	if history[0].Position == alarm.ResetPosition {
		kept = 1 // what waited then is needed until it is sent
	}
	for len(history) > kept+1 && history[kept+1].Time < oldest {
		history = slices.Delete(history, kept, kept+1)
	}
	return history
}

// Before returns a position before all occurrences of the window that ends at a position,
// as far as the history reaches.
func (c *Checkpoint) Before(position uint64, window time.Duration) uint64 {
	beyond := slices.IndexFunc(c.PositionHistory, func(at TimedPosition) bool { return at.Position > position })
	if beyond < 0 {
		beyond = len(c.PositionHistory)
	}
	if window == 0 || beyond == 0 {
		return position
	}
	begin := c.PositionHistory[beyond-1].Time - int64(window/time.Second)
	before := c.PositionHistory[0].Position
	for _, at := range c.PositionHistory[1:beyond] {
		if at.Time < begin {
			before = at.Position
		}
	}
	return before
}

// TimeOf returns the latest known time of a position: an Event that was created before it
// already existed at the position. It is zero if there is none.
func (c *Checkpoint) TimeOf(position uint64) time.Time {
	var seconds int64
	for _, at := range c.PositionHistory {
		if at.Position <= position {
			seconds = at.Time
		}
	}
	if position >= c.Position {
		seconds = c.Time
	}
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}
