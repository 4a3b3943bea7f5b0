package eventcache

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

var (
	start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	nb    = types.NamespacedName{Namespace: "lab", Name: "nb"}
	pod   = diagnosis.Object{Kind: "Pod", Name: "nb-0"}
	claim = diagnosis.Object{Kind: "PersistentVolumeClaim", Name: "data"}
)

// past is what the API server has of Events already, and how often it was asked.
type past struct {
	client.Reader
	events []eventsv1.Event
	asked  int
	err    error
}

func (p *past) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	p.asked++
	list.(*eventsv1.EventList).Items = p.events
	return p.err
}

type world struct {
	*Cache
	past  *past
	clock *testingclock.FakePassiveClock
	told  []types.NamespacedName
}

func newWorld() *world {
	w := &world{past: &past{}, clock: testingclock.NewFakePassiveClock(start)}
	w.Cache = New(w.past, w.clock, func(_ context.Context, name types.NamespacedName) { w.told = append(w.told, name) })
	return w
}

func (w *world) follow(t *testing.T, name types.NamespacedName, objects ...diagnosis.Object) {
	t.Helper()
	if err := w.Follow(t.Context(), name, objects...); err != nil {
		t.Fatal(err)
	}
}

func warning(uid string, regarding diagnosis.Object, note string, at time.Time) alarm.Occurrence {
	return alarm.Occurrence{Event: alarm.Event{
		Namespace: "lab", UID: uid, Type: "Warning", Reason: "FailedMount", Note: note, LastSeen: at,
		Regarding: alarm.Reference{Kind: regarding.Kind, Namespace: "lab", Name: regarding.Name},
	}}
}

func (w *world) hear(t *testing.T, occurrences ...alarm.Occurrence) {
	t.Helper()
	w.Observe(t.Context(), occurrences)
}

func (w *world) notes(name types.NamespacedName) map[string]bool {
	notes := map[string]bool{}
	for _, e := range w.Events(name) {
		notes[e.Note] = true
	}
	return notes
}

func TestWhatIsHeardOfAnObjectIsKeptForThoseWhoFollowIt(t *testing.T) {
	w := newWorld()
	other := types.NamespacedName{Namespace: "lab", Name: "other"}
	w.follow(t, nb, pod, claim)
	w.follow(t, other, claim)
	w.hear(t, warning("1", pod, "of the pod", start), warning("2", claim, "of the claim", start),
		warning("3", diagnosis.Object{Kind: "Pod", Name: "stranger"}, "of nobody", start))
	if diff := cmp.Diff(map[string]bool{"of the pod": true, "of the claim": true}, w.notes(nb)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]bool{"of the claim": true}, w.notes(other)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]types.NamespacedName{nb, other}, w.told); diff != "" {
		t.Errorf("each is told once: %s", diff)
	}
}

func TestOnlyEventsThatTheNamespaceVouchesForAreKept(t *testing.T) {
	for name, change := range map[string]func(*alarm.Event){
		"Normal, and nobody reads it":        func(e *alarm.Event) { e.Type, e.Reason = "Normal", "Scheduled" },
		"of another type":                    func(e *alarm.Event) { e.Type = "Other" },
		"kept in another namespace":          func(e *alarm.Event) { e.Namespace = "evil" },
		"regarding one in another namespace": func(e *alarm.Event) { e.Regarding.Namespace = "evil" },
		"regarding another kind":             func(e *alarm.Event) { e.Regarding.Kind = "Service" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.follow(t, nb, pod)
			heard := warning("1", pod, "x", start)
			change(&heard.Event)
			w.hear(t, heard)
			if found := w.Events(nb); len(found) > 0 || len(w.told) > 0 {
				t.Errorf("kept %v, told %v", found, w.told)
			}
		})
	}
}

func TestNormalEventsThatTellAreKept(t *testing.T) {
	w := newWorld()
	event := func(uid types.UID, reason string) eventsv1.Event {
		e := eventsv1.Event{Note: reason, Type: "Normal", Reason: reason, Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: "lab", Name: "nb-0"}}
		e.UID, e.CreationTimestamp.Time = uid, start
		return e
	}
	w.past.events = []eventsv1.Event{event("1", "Pulled"), event("2", "Scheduled")}
	w.follow(t, nb, pod)
	killing := warning("3", pod, "Killing", start)
	killing.Event.Type, killing.Event.Reason = "Normal", "Killing"
	w.hear(t, killing)
	if diff := cmp.Diff(map[string]bool{"Pulled": true, "Killing": true}, w.notes(nb)); diff != "" {
		t.Error(diff)
	}
}

func TestWhatWasBeforeIsReadOnce(t *testing.T) {
	w := newWorld()
	w.past.events = []eventsv1.Event{{Note: "before", Type: "Warning"}}
	w.past.events[0].UID, w.past.events[0].CreationTimestamp.Time = "1", start
	w.follow(t, nb, pod)
	w.follow(t, nb, pod)
	if w.past.asked != 1 || !w.notes(nb)["before"] {
		t.Errorf("asked %d times, know %v", w.past.asked, w.Events(nb))
	}
	w.follow(t, nb, pod, claim)
	if w.past.asked != 2 {
		t.Errorf("asked %d times for two objects", w.past.asked)
	}
	w.Forget(nb)
	w.follow(t, nb, pod)
	if w.past.asked != 3 {
		t.Errorf("asked %d times; after forgetting it is to be asked again", w.past.asked)
	}
}

func TestWhatCouldNotBeReadIsReadAgain(t *testing.T) {
	w := newWorld()
	w.past.err = fmt.Errorf("no answer")
	if err := w.Follow(t.Context(), nb, pod); err == nil {
		t.Error("no error")
	}
	w.past.err = nil
	w.follow(t, nb, pod)
	if w.past.asked != 2 {
		t.Errorf("asked %d times", w.past.asked)
	}
}

func TestWhatIsNoLongerFollowedIsNotHeard(t *testing.T) {
	w := newWorld()
	w.follow(t, nb, pod, claim)
	w.follow(t, nb, pod)
	w.hear(t, warning("1", claim, "x", start))
	w.Forget(nb)
	w.hear(t, warning("2", pod, "x", start))
	if len(w.told) > 0 || len(w.followers) > 0 || len(w.workloads) > 0 {
		t.Errorf("told %v, left %v %v", w.told, w.followers, w.workloads)
	}
}

func TestAFloodKeepsTheLatest(t *testing.T) {
	w := newWorld()
	w.follow(t, nb, pod)
	for i := range 10 * maxEvents {
		w.hear(t, warning(fmt.Sprint(i), pod, fmt.Sprint(i), start.Add(time.Duration(i)*time.Second)))
	}
	notes := w.notes(nb)
	if len(notes) != maxEvents || !notes[fmt.Sprint(10*maxEvents-1)] || notes["0"] {
		t.Errorf("kept %v", notes)
	}
}

func TestAnEventTellsNothingAfterAnHour(t *testing.T) {
	w := newWorld()
	w.follow(t, nb, pod)
	w.hear(t, warning("1", pod, "x", start))
	w.clock.SetTime(start.Add(keepFor))
	if len(w.Events(nb)) != 1 {
		t.Error("forgotten too early")
	}
	w.clock.SetTime(start.Add(keepFor + time.Second))
	if found := w.Events(nb); len(found) > 0 {
		t.Errorf("still kept: %v", found)
	}
}

func TestOfWhatIsYetToBeMadeNobodyIsAsked(t *testing.T) {
	w := newWorld()
	w.Expect(nb, pod)
	w.hear(t, warning("1", pod, "heard", start))
	w.Expect(nb, pod)
	w.follow(t, nb, pod)
	if w.past.asked != 0 || !w.notes(nb)["heard"] {
		t.Errorf("asked %d times, know %v", w.past.asked, w.Events(nb))
	}
	w.follow(t, nb, pod, claim)
	if w.past.asked != 1 {
		t.Errorf("asked %d times for what was there before", w.past.asked)
	}
}
