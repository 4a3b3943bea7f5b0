package events_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bongsu-io/bongsu/pkg/events"
)

func podWithUID(name string, ready corev1.ConditionStatus, since time.Time) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID("uid-" + name)}}
	if ready == "" {
		pod.CreationTimestamp = metav1.NewTime(since)
		return pod
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.NewTime(since)}}
	return pod
}

func TestOfUnreadyReadsTheEventsOfPodsThatAreNotReadyForAWhile(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	late, early := now.Add(-30*time.Second), now.Add(-29*time.Second)
	pods := []*corev1.Pod{
		podWithUID("f", corev1.ConditionFalse, late), podWithUID("e", corev1.ConditionUnknown, late), podWithUID("d", "", late),
		podWithUID("c", corev1.ConditionFalse, late), podWithUID("b", corev1.ConditionFalse, late), podWithUID("a", corev1.ConditionFalse, late),
		podWithUID("starting", corev1.ConditionFalse, early), podWithUID("new", "", early), podWithUID("ready", corev1.ConditionTrue, late),
	}
	index := func(o client.Object) []string { return []string{string(o.(*eventsv1.Event).Regarding.UID)} }
	requests := 0
	builder := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithIndex(&eventsv1.Event{}, "regarding.uid", index).
		WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			requests++
			if limit := (&client.ListOptions{}).ApplyOptions(opts).Limit; limit != 100 {
				t.Errorf("the limit of a list is %d, want 100", limit)
			}
			return c.List(ctx, list, opts...)
		}})
	for _, pod := range pods {
		builder.WithObjects(&eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: pod.Name}, Type: "Warning", Reason: "Unhealthy",
			Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: "team", Name: pod.Name, UID: pod.UID},
		})
	}
	api := builder.Build()
	found, err := events.OfUnready(t.Context(), api, pods, now)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range found {
		names = append(names, e.Regarding.Name)
	}
	if diff := cmp.Diff([]string{"a", "b", "c", "d", "e"}, names); diff != "" {
		t.Error(diff)
	}
	if requests != 5 {
		t.Errorf("%d requests, want one for each pod", requests)
	}
	if found, err := events.OfUnready(t.Context(), api, pods[6:], now); err != nil || found != nil || requests != 5 {
		t.Errorf("got %v, %v and %d requests, although nothing is wrong", found, err, requests-5)
	}
}
