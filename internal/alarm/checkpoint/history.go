package checkpoint

import (
	"slices"
	"time"
)

// MaxWindow is how far back the trail leads.
const MaxWindow = time.Hour

// markEvery is how far the marks of the trail are apart at least.
const positionInterval = time.Minute

// Mark says what time it was at a position, by the clock of what happened: nothing
// up to Position happened after Time, nothing beyond it before.
type TimedPosition struct {
	Position uint64 `json:"position"`
	// Time in seconds since 1970; 0 where nothing had happened yet.
	Time int64 `json:"time"`
}

// Extend returns a trail that leads to a position, or the same one if there is
// nothing new to mark. Marks from which no window leads on are left out.
func ExtendPositionHistory(trail []TimedPosition, position uint64, at time.Time) []TimedPosition {
	if position == 0 { // which is from now, wherever that is
		return trail
	}
	next := TimedPosition{Position: position}
	if !at.IsZero() {
		next.Time = at.Unix()
	}
	if n := len(trail); n > 0 && (position <= trail[n-1].Position || next.Time < trail[n-1].Time+int64(positionInterval/time.Second)) {
		return trail
	}
	trail = append(slices.Clone(trail), next)
	oldest := next.Time - int64((MaxWindow+2*positionInterval)/time.Second)
	for len(trail) > 1 && trail[1].Time < oldest {
		trail = trail[1:]
	}
	return trail
}

// Before returns a position from which all is read that happened in the window
// before the given one, as far as the trail leads.
func (m *Checkpoint) Before(position uint64, window time.Duration) uint64 {
	beyond := slices.IndexFunc(m.PositionHistory, func(mark TimedPosition) bool { return mark.Position > position })
	if beyond < 0 {
		beyond = len(m.PositionHistory)
	}
	if window == 0 || beyond == 0 {
		return position
	}
	begin := m.PositionHistory[beyond-1].Time - int64(window/time.Second)
	before := m.PositionHistory[0].Position
	for _, mark := range m.PositionHistory[1:beyond] {
		if mark.Time < begin {
			before = mark.Position
		}
	}
	return before
}
