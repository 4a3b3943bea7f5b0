package message

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

// messageOf is a message of one event.
var (
	seenFirst = time.Date(2026, 8, 3, 9, 14, 5, 0, time.UTC)
	seenLast  = seenFirst.Add(90 * time.Minute)
)

func messageOf(alarm_, reason, kind, name string, count int64, seen time.Time) Message {
	return Message{
		Version: Version, Cluster: "prod",
		Alarm: alarm.ID{Kind: alarm.KindAlarm, Namespace: "shop", Name: alarm_},
		Title: reason, Text: "text", Count: count, FirstSeen: seen, LastSeen: seen,
		Events: []Event{{
			Type: "Warning", Reason: reason, Note: "note", Count: count, FirstSeen: seen, LastSeen: seen,
			Regarding: Reference{Kind: kind, Namespace: "shop", Name: name},
		}},
	}
}

func TestCombineSaysHowManyOfWhat(t *testing.T) {
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
		Alarm:     alarm.ID{Kind: alarm.KindAlarm, Namespace: "shop", Name: "crash"},
		Title:     "10 occurrences: 8 × BackOff Pod and 2 more",
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

func TestCombineTitleOfOneSort(t *testing.T) {
	got := Combine([]Message{
		messageOf("a", "BackOff", "Pod", "web-0", 3, seenLast),
		messageOf("a", "BackOff", "Pod", "web-1", 4, seenLast),
	})
	if want := "7 × BackOff Pod"; got.Title != want {
		t.Errorf("got %q, want %q", got.Title, want)
	}
}

func TestCombineOfSeveralAlarmsNamesNone(t *testing.T) {
	got := Combine([]Message{
		messageOf("a", "BackOff", "Pod", "web-0", 1, seenLast),
		messageOf("b", "BackOff", "Pod", "web-0", 1, seenLast),
		messageOf("a", "BackOff", "Pod", "web-0", 1, seenLast),
	})
	if diff := cmp.Diff(alarm.ID{}, got.Alarm); diff != "" {
		t.Errorf("alarm (-want +got):\n%s", diff)
	}
}

func TestADigestIsOfNoGroup(t *testing.T) {
	m := messageOf("a", "BackOff", "Pod", "web-0", 1, seenLast)
	m.Group = &Group{Key: "a", Total: 9, Resolved: true}
	if got := Combine([]Message{m, m}); got.Group != nil {
		t.Errorf("a digest of group %+v", got.Group)
	}
}

func TestCombineOfOneIsItself(t *testing.T) {
	want := messageOf("a", "BackOff", "Pod", "web-0", 1, seenLast)
	if diff := cmp.Diff(want, Combine([]Message{want})); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
}

// flood is many messages of many objects.
func flood(n int) []Message {
	messages := make([]Message, 0, n)
	for i := range n {
		reason := fmt.Sprintf("Reason%03d", i%400)
		messages = append(messages, messageOf("a", reason, "Pod", fmt.Sprintf("%s-%d", strings.Repeat("n", 80), i), 1+int64(i%7), seenLast))
	}
	return messages
}

func TestCombineIsBoundedAndCountsTheWhole(t *testing.T) {
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
	var said int64
	for line := range strings.Lines(got.Text) {
		var n int64
		if _, err := fmt.Sscanf(line, "%d × ", &n); err != nil {
			if _, err := fmt.Sscanf(line, "and %d more", &n); err != nil {
				t.Errorf("line %q says no number", line)
			}
		}
		said += n
	}
	if said != want {
		t.Errorf("the lines sum up to %d, want %d", said, want)
	}
}

func TestCombineOfDigestsCountsTheWhole(t *testing.T) {
	messages := flood(2000)
	whole := Combine(messages)
	got := Combine([]Message{Combine(messages[:1500]), Combine(messages[1500:])})
	if got.Count != whole.Count {
		t.Errorf("count is %d, want %d", got.Count, whole.Count)
	}
	if !strings.Contains(got.Text, "\nand ") {
		t.Errorf("the text does not tell of events that the digests did not list: %q", got.Text)
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

func TestCombineLeavesItsArgumentAlone(t *testing.T) {
	messages := []Message{
		messageOf("a", "BackOff", "Pod", "web-0", 1, seenLast),
		messageOf("a", "BackOff", "Pod", "web-0", 2, seenLast),
	}
	Combine(messages)
	if messages[0].Events[0].Count != 1 || messages[1].Events[0].Count != 2 {
		t.Errorf("messages were changed: %+v", messages)
	}
}
