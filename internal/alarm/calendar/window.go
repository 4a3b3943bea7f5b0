// Package calendar decides whether a time is in a recurring window, for example in the
// nights before working days in Seoul. The windows are those of Alertmanager
// (https://prometheus.io/docs/alerting/latest/configuration/#time_interval). In addition,
// ranges can pass midnight, the end of the week and the end of the year.
//
// The package reads no clock: callers pass the time. Its only outside data are the time
// zones, which come from the host or the binary.
package calendar

import (
	"time"
)

// Window is a set of recurring times. It is immutable.
type Window struct {
	location *time.Location
	// times are minutes of the day, the others select days. An empty list accepts all.
	times                         []span
	weekdays, days, months, years []span
}

// span is a range of values that includes both ends, except in times: there, end is the
// minute after the last one.
type span struct{ start, end int }

// Contains reports whether t is in the window, by the wall clock of the window's time
// zone. If daylight saving skips a minute, the window skips it too. If a minute comes
// twice, it is in the window both times.
func (w *Window) Contains(t time.Time) bool {
	t = t.In(w.location)
	// The date is in UTC, where every day has all its hours.
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

// dayOf reports whether the minute of today is in a range of times. It also returns the
// day on which that range started, today or yesterday.
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

// anyContains reports whether a value is in any of the ranges. A range that ends before
// it starts wraps around.
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

// fromStart returns a day counted from the start of the month. Negative days count from
// its end. The result can be outside of the month.
func fromStart(day, last int) int {
	if day < 0 {
		return last + 1 + day
	}
	return day
}
