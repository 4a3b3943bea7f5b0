package pending

import (
	"strings"
	"testing"
	"time"
)

func TestAnAttemptThatIsDueIsShownAsNow(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for want, next := range map[string]*time.Time{
		"  waiting  now  ":                  new(now.Add(-time.Hour)),
		"  waiting  2026-01-02T04:04:05Z  ": new(now.Add(time.Hour)),
		"  waiting  -  ":                    nil,
	} {
		var out strings.Builder
		report := &Report{Receivers: []Receiver{{Receiver: "AlarmReceiver/shop/team", Entries: 1, Waiting: []Waiting{{NextAttemptAt: next}}}}}
		if err := WriteText(&out, report, now); err != nil {
			t.Fatal(err)
		}
		rows := strings.Split(out.String(), "\n")
		if got := strings.Join(strings.Fields(rows[2]), "  "); !strings.Contains(got+"  ", want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
