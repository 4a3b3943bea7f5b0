package events_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
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
