package message

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

func TestTheLatestMessageCountsTheOccurrencesOfAll(t *testing.T) {
	by := []alarm.GroupValue{{Key: "reason", Value: "BackOff"}}
	group := func(total int64, resolved bool) *Group {
		return &Group{Key: "g", By: by, Total: total, Since: seenFirst, First: total == 2, Resolved: resolved}
	}
	grouped := func(count, total int64, resolved bool, text string) Part {
		m := messageOf("crash", "BackOff", "Pod", "web-0", count, seenLast)
		m.Text = text
		return Compose(*group(total, resolved), []Part{{Message: m}}, count)
	}
	alone := func(count int64, text string) Part {
		m := messageOf("crash", "BackOff", "Pod", "web-0", count, seenLast)
		m.Text = text
		return Part{Message: m}
	}
	other := Part{Message: messageOf("crash", "Failed", "Pod", "web-1", 4, seenLast)}
	other.Group = group(9, true)
	titled := func(name, title string, count int64) Part {
		m := messageOf("crash", "BackOff", "Pod", name, count, seenLast)
		m.Title = title
		return Part{Message: m, OwnTitle: true}
	}
	first := group(9, false)
	first.First = true
	for name, tc := range map[string]struct {
		messages    []Part
		count       int64
		title, text string
		group       *Group
	}{
		"one":               {[]Part{grouped(3, 9, false, "down")}, 3, "BackOff", "down\n9 times since 2026-08-03 09:14:05 UTC, 3 new", group(9, false)},
		"of a group":        {[]Part{grouped(3, 6, false, "old"), grouped(3, 9, false, "down")}, 6, "BackOff", "down\n9 times since 2026-08-03 09:14:05 UTC, 6 new", group(9, false)},
		"a whole group":     {[]Part{grouped(2, 2, false, "old"), grouped(7, 9, false, "down")}, 9, "BackOff", "down\n9 times since 2026-08-03 09:14:05 UTC", first},
		"resolved":          {[]Part{grouped(1, 8, true, "up"), grouped(1, 9, true, "up again")}, 2, "Resolved: BackOff", "up again\n9 times since 2026-08-03 09:14:05 UTC, 2 new", group(9, true)},
		"several objects":   {[]Part{grouped(3, 5, true, "up"), other}, 7, "Resolved: shop: 4 × Failed Pod and 3 more", "4 × Failed Pod: shop/web-1\n3 × BackOff Pod: shop/web-0\n9 times since 2026-08-03 09:14:05 UTC, 7 new", group(9, true)},
		"without a group":   {[]Part{alone(2, "old"), alone(3, "down\n9 times since 2026-08-03 10:44:05 UTC, 3 new\nthreshold")}, 5, "BackOff", "down\n9 times since 2026-08-03 10:44:05 UTC, 5 new\nthreshold", nil},
		"of two Events":     {[]Part{alone(1, "old"), alone(1, "down\nOnce at 2026-08-03 10:44:05 UTC")}, 2, "BackOff", "down\n2 times since 2026-08-03 10:44:05 UTC", nil},
		"its own title":     {[]Part{titled("web-0", "checkout is down", 2), titled("web-1", "checkout is down", 3)}, 5, "checkout is down", "5 × BackOff Pod: shop/web-1, shop/web-0", nil},
		"its own titles":    {[]Part{titled("web-0", "web-0 is down", 2), titled("web-1", "web-1 is down", 3)}, 5, "web-1 is down (5 occurrences)", "5 × BackOff Pod: shop/web-1, shop/web-0", nil},
		"titles of a group": {[]Part{titled("web-0", "web-0 is down", 2), titled("web-1", "web-1 is down (3 occurrences)", 3)}, 5, "web-1 is down (5 occurrences)", "5 × BackOff Pod: shop/web-1, shop/web-0", nil},
		"its own text":      {[]Part{alone(2, "old"), alone(3, "down")}, 5, "BackOff", "down\n5 times since 2026-08-03 10:44:05 UTC", nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewLatest()
			for i := range tc.messages {
				l.Add(tc.messages[i])
			}
			m := l.Message()
			if diff := cmp.Diff([]string{tc.title, tc.text}, []string{m.Title, m.Text}); diff != "" {
				t.Error(diff)
			}
			var events int64
			for i := range m.Events {
				events += m.Events[i].Count
			}
			if m.Count != tc.count || events != tc.count || m.Digest {
				t.Errorf("%d occurrences, %d in the Events, digest %t", m.Count, events, m.Digest)
			}
			if diff := cmp.Diff(tc.group, m.Group); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheLatestMessageDoesNotChangeTheOthers(t *testing.T) {
	old := messageOf("crash", "BackOff", "Pod", "web-0", 2, seenLast)
	old.Group = &Group{Key: "g", Total: 2, First: true}
	newest := messageOf("crash", "BackOff", "Pod", "web-0", 1, seenLast.Add(time.Minute))
	newest.Group = &Group{Key: "g", Total: 3}
	l := NewLatest()
	l.Add(Part{Message: old})
	l.Add(Part{Message: newest})
	if m := l.Message(); !m.Group.First || newest.Group.First || newest.Events[0].Count != 1 || m.Events[0].Count != 3 {
		t.Errorf("combined %+v, newest %+v", m, newest)
	}
}
