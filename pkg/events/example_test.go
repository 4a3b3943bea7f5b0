package events_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bongsu-io/bongsu/pkg/events"
)

// A controller reports a failure in every reconcile. The API server gets one Event, even if the
// controller starts again.
func ExampleRecorder_Emit() {
	ctx, api := context.Background(), fake.NewClientBuilder().Build()
	app := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1"}}
	failingSince := time.Now()
	for attempt := range 3 {
		recorder := events.NewRecorder(api, clock.RealClock{}, "app-controller") // as after a restart
		err := recorder.Emit(ctx, app, events.Event{
			Type: corev1.EventTypeWarning, Reason: "NotReady", Action: "Reconcile",
			Note: fmt.Sprintf("attempt %d failed: no pod is ready", attempt), Since: failingSince,
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	var emitted eventsv1.EventList
	if err := api.List(ctx, &emitted); err != nil {
		fmt.Println(err)
	}
	fmt.Println(len(emitted.Items), emitted.Items[0].Note)
	// Output: 1 attempt 0 failed: no pod is ready
}

// recorder lets code that was written against client-go's record.EventRecorder emit through a
// Recorder. Since such code does not say since when a cause lasts, the same note is one Event within
// 50 minutes.
type recorder struct{ *events.Recorder }

func (r recorder) Event(object runtime.Object, eventtype, reason, message string) {
	r.AnnotatedEventf(object, nil, eventtype, reason, "%s", message)
}

func (r recorder) Eventf(object runtime.Object, eventtype, reason, note string, args ...any) {
	r.AnnotatedEventf(object, nil, eventtype, reason, note, args...)
}

func (r recorder) AnnotatedEventf(object runtime.Object, annotations map[string]string, eventtype, reason, note string, args ...any) {
	err := r.Emit(context.TODO(), object.(client.Object), events.Event{
		Type: eventtype, Reason: reason, Action: "Reconcile", Note: fmt.Sprintf(note, args...), Annotations: annotations,
		Since: time.Now().Truncate(events.RepeatEvery),
	})
	if err != nil {
		fmt.Println(err) // the old interface returns no error: log it
	}
}

// Move code that was written against an EventRecorder of client-go in two steps. First, pass it an
// adapter of ten lines, as here. Then replace each call by Emit where you know the context, the
// action and since when the cause lasts, and return the error.
//
// The newer events.EventRecorder has one method only, which also passes the action.
func ExampleRecorder_eventRecorder() {
	ctx, api := context.Background(), fake.NewClientBuilder().Build()
	app := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1"}}
	mine := events.NewRecorder(api, clock.RealClock{}, "app-controller")

	// Before: mgr.GetEventRecorderFor("app-controller")
	var old record.EventRecorder = recorder{mine}
	old.Eventf(app, corev1.EventTypeWarning, "BackupFailed", "attempt %d failed", 1)

	// After:
	err := mine.Emit(ctx, app, events.Event{
		Type: corev1.EventTypeWarning, Reason: "RestoreFailed", Action: "Restore", Note: fmt.Sprintf("attempt %d failed", 1), Since: time.Now(),
	})
	if err != nil {
		fmt.Println(err)
	}

	var emitted eventsv1.EventList
	if err := api.List(ctx, &emitted); err != nil {
		fmt.Println(err)
	}
	for _, e := range emitted.Items {
		fmt.Println(e.Action, e.Reason, e.Note)
	}
	// Unordered output:
	// Reconcile BackupFailed attempt 1 failed
	// Restore RestoreFailed attempt 1 failed
}
