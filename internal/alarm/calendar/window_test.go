package calendar_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the host may have no time zones

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/calendar"
)

var (
	nights   = []v1alpha1.MuteTimes{{Start: "22:00", End: "06:00"}}
	twoToSix = []v1alpha1.MuteTimes{{Start: "02:00", End: "06:00"}}
)

// contains reports whether an RFC 3339 time is in the window.
func contains(t *testing.T, spec v1alpha1.MuteWindow, at string) bool {
	t.Helper()
	w, err := calendar.New(&spec)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := time.Parse(time.RFC3339, at)
	if err != nil {
		t.Fatal(err)
	}
	return w.Contains(parsed)
}

func TestWindowContains(t *testing.T) {
	for name, tc := range map[string]struct {
		window  v1alpha1.MuteWindow
		in, out string // times, mostly in UTC; 2026-11-20 is a Friday
	}{
		"times end before their end": {
			v1alpha1.MuteWindow{Times: []v1alpha1.MuteTimes{{Start: "09:00", End: "17:30"}}},
			"2026-11-20T09:00:00Z 2026-11-20T17:29:59Z", "2026-11-20T08:59:59Z 2026-11-20T17:30:00Z",
		},
		"the whole day": {
			v1alpha1.MuteWindow{Times: []v1alpha1.MuteTimes{{Start: "00:00", End: "24:00"}}},
			"2026-11-20T00:00:00Z 2026-11-20T23:59:59Z", "",
		},
		"until midnight": {
			v1alpha1.MuteWindow{Times: []v1alpha1.MuteTimes{{Start: "22:00", End: "00:00"}}},
			"2026-11-20T22:00:00Z 2026-11-20T23:59:59Z", "2026-11-20T00:00:00Z 2026-11-20T21:59:59Z",
		},
		"past midnight": {
			v1alpha1.MuteWindow{Times: nights},
			"2026-11-20T22:00:00Z 2026-11-21T00:00:00Z 2026-11-21T05:59:59Z", "2026-11-21T06:00:00Z 2026-11-20T21:59:59Z",
		},
		"a night belongs to the day on which it starts": {
			v1alpha1.MuteWindow{Times: nights, Weekdays: []v1alpha1.MuteWeekdays{{Start: "Friday"}}},
			"2026-11-20T22:00:00Z 2026-11-21T05:59:00Z", "2026-11-20T05:00:00Z 2026-11-21T22:00:00Z",
		},
		"the last night of the year": {
			v1alpha1.MuteWindow{
				Times: nights, DaysOfMonth: []v1alpha1.MuteDaysOfMonth{{Start: -1}},
				Months: []v1alpha1.MuteMonths{{Start: 12}}, Years: []v1alpha1.MuteYears{{Start: 2026}},
			},
			"2026-12-31T23:00:00Z 2027-01-01T05:00:00Z", "2027-01-01T23:00:00Z 2026-12-31T05:00:00Z",
		},
		"weekdays": {
			v1alpha1.MuteWindow{Weekdays: []v1alpha1.MuteWeekdays{{Start: "Monday", End: "Thursday"}}},
			"2026-11-16T00:00:00Z 2026-11-19T23:59:59Z", "2026-11-20T00:00:00Z 2026-11-15T23:59:59Z",
		},
		"weekdays past the week's end": {
			v1alpha1.MuteWindow{Weekdays: []v1alpha1.MuteWeekdays{{Start: "Saturday", End: "Monday"}}},
			"2026-11-21T12:00:00Z 2026-11-22T12:00:00Z 2026-11-23T12:00:00Z", "2026-11-20T12:00:00Z 2026-11-24T12:00:00Z",
		},
		"days from the month's end": {
			v1alpha1.MuteWindow{DaysOfMonth: []v1alpha1.MuteDaysOfMonth{{Start: -3, End: -1}}},
			"2026-02-26T12:00:00Z 2026-02-28T12:00:00Z 2028-02-29T12:00:00Z 2026-12-31T12:00:00Z",
			"2026-02-25T12:00:00Z 2028-02-26T12:00:00Z 2026-12-28T12:00:00Z",
		},
		"days from both ends": {
			v1alpha1.MuteWindow{DaysOfMonth: []v1alpha1.MuteDaysOfMonth{{Start: 2, End: -2}}},
			"2026-02-02T12:00:00Z 2026-02-27T12:00:00Z", "2026-02-01T12:00:00Z 2026-02-28T12:00:00Z",
		},
		"a day that does not exist in the month": {
			v1alpha1.MuteWindow{DaysOfMonth: []v1alpha1.MuteDaysOfMonth{{Start: 30, End: 31}}},
			"2026-04-30T12:00:00Z", "2026-02-28T12:00:00Z 2026-05-01T12:00:00Z",
		},
		"months past the year's end": {
			v1alpha1.MuteWindow{Months: []v1alpha1.MuteMonths{{Start: 12, End: 2}}},
			"2026-12-01T00:00:00Z 2027-02-28T23:59:59Z", "2026-11-30T23:59:59Z 2027-03-01T00:00:00Z",
		},
		"years": {
			v1alpha1.MuteWindow{Years: []v1alpha1.MuteYears{{Start: 2026, End: 2027}}},
			"2026-01-01T00:00:00Z 2027-12-31T23:59:59Z", "2025-12-31T23:59:59Z 2028-01-01T00:00:00Z",
		},
		"any of several": {
			v1alpha1.MuteWindow{Times: []v1alpha1.MuteTimes{{Start: "01:00", End: "02:00"}, {Start: "23:00", End: "01:00"}}},
			"2026-11-20T00:30:00Z 2026-11-20T01:30:00Z 2026-11-20T23:30:00Z", "2026-11-20T02:00:00Z",
		},
		"the day is that of the time zone": {
			v1alpha1.MuteWindow{TimeZone: "Asia/Seoul", Weekdays: []v1alpha1.MuteWeekdays{{Start: "Saturday"}}},
			"2026-11-20T15:00:00Z 2026-11-21T14:59:59Z", "2026-11-20T14:59:59Z 2026-11-21T15:00:00Z",
		},
		// In Berlin the clock goes from 02:00 to 03:00 on 29 March 2026, and from 03:00
		// back to 02:00 on 25 October.
		"an hour that is skipped": {
			v1alpha1.MuteWindow{TimeZone: "Europe/Berlin", Times: twoToSix},
			"2026-03-29T03:00:00+02:00 2026-03-29T05:59:00+02:00", "2026-03-29T01:59:59+01:00 2026-03-29T06:00:00+02:00",
		},
		"an hour that comes twice": {
			v1alpha1.MuteWindow{TimeZone: "Europe/Berlin", Times: twoToSix},
			"2026-10-25T02:30:00+02:00 2026-10-25T02:30:00+01:00 2026-10-25T05:59:00+01:00", "2026-10-25T01:59:59+02:00 2026-10-25T06:00:00+01:00",
		},
		"a night in which the clock is changed": {
			v1alpha1.MuteWindow{TimeZone: "Europe/Berlin", Times: nights, Weekdays: []v1alpha1.MuteWeekdays{{Start: "Saturday"}}},
			"2026-03-28T22:00:00+01:00 2026-03-29T05:59:00+02:00", "2026-03-28T05:00:00+01:00 2026-03-29T22:00:00+02:00",
		},
		// In Santiago the day begins at 01:00 on 6 September 2026.
		"a day without its midnight": {
			v1alpha1.MuteWindow{TimeZone: "America/Santiago", Times: nights, Weekdays: []v1alpha1.MuteWeekdays{{Start: "Sunday"}}},
			"2026-09-06T22:00:00-03:00 2026-09-07T05:59:00-03:00", "2026-09-06T05:00:00-03:00 2026-09-07T22:00:00-03:00",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for at := range strings.FieldsSeq(tc.in) {
				if !contains(t, tc.window, at) {
					t.Errorf("%s is not in the window", at)
				}
			}
			for at := range strings.FieldsSeq(tc.out) {
				if contains(t, tc.window, at) {
					t.Errorf("%s is in the window", at)
				}
			}
		})
	}
}

func TestInvalidWindowIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		window v1alpha1.MuteWindow
		want   string
	}{
		"an unknown time zone": {v1alpha1.MuteWindow{TimeZone: "Asia/Soul"}, `timeZone: unknown time zone "Asia/Soul": use a name of the IANA database, for example Asia/Seoul`},
		"the host's time zone": {v1alpha1.MuteWindow{TimeZone: "Local"}, `timeZone: unknown time zone "Local"`},
		"a file":               {v1alpha1.MuteWindow{TimeZone: "../../etc/passwd"}, `timeZone: unknown time zone "../../etc/passwd"`},
		"not a time":           {v1alpha1.MuteWindow{Times: []v1alpha1.MuteTimes{{Start: "25:00", End: "06:00"}}}, "times[0]: not a time of the day"},
		"times": {
			v1alpha1.MuteWindow{Times: []v1alpha1.MuteTimes{{Start: "09:00", End: "12:00"}, {Start: "11:59", End: "13:00"}}},
			"times[1]: overlaps with times[0]",
		},
		"times past midnight": {
			v1alpha1.MuteWindow{Times: []v1alpha1.MuteTimes{{Start: "05:00", End: "07:00"}, {Start: "22:00", End: "06:00"}}},
			"times[1]: overlaps with times[0]",
		},
		"weekdays": {
			v1alpha1.MuteWindow{Weekdays: []v1alpha1.MuteWeekdays{{Start: "Friday", End: "Monday"}, {Start: "Tuesday"}, {Start: "Sunday"}}},
			"weekdays[2]: overlaps with weekdays[0]",
		},
		"days": {
			v1alpha1.MuteWindow{DaysOfMonth: []v1alpha1.MuteDaysOfMonth{{Start: -5, End: -2}, {Start: -2}}},
			"daysOfMonth[1]: overlaps with daysOfMonth[0]",
		},
		"months": {
			v1alpha1.MuteWindow{Months: []v1alpha1.MuteMonths{{Start: 12, End: 2}, {Start: 1}}}, "months[1]: overlaps with months[0]",
		},
		"years": {
			v1alpha1.MuteWindow{Years: []v1alpha1.MuteYears{{Start: 2026, End: 2028}, {Start: 2027}}}, "years[1]: overlaps with years[0]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := calendar.New(&tc.window)
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestRangesThatTouchDoNotOverlap(t *testing.T) {
	for name, window := range map[string]v1alpha1.MuteWindow{
		"times":          {Times: []v1alpha1.MuteTimes{{Start: "22:00", End: "06:00"}, {Start: "06:00", End: "07:00"}, {Start: "21:00", End: "22:00"}}},
		"midnight":       {Times: []v1alpha1.MuteTimes{{Start: "22:00", End: "24:00"}, {Start: "00:00", End: "01:00"}}},
		"weekdays":       {Weekdays: []v1alpha1.MuteWeekdays{{Start: "Friday", End: "Sunday"}, {Start: "Monday"}}},
		"days":           {DaysOfMonth: []v1alpha1.MuteDaysOfMonth{{Start: 1, End: 5}, {Start: 6}}},
		"days from ends": {DaysOfMonth: []v1alpha1.MuteDaysOfMonth{{Start: 28, End: 31}, {Start: -1}}},
		"months":         {Months: []v1alpha1.MuteMonths{{Start: 12, End: 2}, {Start: 3, End: 11}}},
	} {
		if _, err := calendar.New(&window); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A night must contain exactly the minutes of an evening and of the next morning, also in
// time zones that change their clocks.
func TestNightIsAnEveningAndTheNextMorning(t *testing.T) {
	names := []v1alpha1.Weekday{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"}
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		zone := []string{"Europe/Berlin", "America/Santiago", "Australia/Lord_Howe", "Asia/Seoul"}[random.IntN(4)]
		day := random.IntN(7)
		start, end := 12*60+random.IntN(12*60), random.IntN(12*60)
		part := func(day, from, to int) *calendar.Window {
			w, err := calendar.New(&v1alpha1.MuteWindow{
				TimeZone: zone, Times: []v1alpha1.MuteTimes{{Start: hhmm(from), End: hhmm(to)}},
				Weekdays: []v1alpha1.MuteWeekdays{{Start: names[day%7]}},
			})
			if err != nil {
				t.Fatal(err)
			}
			return w
		}
		night, evening := part(day, start, end), part(day, start, 24*60)
		morning := part(day+1, 0, max(end, 1))
		at := time.Unix(1_780_000_000+random.Int64N(400*24*3600), 0)
		for range 3 * 24 * 60 {
			at = at.Add(time.Minute)
			want := evening.Contains(at) || end > 0 && morning.Contains(at)
			if got := night.Contains(at); got != want {
				t.Fatalf("%s to %s of %s in %s: at %s got %t", hhmm(start), hhmm(end), names[day], zone, at.UTC(), got)
			}
		}
	}
}

func hhmm(minutes int) string { return fmt.Sprintf("%02d:%02d", minutes/60, minutes%60) }
