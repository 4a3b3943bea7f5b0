package events

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var since = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// newRecorder returns a recorder without an API server.
func newRecorder(t *testing.T, now time.Time) *Recorder {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(&rest.Config{Host: "http://127.0.0.1:1"},
		client.Options{Scheme: scheme, Mapper: meta.NewDefaultRESTMapper(nil)})
	if err != nil {
		t.Fatal(err)
	}
	return NewRecorder(c, clocktesting.NewFakePassiveClock(now), "test-controller")
}

func build(t *testing.T, r *Recorder, object client.Object, e Event) *eventsv1.Event {
	t.Helper()
	event, err := r.build(object, e)
	if err != nil {
		t.Fatal(err)
	}
	return event
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "uid"}}
}

func TestEventsWithTheSameMeaningHaveTheSameName(t *testing.T) {
	base := Event{Type: "Warning", Reason: "DeliveryFailing", Note: "attempt 3 failed", Since: since}
	name := func(now time.Time, object client.Object, e Event) string {
		return build(t, newRecorder(t, now), object, e).Name
	}
	want := name(since, pod("web"), base)
	with := func(change func(*Event)) Event {
		e := base
		change(&e)
		return e
	}
	for title, tc := range map[string]struct {
		now   time.Time
		event Event
		same  bool
	}{
		"a moment later":         {since.Add(49 * time.Minute), base, true},
		"only a number differs":  {since, with(func(e *Event) { e.Note = "attempt 14 failed" }), true},
		"only white space":       {since, with(func(e *Event) { e.Note = " attempt  3 failed\n" }), true},
		"the next repetition":    {since.Add(51 * time.Minute), base, false},
		"another note":           {since, with(func(e *Event) { e.Note = "the channel is gone" }), false},
		"another reason":         {since, with(func(e *Event) { e.Reason = "SecretNotFound" }), false},
		"another time":           {since, with(func(e *Event) { e.Time = since.Add(-time.Hour) }), true},
		"another annotation":     {since, with(func(e *Event) { e.Annotations = map[string]string{"example.com/run": "2"} }), true},
		"it happened once again": {since, with(func(e *Event) { e.Since = since.Add(time.Minute) }), false},
	} {
		t.Run(title, func(t *testing.T) {
			got := name(tc.now, pod("web"), tc.event)
			if (got == want) != tc.same {
				t.Errorf("got %s, first was %s: want the same: %v", got, want, tc.same)
			}
		})
	}
	other := pod("web")
	other.UID = "another"
	if name(since, other, base) == want {
		t.Error("another object of the same name got the same Event")
	}
}

func TestEventFitsTheAPIServersLimits(t *testing.T) {
	long := pod(strings.Repeat("n", 253))
	event := build(t, newRecorder(t, since), long, Event{Note: strings.Repeat("봉수 ", 400), Since: since})
	if len(event.Name) > 253 {
		t.Errorf("the name has %d bytes, want at most 253", len(event.Name))
	}
	if len(event.Note) > 1024 || !utf8.ValidString(event.Note) {
		t.Errorf("the note has %d bytes, valid %v; want at most 1024, cut between runes", len(event.Note), utf8.ValidString(event.Note))
	}
}

func TestEventOfAnObjectWithoutNamespaceIsKeptInDefault(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0", UID: "uid"}}
	event := build(t, newRecorder(t, since), node, Event{Since: since})
	if event.Namespace != "default" || event.Regarding.Namespace != "" || event.Regarding.Kind != "Node" {
		t.Errorf("got namespace %q regarding %+v", event.Namespace, event.Regarding)
	}
}

func TestNextRepeatIsAtTheNextFiftyMinutes(t *testing.T) {
	for after, want := range map[time.Duration]time.Duration{
		0:                RepeatEvery,
		20 * time.Minute: 30 * time.Minute,
		70 * time.Minute: 30 * time.Minute,
	} {
		if got := newRecorder(t, since.Add(after)).NextRepeat(since); got != want {
			t.Errorf("after %v: got %v, want %v", after, got, want)
		}
	}
}
