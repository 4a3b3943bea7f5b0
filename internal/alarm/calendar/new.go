package calendar

import (
	"cmp"
	"fmt"
	"time"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// Error says what is wrong with a window.
type Error struct {
	// Field within the window, for example times[1].
	Field string
	// Message is a sentence for its author.
	Message string
}

// Error is the field and the sentence.
func (e *Error) Error() string { return e.Field + ": " + e.Message }

// New returns the Window that is asked for. Its error is an *Error. That start and
// end of each range are in order is left to the API server.
func New(spec *v1alpha1.MuteWindow) (*Window, error) {
	location, err := loadLocation(spec.TimeZone)
	if err != nil {
		return nil, err
	}
	w := &Window{location: location}
	for i := range spec.Times {
		s, err := parseTimes(&spec.Times[i])
		if err != nil {
			return nil, &Error{Field: fmt.Sprintf("times[%d]", i), Message: "is no time of the day; write it as 22:00"}
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

// load finds a time zone. Local, which Go knows, is of the host that happens to run
// the operator.
func loadLocation(name string) (*time.Location, error) {
	location, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, &Error{Field: "timeZone", Message: fmt.Sprintf(
			"there is no time zone %q; name one of the IANA database, for example Asia/Seoul", name)}
	}
	return location, nil
}

// timesOf reads a time of the day; midnight is its end, and its start.
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
