package events_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bongsu-io/bongsu/pkg/events"
)

var (
	noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	app  = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1"}}
)

func emitted(t *testing.T, api client.Client) []eventsv1.Event {
	t.Helper()
	list := &eventsv1.EventList{}
	if err := api.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func TestAnEventHasItsAnnotationsAndTheTimeWhenItHappened(t *testing.T) {
	ended := noon.Add(-time.Minute)
	for name, tc := range map[string]struct {
		event events.Event
		want  time.Time
	}{
		"by default, it happens now": {events.Event{Reason: "Ended"}, noon},
		"it happened earlier":        {events.Event{Reason: "Ended", Time: ended, Annotations: map[string]string{"example.com/run": "7"}}, ended},
	} {
		t.Run(name, func(t *testing.T) {
			api := fake.NewClientBuilder().Build()
			if err := events.NewRecorder(api, clocktesting.NewFakePassiveClock(noon), "app-controller").Emit(t.Context(), app, tc.event); err != nil {
				t.Fatal(err)
			}
			got := emitted(t, api)[0]
			if diff := cmp.Diff(tc.event.Annotations, got.Annotations); diff != "" || !got.EventTime.Equal(new(metav1.NewMicroTime(tc.want))) {
				t.Errorf("it happened at %v, want %v; annotations:\n%s", got.EventTime, tc.want, diff)
			}
		})
	}
}

func TestOnEmitIsCalledForEachEventThatIsCreated(t *testing.T) {
	var refuse error
	api := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if refuse != nil {
				return refuse
			}
			return c.Create(ctx, o, opts...)
		},
	}).Build()
	var seen []string
	newRecorder := func() *events.Recorder {
		r := events.NewRecorder(api, clocktesting.NewFakePassiveClock(noon), "app-controller")
		r.OnEmit = func(_ context.Context, e *eventsv1.Event) {
			seen = append(seen, e.Regarding.Name+" "+e.Reason+" "+e.Name)
		}
		return r
	}
	recorder, failed := newRecorder(), errors.New("the API server is down")
	for _, call := range []struct {
		from   *events.Recorder
		reason string
		refuse error
	}{
		{recorder, "Ended", failed},
		{recorder, "Ended", nil},
		{recorder, "Ended", nil},      // this process has emitted it
		{newRecorder(), "Ended", nil}, // another one has
		{recorder, "Refused", apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "web", errors.New("quota"))},
		{recorder, "Started", nil},
	} {
		refuse = call.refuse
		if err := call.from.Emit(t.Context(), app, events.Event{Reason: call.reason, Since: noon}); !errors.Is(err, failed) && err != nil {
			t.Fatal(err)
		}
	}
	var want []string
	for _, e := range emitted(t, api) {
		want = append(want, "web "+e.Reason+" "+e.Name)
	}
	slices.Sort(want)
	slices.Sort(seen)
	if diff := cmp.Diff(want, seen); diff != "" || len(want) != 2 {
		t.Errorf("created (-) and seen (+): %s", diff)
	}
}
