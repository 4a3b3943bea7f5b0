package calendar

import "time"

// Window is a time that comes again. It is immutable.
type Window struct {
	location *time.Location
	// times are minutes of the day; the others are days. Empty is all.
	times                         []span
	weekdays, days, months, years []span
}

// span is a range. Of times its end is the minute after the last one.
type span struct{ start, end int }

// Contains tells whether t is in the window. All is told by the wall clock of the
// window's time zone: where daylight saving skips a minute, that minute does not
// come; where one comes twice, it is the same minute both times.
func (w *Window) Contains(t time.Time) bool {
	t = t.In(w.location)
	// A date alone, in UTC, has no hour that is missing.
	today := time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
	if len(w.times) == 0 {
		return w.containsDay(today)
	}
	minute := t.Hour()*60 + t.Minute()
	for _, s := range w.times {
		if day, in := s.dayOf(minute, today); in && w.containsDay(day) {
			return true
		}
	}
	return false
}

// dayOf tells whether the minute of today is in a time of the day, and on which day
// that time started: it may have been yesterday.
func (s span) dayOf(minute int, today time.Time) (day time.Time, in bool) {
	switch pastMidnight := s.end <= s.start; {
	case !pastMidnight:
		return today, s.start <= minute && minute < s.end
	case minute >= s.start:
		return today, true
	default:
		return today.AddDate(0, 0, -1), minute < s.end
	}
}

func (w *Window) containsDay(day time.Time) bool {
	return anyContains(w.weekdays, int(day.Weekday())) &&
		anyContains(w.months, int(day.Month())) &&
		anyContains(w.years, day.Year()) &&
		w.containsDayOfMonth(day)
}

// anyHas tells whether a value is in any of the ranges, of which one that ends
// before it starts goes around.
func anyContains(spans []span, value int) bool {
	for _, s := range spans {
		after, before := s.start <= value, value <= s.end
		if after && before || s.start > s.end && (after || before) {
			return true
		}
	}
	return len(spans) == 0
}

func (w *Window) containsDayOfMonth(day time.Time) bool {
	last := time.Date(day.Year(), day.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
	for _, s := range w.days {
		if fromStart(s.start, last) <= day.Day() && day.Day() <= fromStart(s.end, last) {
			return true
		}
	}
	return len(w.days) == 0
}

// fromStart is a day of a month that has so many, also if it was counted from the
// month's end; it may lie outside of the month.
func fromStart(day, last int) int {
	if day < 0 {
		return last + 1 + day
	}
	return day
}
