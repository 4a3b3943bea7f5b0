package calendar

import (
	"cmp"
	"fmt"
	"time"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// Error describes an invalid window.
type Error struct {
	// Field is the path within the window, for example times[1].
	Field string
	// Message is a sentence for the author of the window.
	Message string
}

func (e *Error) Error() string { return e.Field + ": " + e.Message }

// New returns the window of a spec. Its error is an *Error. It does not check that ranges
// start before they end, because the API server does.
func New(spec *v1alpha1.MuteWindow) (*Window, error) {
	location, err := loadLocation(spec.TimeZone)
	if err != nil {
		return nil, err
	}
	w := &Window{location: location}
	for i := range spec.Times {
		s, err := parseTimes(&spec.Times[i])
		if err != nil {
			return nil, &Error{Field: fmt.Sprintf("times[%d]", i), Message: "not a time of the day: write it like 22:00"}
		}
		w.times = append(w.times, s)
	}
	for _, r := range spec.Weekdays {
		w.weekdays = append(w.weekdays, span{weekdays[r.Start], weekdays[cmp.Or(r.End, r.Start)]})
	}
	for _, r := range spec.DaysOfMonth {
		w.days = append(w.days, newSpan(r.Start, r.End))
	}
	for _, r := range spec.Months {
		w.months = append(w.months, newSpan(r.Start, r.End))
	}
	for _, r := range spec.Years {
		w.years = append(w.years, newSpan(r.Start, r.End))
	}
	return w, w.checkOverlap()
}

func newSpan(start, end int32) span { return span{int(start), int(cmp.Or(end, start))} }

// loadLocation returns a time zone. It refuses Local, which depends on the host.
func loadLocation(name string) (*time.Location, error) {
	location, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, &Error{Field: "timeZone", Message: fmt.Sprintf(
			"unknown time zone %q: use a name of the IANA database, for example Asia/Seoul", name)}
	}
	return location, nil
}

// parseTimes parses a range of times. Midnight can be its start or its end.
func parseTimes(r *v1alpha1.MuteTimes) (s span, err error) {
	if s.start, err = parseMinute(r.Start); err != nil {
		return span{}, err
	}
	s.end, err = parseMinute(r.End)
	return s, err
}

const minutesOfDay = 24 * 60

func parseMinute(text string) (int, error) {
	if text == "24:00" {
		return minutesOfDay, nil
	}
	t, err := time.Parse("15:04", text)
	return t.Hour()*60 + t.Minute(), err
}

var weekdays = map[v1alpha1.Weekday]int{
	"Sunday": 0, "Monday": 1, "Tuesday": 2, "Wednesday": 3, "Thursday": 4, "Friday": 5, "Saturday": 6,
}

// checkOverlap returns an error if two ranges of a list overlap, because their author
// cannot have meant both. Days from the start and from the end of a month can meet in
// some months. This is allowed.
func (w *Window) checkOverlap() error {
	times := make([]span, 0, len(w.times))
	for _, s := range w.times { // end with the last minute, also before midnight
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
				return &Error{Field: fmt.Sprintf("%s[%d]", field, i), Message: fmt.Sprintf("overlaps with %s[%d]: change or remove one of them", field, j)}
			}
		}
	}
	return nil
}

// overlaps reports whether one range starts within the other.
func overlaps(a, b span) bool {
	if a.mixed() || b.mixed() {
		return false
	}
	return anyContains([]span{a}, b.start) || anyContains([]span{b}, a.start)
}

// mixed reports whether a range starts with a day counted from the start of the month and
// ends with one counted from its end.
func (s span) mixed() bool { return s.start > 0 && s.end < 0 }
