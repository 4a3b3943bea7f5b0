package calendar

import (
	"cmp"
	"fmt"
)

// overlap returns an error if two ranges of one list have something in common: one
// of them then is not what its author meant. Days counted from the start of a month
// and those from its end may meet in some months, which is nobody's mistake.
func (w *Window) checkOverlap() error {
	times := make([]span, 0, len(w.times))
	for _, s := range w.times { // the last minute, and no empty range after midnight
		times = append(times, span{s.start, (s.end + minutesOfDay - 1) % minutesOfDay})
	}
	return cmp.Or(
		checkOverlapIn("times", times),
		checkOverlapIn("weekdays", w.weekdays),
		checkOverlapIn("daysOfMonth", w.days),
		checkOverlapIn("months", w.months),
		checkOverlapIn("years", w.years),
	)
}

func checkOverlapIn(field string, spans []span) error {
	for i, b := range spans {
		for j, a := range spans[:i] {
			if overlaps(a, b) {
				return &Error{Field: fmt.Sprintf("%s[%d]", field, i), Message: fmt.Sprintf("overlaps with %s[%d]", field, j)}
			}
		}
	}
	return nil
}

// overlaps is so if either starts within the other.
func overlaps(a, b span) bool {
	if a.mixed() || b.mixed() {
		return false
	}
	return anyContains([]span{a}, b.start) || anyContains([]span{b}, a.start)
}

// mixed ranges begin with a day from the start of the month and end with one from
// its end.
func (s span) mixed() bool { return s.start > 0 && s.end < 0 }
