package message

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/kube"
)

var (
	seenFirst = time.Date(2026, 8, 3, 9, 14, 5, 0, time.UTC)
	seenLast  = seenFirst.Add(90 * time.Minute)
)

// messageOf returns a message with one Event.
func messageOf(alarmName, reason, kind, name string, count int64, seen time.Time) Message {
	return Message{
		Version: Version, Cluster: "prod",
		Alarm: kube.Key{Kind: alarm.KindAlarm, Namespace: "shop", Name: alarmName},
		Title: reason, Text: "text", Count: count, FirstSeen: seen, LastSeen: seen,
		Events: []Event{{
			Type: "Warning", Reason: reason, Note: "note", Count: count, FirstSeen: seen, LastSeen: seen,
			Regarding: Reference{Kind: kind, Namespace: "shop", Name: name},
		}},
	}
}

func TestCombineCountsByReasonAndKind(t *testing.T) {
	later := seenLast.Add(time.Minute)
	got := Combine([]Message{
		messageOf("crash", "Failed", "Pod", "web-1", 2, seenLast),
		messageOf("crash", "BackOff", "Pod", "web-0", 3, later),
		messageOf("crash", "BackOff", "Pod", "web-0", 4, seenFirst),
		messageOf("crash", "BackOff", "Pod", "web-2", 1, seenLast),
	})
	event := func(reason, name string, count int64, first, last time.Time) Event {
		return Event{
			Type: "Warning", Reason: reason, Note: "note", Count: count, FirstSeen: first, LastSeen: last,
			Regarding: Reference{Kind: "Pod", Namespace: "shop", Name: name},
		}
	}
	want := Message{
		Version: "v1", Cluster: "prod",
		Alarm:     kube.Key{Kind: alarm.KindAlarm, Namespace: "shop", Name: "crash"},
		Title:     "shop: 8 × BackOff Pod and 2 more",
		Text:      "8 × BackOff Pod: shop/web-0, shop/web-2\n2 × Failed Pod: shop/web-1",
		Count:     10,
		Digest:    true,
		FirstSeen: seenFirst,
		LastSeen:  later,
		Events: []Event{
			event("BackOff", "web-0", 7, seenFirst, later),
			event("Failed", "web-1", 2, seenLast, seenLast),
			event("BackOff", "web-2", 1, seenLast, seenLast),
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("digest (-want +got):\n%s", diff)
	}
}

func TestCombineTitleOfOneReason(t *testing.T) {
	got := Combine([]Message{
		messageOf("a", "BackOff", "Pod", "web-0", 3, seenLast),
		messageOf("a", "BackOff", "Pod", "web-1", 4, seenLast),
	})
	if want := "shop: BackOff (2 pods)"; got.Title != want {
		t.Errorf("got %q, want %q", got.Title, want)
	}
}

func TestDigestOfSeveralAlarmsNamesNone(t *testing.T) {
	got := Combine([]Message{
		messageOf("a", "BackOff", "Pod", "web-0", 1, seenLast),
		messageOf("b", "BackOff", "Pod", "web-0", 1, seenLast),
		messageOf("a", "BackOff", "Pod", "web-0", 1, seenLast),
	})
	if diff := cmp.Diff(kube.Key{}, got.Alarm); diff != "" {
		t.Errorf("alarm (-want +got):\n%s", diff)
	}
}

func TestDigestHasNoGroup(t *testing.T) {
	m := messageOf("a", "BackOff", "Pod", "web-0", 1, seenLast)
	m.Group = &Group{Key: "a", Total: 9, Resolved: true}
	if got := Combine([]Message{m, m}); got.Group != nil {
		t.Errorf("the digest has group %+v", got.Group)
	}
}

func TestCombineReturnsASingleMessageUnchanged(t *testing.T) {
	want := messageOf("a", "BackOff", "Pod", "web-0", 1, seenLast)
	if diff := cmp.Diff(want, Combine([]Message{want})); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
}

// flood returns many messages of many objects.
func flood(n int) []Message {
	messages := make([]Message, 0, n)
	for i := range n {
		reason := fmt.Sprintf("Reason%03d", i%400)
		messages = append(messages, messageOf("a", reason, "Pod", fmt.Sprintf("%s-%d", strings.Repeat("n", 80), i), 1+int64(i%7), seenLast))
	}
	return messages
}

func TestDigestIsLimitedAndCountsEverything(t *testing.T) {
	messages := flood(2000)
	var want int64
	for _, m := range messages {
		want += m.Count
	}
	got := Combine(messages)
	if got.Count != want {
		t.Errorf("count is %d, want %d", got.Count, want)
	}
	if len(got.Events) != MaxListedEvents {
		t.Errorf("%d events are listed, want %d", len(got.Events), MaxListedEvents)
	}
	var sum int64
	for line := range strings.Lines(got.Text) {
		var n int64
		if _, err := fmt.Sscanf(line, "%d × ", &n); err != nil {
			if _, err := fmt.Sscanf(line, "and %d more", &n); err != nil {
				t.Errorf("line %q has no number", line)
			}
		}
		sum += n
	}
	if sum != want {
		t.Errorf("the lines add up to %d, want %d", sum, want)
	}
}

// A tenant creates Events with high counts, of the same reason or of many.
func TestAFloodOfANamespaceHidesNoOther(t *testing.T) {
	for name, reasonOf := range map[string]func(i int) string{
		"of the same reason": func(int) string { return "BackOff" },
		"of many reasons":    func(i int) string { return fmt.Sprint("Forged", i) },
	} {
		t.Run(name, func(t *testing.T) {
			var messages []Message
			for i := range 2_000 {
				forged := messageOf("a", reasonOf(i), "Pod", fmt.Sprint("forged-", i), 1_000_000, seenLast)
				forged.Events[0].Regarding.Namespace = "evil"
				messages = append(messages, forged)
			}
			got := Combine(append(messages, messageOf("a", "BackOff", "Pod", "web-0", 1, seenLast)))
			if !strings.Contains(got.Text, "shop/web-0") {
				t.Errorf("the text does not name the object of the other namespace: %s", got.Text)
			}
			if !slices.ContainsFunc(got.Events, func(e Event) bool { return e.Regarding.Namespace == "shop" }) {
				t.Error("the Event of the other namespace is not listed")
			}
		})
	}
}

// Otherwise a tenant could make the Events of others appear more often, or in place of others.
func TestADigestSeparatesEventsOfAnotherNamespaceFromThoseOfTheObjects(t *testing.T) {
	forged := func(name string) Message {
		m := messageOf("a", "BackOff", "Pod", name, 1, seenLast)
		m.Events[0].EventNamespace = "evil"
		return m
	}
	messages := []Message{messageOf("a", "BackOff", "Pod", "web-0", 1, seenLast), forged("web-0")}
	got := Combine(messages)
	if !strings.Contains(got.Text, "shop/web-0, shop/web-0 (Event in namespace evil)") || len(got.Events) != 2 {
		t.Errorf("%d Events, and the text %s", len(got.Events), got.Text)
	}
	for i := range 2_000 {
		messages = append(messages, forged(fmt.Sprint("forged-", i)))
	}
	if got := Combine(messages); !slices.ContainsFunc(got.Events, func(e Event) bool { return e.EventNamespace == "" }) {
		t.Error("the Event of the object's namespace is not listed")
	}
}

func TestDigestOfDigestsCountsEverything(t *testing.T) {
	messages := flood(2000)
	whole := Combine(messages)
	got := Combine([]Message{Combine(messages[:1500]), Combine(messages[1500:])})
	if got.Count != whole.Count {
		t.Errorf("count is %d, want %d", got.Count, whole.Count)
	}
	if !strings.Contains(got.Text, "\nand ") {
		t.Errorf("the text does not count Events that the digests did not list: %q", got.Text)
	}
}

func TestCombineDoesNotDependOnTheOrder(t *testing.T) {
	messages := flood(300)
	want := Combine(messages)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(messages), func(i, j int) {
		messages[i], messages[j] = messages[j], messages[i]
	})
	if diff := cmp.Diff(want, Combine(messages)); diff != "" {
		t.Errorf("digest (-want +got):\n%s", diff)
	}
}

func TestCombineDoesNotChangeItsArgument(t *testing.T) {
	messages := []Message{
		messageOf("a", "BackOff", "Pod", "web-0", 1, seenLast),
		messageOf("a", "BackOff", "Pod", "web-0", 2, seenLast),
	}
	Combine(messages)
	if messages[0].Events[0].Count != 1 || messages[1].Events[0].Count != 2 {
		t.Errorf("Combine changed its argument: %+v", messages)
	}
}

func TestCombinerKeepsAFloodInLimitedMemory(t *testing.T) {
	const flood, limit = 100_000, 20 << 20
	before := heapInUse()
	c := NewCombiner()
	for i := range flood {
		m := messageOf("a", "BackOff", "Pod", fmt.Sprintf("web-%06d", i), 1, seenLast)
		m.Events[0].Note = strings.Repeat("n", 1000) + m.Events[0].Regarding.Name
		c.Add(Part{Message: m})
	}
	if used := int64(heapInUse()) - int64(before); used > limit {
		t.Errorf("%d messages use %d MiB", flood, used>>20)
	}
	got := c.Message()
	if got.Count != flood || len(got.Events) != MaxListedEvents {
		t.Errorf("count is %d, %d events listed", got.Count, len(got.Events))
	}
	if want := "100000 × BackOff Pod: shop/web-000000, shop/web-000001, shop/web-000002 and 99997 more"; got.Text != want {
		t.Errorf("text is %q, want %q", got.Text, want)
	}
}

func heapInUse() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func TestCombinerCountsOccurrencesBeyondItsLimits(t *testing.T) {
	c := NewCombiner()
	for i := range 3 * maxGroups {
		c.Add(Part{Message: messageOf("a", fmt.Sprintf("Reason%05d", i), "Pod", "web-0", 1, seenLast)})
	}
	got := c.Message()
	if lines := strings.Count(got.Text, "\n"); got.Count != 3*maxGroups || !strings.HasSuffix(got.Text, fmt.Sprintf("and %d more", 3*maxGroups-lines)) {
		t.Errorf("count is %d, text %q", got.Count, got.Text)
	}
}

func TestGroupMessageShowsNewAndTotalOccurrences(t *testing.T) {
	again := messageOf("crash", "BackOff", "Pod", "web-0", 2, seenLast)
	again.Title, again.Text, again.Events[0].Note = "web-0 again", "it restarts\nand restarts", "with another note"
	one := messageOf("crash", "BackOff", "Pod", "web-0", 1, seenLast)
	other := messageOf("crash", "Failed", "Pod", "web-1", 1, seenLast)
	caused := messageOf("crash", "Failed", "Pod", "web-0", 1, seenLast)
	caused.Events[0].Object.Cause = "no such image"
	by := []alarm.GroupValue{{Key: "reason", Value: "BackOff"}}
	const once, twice = "\nOnce at 2026-08-03 09:14:05 UTC", "\n3 times since 2026-08-03 09:14:05 UTC"
	titled := func(m Message) Part { return Part{Message: m, OwnTitle: true} }
	own := func(m Message) Part { return Part{Message: m, OwnText: true} }
	usual := func(m Message) Part { return Part{Message: m} }
	for name, tc := range map[string]struct {
		group       Group
		parts       []Part
		count       int64
		title, text string
	}{
		"first":                          {Group{By: by, Total: 1}, []Part{usual(one)}, 1, "BackOff", "text" + once},
		"the same again":                 {Group{By: by, Total: 3}, []Part{usual(one), usual(again)}, 3, "web-0 again", "it restarts\nand restarts" + twice},
		"one more":                       {Group{By: by, Total: 3}, []Part{usual(one)}, 1, "BackOff", "text" + twice + ", 1 new"},
		"its own text":                   {Group{By: by, Total: 1}, []Part{own(one)}, 1, "BackOff", "text"},
		"its own text again":             {Group{By: by, Total: 3}, []Part{own(one)}, 1, "BackOff", "text" + twice + ", 1 new"},
		"several reasons":                {Group{By: by, Total: 3}, []Part{usual(again), usual(other), usual(again)}, 5, "shop: 4 × BackOff Pod and 1 more", "4 × BackOff Pod: shop/web-0\n1 × Failed Pod: shop/web-1\nLatest: it restarts" + twice},
		"with a cause":                   {Group{By: by, Total: 3}, []Part{usual(one), usual(caused)}, 2, "shop/web-0: 1 × BackOff Pod and 1 more", "1 × BackOff Pod: shop/web-0\n1 × Failed Pod: shop/web-0\nLatest: text\nCause: no such image" + twice + ", 2 new"},
		"its own titles":                 {Group{By: by, Total: 5}, []Part{titled(other), titled(again)}, 3, "web-0 again (3 occurrences)", "2 × BackOff Pod: shop/web-0\n1 × Failed Pod: shop/web-1\nLatest: it restarts\n5 times since 2026-08-03 09:14:05 UTC, 3 new"},
		"its own title":                  {Group{By: by, Total: 5}, []Part{titled(one), titled(withName(one, "web-1"))}, 2, "BackOff", "2 × BackOff Pod: shop/web-0, shop/web-1\nLatest: text\n5 times since 2026-08-03 09:14:05 UTC, 2 new"},
		"no readable part":               {Group{By: by, Total: 3}, nil, 2, "2 occurrences", twice[1:] + ", 2 new"},
		"resolved":                       {Group{By: by, Total: 1, Resolved: true}, []Part{usual(one)}, 1, "Resolved: BackOff", "text" + once},
		"resolved without an occurrence": {Group{By: by, Total: 3, Resolved: true}, []Part{usual(one)}, 0, "Resolved: BackOff", "text" + twice},
		"an end alone":                   {Group{By: by, Resolved: true}, []Part{usual(one)}, 0, "Resolved: BackOff", "text"},
		"no known problem":               {Group{By: by, Total: 1, First: true, Resolved: true}, []Part{usual(one)}, 1, "BackOff", "text" + once},
		"beyond the limit":               {Group{Total: 1}, []Part{usual(one)}, 1, "BackOff", "text\nToo many groups are open: this message covers all others." + once},
		"parts that are not kept":        {Group{By: by, Total: 30}, []Part{usual(one), usual(withName(one, "web-1"))}, 30, "shop: BackOff (at least 2 pods)", "2 × BackOff Pod: shop/web-0, shop/web-1\nLatest: text\n30 times since 2026-08-03 09:14:05 UTC"},
		"more than the parts":            {Group{By: by, Total: 3}, []Part{usual(again), usual(again)}, 3, "web-0 again", "it restarts\nand restarts" + twice},
	} {
		t.Run(name, func(t *testing.T) {
			tc.group.Since = seenFirst
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

// withName returns the message with another object.
func withName(m Message, name string) Message {
	m.Events = slices.Clone(m.Events)
	m.Events[0].Regarding.Name = name
	return m
}

func TestGroupMessageShowsTotalsDespiteLongTexts(t *testing.T) {
	var parts []Part
	for i := range 1000 {
		m := messageOf("crash", fmt.Sprint("Reason", i), "Pod", "web", 1, seenLast)
		m.Title, m.Text = strings.Repeat("봉", 1000), strings.Repeat("수", 5000)
		parts = append(parts, Part{Message: m})
	}
	m := Compose(Group{Total: 5000, Resolved: true}, parts, 1000)
	if !strings.Contains(m.Text, "5000 times, 1000 new") {
		t.Errorf("the text does not show the totals: %q", m.Text)
	}
}

// A message with the largest labels, annotations and notes of 50 objects would have a
// megabyte, for each receiver.
func TestACombinedMessageListsFewerEventsIfTheyAreLarge(t *testing.T) {
	var messages []Message
	for i := range 100 {
		messages = append(messages, Message{Count: 1, Events: []Event{{
			Count: 1, Note: strings.Repeat("n", MaxFieldLength), Regarding: Reference{Name: fmt.Sprint(i)},
			Object: Object{Annotations: map[string]string{"a": strings.Repeat("<", maxFieldsLength)}},
		}}})
	}
	m := Combine(messages)
	encoded, err := Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Events) != 7 || m.Count != 100 || len(encoded) > maxListedSize+10_000 {
		t.Errorf("%d Events of %d are listed in %d bytes", len(m.Events), m.Count, len(encoded))
	}
}
