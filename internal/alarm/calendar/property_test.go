package calendar_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/calendar"
)

// A night is what remains of the day before after midnight: minute for minute, in
// zones that change their clocks, it is the evening of a day and the morning of the
// next one.
func TestANightIsAnEveningAndTheMorningAfterIt(t *testing.T) {
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
