package eventcache

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/testing/eventstream"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

var (
	start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	nb    = types.NamespacedName{Namespace: "lab", Name: "nb"}
	pod   = diagnosis.Object{Kind: "Pod", Name: "nb-0"}
	claim = diagnosis.Object{Kind: "PersistentVolumeClaim", Name: "data"}
)

// earlierEvents is an API server with Events. It counts the requests.
type earlierEvents struct {
	client.Reader
	events   []eventsv1.Event
	requests int
	err      error
}

func (r *earlierEvents) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	r.requests++
	list.(*eventsv1.EventList).Items = r.events
	return r.err
}

type fixture struct {
	*Cache
	earlier  *earlierEvents
	clock    *testingclock.FakePassiveClock
	notified []types.NamespacedName
}

func newFixture() *fixture {
	f := &fixture{earlier: &earlierEvents{}, clock: testingclock.NewFakePassiveClock(start)}
	f.Cache = New(f.earlier, f.clock, func(name types.NamespacedName) { f.notified = append(f.notified, name) })
	return f
}

func (f *fixture) follow(t *testing.T, name types.NamespacedName, objects ...diagnosis.Object) {
	t.Helper()
	if err := f.Follow(t.Context(), name, objects...); err != nil {
		t.Fatal(err)
	}
}

func warning(uid string, regarding diagnosis.Object, note string, at time.Time) alarm.Occurrence {
	return alarm.Occurrence{Event: alarm.Event{
		Namespace: "lab", UID: uid, Type: "Warning", Reason: "FailedMount", Note: note, LastSeen: at,
		Regarding: alarm.Reference{Kind: regarding.Kind, Namespace: "lab", Name: regarding.Name},
	}}
}

func (f *fixture) observe(t *testing.T, occurrences ...alarm.Occurrence) {
	t.Helper()
	f.Observe(t.Context(), occurrences)
}

func (f *fixture) notes(name types.NamespacedName) map[string]bool {
	notes := map[string]bool{}
	for _, e := range f.Events(name) {
		notes[e.Note] = true
	}
	return notes
}

func TestEventsAreKeptForTheFollowersOfTheirObject(t *testing.T) {
	f := newFixture()
	other := types.NamespacedName{Namespace: "lab", Name: "other"}
	f.follow(t, nb, pod, claim)
	f.follow(t, other, claim)
	f.observe(t, warning("1", pod, "of the pod", start), warning("2", claim, "of the claim", start),
		warning("3", diagnosis.Object{Kind: "Pod", Name: "stranger"}, "of another pod", start))
	if diff := cmp.Diff(map[string]bool{"of the pod": true, "of the claim": true}, f.notes(nb)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]bool{"of the claim": true}, f.notes(other)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]types.NamespacedName{nb, other}, f.notified); diff != "" {
		t.Errorf("notified: %s", diff)
	}
}

func TestOtherEventsAreNotKept(t *testing.T) {
	for name, change := range map[string]func(*alarm.Event){
		"Normal, and not read":    func(e *alarm.Event) { e.Type, e.Reason = "Normal", "Scheduled" },
		"of another type":         func(e *alarm.Event) { e.Type = "Other" },
		"in another namespace":    func(e *alarm.Event) { e.Namespace = "evil" },
		"about another namespace": func(e *alarm.Event) { e.Regarding.Namespace = "evil" },
		"about another kind":      func(e *alarm.Event) { e.Regarding.Kind = "Service" },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture()
			f.follow(t, nb, pod)
			occurrence := warning("1", pod, "x", start)
			change(&occurrence.Event)
			f.observe(t, occurrence)
			if found := f.Events(nb); len(found) > 0 || len(f.notified) > 0 {
				t.Errorf("kept %v, notified %v", found, f.notified)
			}
		})
	}
}

func TestNormalEventsThatTheDiagnosisReadsAreKept(t *testing.T) {
	f := newFixture()
	event := func(uid types.UID, reason string) eventsv1.Event {
		e := eventsv1.Event{Note: reason, Type: "Normal", Reason: reason, Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: "lab", Name: "nb-0"}}
		e.UID, e.CreationTimestamp.Time = uid, start
		return e
	}
	f.earlier.events = []eventsv1.Event{event("1", "Pulled"), event("2", "Scheduled")}
	f.follow(t, nb, pod)
	killing := warning("3", pod, "Killing", start)
	killing.Event.Type, killing.Event.Reason = "Normal", "Killing"
	f.observe(t, killing)
	if diff := cmp.Diff(map[string]bool{"Pulled": true, "Killing": true}, f.notes(nb)); diff != "" {
		t.Error(diff)
	}
}

func TestEarlierEventsAreReadOnce(t *testing.T) {
	f := newFixture()
	f.earlier.events = []eventsv1.Event{{Note: "before", Type: "Warning"}}
	f.earlier.events[0].UID, f.earlier.events[0].CreationTimestamp.Time = "1", start
	f.follow(t, nb, pod)
	f.follow(t, nb, pod)
	if f.earlier.requests != 1 || !f.notes(nb)["before"] {
		t.Errorf("%d requests, kept %v", f.earlier.requests, f.Events(nb))
	}
	f.follow(t, nb, pod, claim)
	if f.earlier.requests != 2 {
		t.Errorf("%d requests for two objects", f.earlier.requests)
	}
	f.Forget(nb)
	f.follow(t, nb, pod)
	if f.earlier.requests != 3 {
		t.Errorf("%d requests, want another one after Forget", f.earlier.requests)
	}
}

func TestFailedReadIsRetried(t *testing.T) {
	f := newFixture()
	f.earlier.err = errors.New("no answer")
	if err := f.Follow(t.Context(), nb, pod); err == nil {
		t.Error("no error")
	}
	f.earlier.err = nil
	f.follow(t, nb, pod)
	if f.earlier.requests != 2 {
		t.Errorf("%d requests", f.earlier.requests)
	}
}

func TestEventsOfUnfollowedObjectsAreNotKept(t *testing.T) {
	f := newFixture()
	f.follow(t, nb, pod, claim)
	f.follow(t, nb, pod)
	f.observe(t, warning("1", claim, "x", start))
	f.Forget(nb)
	f.observe(t, warning("2", pod, "x", start))
	if len(f.notified) > 0 || len(f.followers) > 0 || len(f.workloads) > 0 {
		t.Errorf("notified %v, left %v %v", f.notified, f.followers, f.workloads)
	}
}

func TestFloodKeepsTheLatestEvents(t *testing.T) {
	f := newFixture()
	f.follow(t, nb, pod)
	for i := range 10 * maxEvents {
		f.observe(t, warning(fmt.Sprint(i), pod, fmt.Sprint(i), start.Add(time.Duration(i)*time.Second)))
	}
	notes := f.notes(nb)
	if len(notes) != maxEvents || !notes[fmt.Sprint(10*maxEvents-1)] || notes["0"] {
		t.Errorf("kept %v", notes)
	}
}

func TestEventsExpireAfterAnHour(t *testing.T) {
	f := newFixture()
	f.follow(t, nb, pod)
	f.observe(t, warning("1", pod, "x", start))
	f.clock.SetTime(start.Add(keepFor))
	if len(f.Events(nb)) != 1 {
		t.Error("expired too early")
	}
	f.clock.SetTime(start.Add(keepFor + time.Second))
	if found := f.Events(nb); len(found) > 0 {
		t.Errorf("still kept: %v", found)
	}
}

func TestExpectReadsNoEarlierEvents(t *testing.T) {
	f := newFixture()
	f.Expect(nb, pod)
	f.observe(t, warning("1", pod, "observed", start))
	f.Expect(nb, pod)
	f.follow(t, nb, pod)
	if f.earlier.requests != 0 || !f.notes(nb)["observed"] {
		t.Errorf("%d requests, kept %v", f.earlier.requests, f.Events(nb))
	}
	f.follow(t, nb, pod, claim)
	if f.earlier.requests != 1 {
		t.Errorf("%d requests, want one for the claim", f.earlier.requests)
	}
}

// A tenant can create Events that are almost as large as a request.
func TestFewEarlierEventsAreReadIfTheyAreLarge(t *testing.T) {
	note := strings.Repeat("x", 1<<20)
	var last int64
	cfg := eventstream.Local(func(query url.Values) (*eventsv1.EventList, *apierrors.StatusError) {
		last, _ = strconv.ParseInt(query.Get("limit"), 10, 64)
		list := &eventsv1.EventList{}
		for i := range min(last, 30) {
			list.Items = append(list.Items, eventsv1.Event{
				ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint(i)), CreationTimestamp: metav1.NewTime(start)},
				Type:       "Warning", Reason: "FailedMount", Note: note,
				Regarding: corev1.ObjectReference{Kind: pod.Kind, Namespace: "lab", Name: pod.Name},
			})
		}
		return list, nil
	}, nil)
	cfg.Wrap(kube.LimitResponses(kube.NoLimit))
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(eventsv1.SchemeGroupVersion.WithKind("Event"), meta.RESTScopeNamespace)
	reader, err := client.New(cfg, client.Options{Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture()
	f.Cache = New(reader, f.clock, func(types.NamespacedName) {})
	f.follow(t, nb, pod)
	if last != 1 || len(f.Events(nb)) != 1 {
		t.Errorf("the last list had at most %d Events of 1 MiB, and %d are kept, want one", last, len(f.Events(nb)))
	}
}
