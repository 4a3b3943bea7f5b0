package cluster

import (
	"context"
	"testing"

	. "github.com/onsi/gomega" //nolint:staticcheck // reads as in the tests
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// Object is one of our kinds.
type Object interface {
	client.Object
	AlarmStatus() *v1alpha1.AlarmStatus
}

// Ready returns the Ready condition of an object as it is now, zero if it has none
// of its present generation.
func (c *Cluster) Ready(ctx context.Context, o Object) metav1.Condition {
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
		return metav1.Condition{}
	}
	ready := meta.FindStatusCondition(o.AlarmStatus().Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.ObservedGeneration != o.GetGeneration() {
		return metav1.Condition{}
	}
	return *ready
}

// ExpectReady waits until the object is Ready.
func (c *Cluster) ExpectReady(t testing.TB, o Object) {
	t.Helper()
	NewWithT(t).Eventually(func() metav1.Condition { return c.Ready(t.Context(), o) }).
		Should(HaveField("Status", metav1.ConditionTrue))
}

// ExpectNotReady waits until the object is not Ready for the reason, and returns
// what its condition says.
func (c *Cluster) ExpectNotReady(t testing.TB, o Object, reason string) string {
	t.Helper()
	var ready metav1.Condition
	NewWithT(t).Eventually(func() metav1.Condition {
		ready = c.Ready(t.Context(), o)
		return ready
	}).Should(And(HaveField("Status", metav1.ConditionFalse), HaveField("Reason", reason)))
	return ready.Message
}

// EventsOn returns the Events with the reason that regard an object.
func (c *Cluster) EventsOn(ctx context.Context, o client.Object, reason string) []eventsv1.Event {
	namespace := o.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	var all eventsv1.EventList
	if err := c.Client.List(ctx, &all, client.InNamespace(namespace)); err != nil {
		return nil
	}
	var events []eventsv1.Event
	for _, e := range all.Items {
		if e.Regarding.UID == o.GetUID() && e.Reason == reason {
			events = append(events, e)
		}
	}
	return events
}

// ExpectWarning waits for a Warning on the object, from the controller.
func (c *Cluster) ExpectWarning(t testing.TB, o client.Object, reason, controller string) {
	t.Helper()
	NewWithT(t).Eventually(func() []eventsv1.Event { return c.EventsOn(t.Context(), o, reason) }).
		Should(ContainElement(And(
			HaveField("Type", "Warning"),
			HaveField("ReportingController", controller),
		)))
}
