package message

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

func TestAMessageOfAGroupSaysWhatIsNewAndHowMuchThereWas(t *testing.T) {
	again := messageOf("crash", "BackOff", "Pod", "web-0", 2, seenLast)
	again.Title, again.Text, again.Events[0].Note = "web-0 again", "it restarts\nand restarts", "with another note"
	one := messageOf("crash", "BackOff", "Pod", "web-0", 1, seenLast)
	other := messageOf("crash", "Failed", "Pod", "web-1", 1, seenLast)
	by := []alarm.GroupValue{{Key: "reason", Value: "BackOff"}}
	for name, tc := range map[string]struct {
		group       Group
		parts       []Message
		count       int64
		title, text string
	}{
		"the first alone":       {Group{By: by, Total: 1}, []Message{one}, 1, "BackOff", "text"},
		"the same again":        {Group{By: by, Total: 3}, []Message{one, again}, 3, "web-0 again", "it restarts\nand restarts"},
		"one more":              {Group{By: by, Total: 7, Since: seenFirst}, []Message{one}, 1, "BackOff", "text\n1 new, 7 in all since 2026-08-03 09:14:05 UTC"},
		"several sorts":         {Group{By: by, Total: 4}, []Message{again, other, again}, 5, "5 occurrences: 4 × BackOff Pod and 1 more", "4 × BackOff Pod: shop/web-0\n1 × Failed Pod: shop/web-1\nLatest: it restarts"},
		"what cannot be read":   {Group{By: by, Total: 2}, nil, 2, "2 occurrences", ""},
		"it is over":            {Group{By: by, Total: 1, Resolved: true}, []Message{one}, 1, "Resolved: BackOff", "text"},
		"what has no group":     {Group{Total: 1}, []Message{one}, 1, "BackOff", "text\nThere are too many groups: this stands for all beyond them."},
		"more than is read all": {Group{By: by, Total: 5000}, []Message{again, again}, 5000, "web-0 again", "it restarts\nand restarts"},
	} {
		t.Run(name, func(t *testing.T) {
			m := Compose(tc.group, tc.parts, tc.count)
			if diff := cmp.Diff([]string{tc.title, tc.text}, []string{m.Title, m.Text}); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(&tc.group, m.Group); diff != "" || m.Count != tc.count || m.Digest {
				t.Errorf("count %d, digest %t, group: %s", m.Count, m.Digest, diff)
			}
		})
	}
}

func TestAMessageOfAGroupIsWithinTheBounds(t *testing.T) {
	var parts []Message
	for i := range 1000 {
		m := messageOf("crash", fmt.Sprint("Reason", i), "Pod", "web", 1, seenLast)
		m.Title, m.Text = strings.Repeat("봉", 1000), strings.Repeat("수", 5000)
		parts = append(parts, m)
	}
	m := Compose(Group{Total: 5000, Resolved: true}, parts, 1000)
	if !strings.Contains(m.Text, "1000 new, 5000 in all") {
		t.Errorf("there was no room for how many: %q", m.Text)
	}
}
