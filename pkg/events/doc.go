// Package events emits Kubernetes Events for the objects of an operator, without
// duplicates. Each Event has a name that is derived from its contents. If it exists
// already, the API server rejects it, so no process needs to remember what it emitted:
//
//	recorder := events.NewRecorder(client, clock.RealClock{}, "app-controller")
//	err := recorder.Emit(ctx, app, events.Event{
//		Type: corev1.EventTypeWarning, Reason: "ImagePullBackOff", Action: "Reconcile",
//		Note: message, Since: condition.LastTransitionTime.Time,
//	})
//
// The operator needs permission to create events in the API group events.k8s.io.
//
// The API server deletes Events after an hour by default. Emit an Event again when
// [Recorder.NextRepeat] has passed, while its cause lasts.
package events
