package cluster

import (
	"cmp"
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega" //nolint:staticcheck // reads as in the tests
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/kstatus"
)

// Manifest returns an object of one of our kinds with a spec in YAML, as a user
// would write it: nothing stops it from being wrong.
func Manifest(t testing.TB, kind, namespace, name, spec string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind(kind))
	u.SetNamespace(namespace)
	u.SetName(name)
	var value any
	if err := yaml.Unmarshal([]byte(spec), &value); err != nil {
		t.Fatal(err)
	}
	if value != nil {
		u.Object["spec"] = value
	}
	return u
}

// Summarized is an object of any of our kinds.
type Summarized interface {
	client.Object
	CommonStatus() v1alpha1.CommonStatus
}

// Object is an alarm or a receiver.
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

// Reason returns why the present generation of an object is in its state, or else the
// state. It is empty if the operator has not handled the generation yet.
func Reason(o Summarized) string {
	common := o.CommonStatus()
	if *common.ObservedGeneration != o.GetGeneration() {
		return ""
	}
	return cmp.Or(common.Summary.Reason, string(common.Summary.State))
}

// ExpectState waits until the present generation of an object is in a state.
func (c *Cluster) ExpectState(t testing.TB, o Summarized, state v1alpha1.State) {
	t.Helper()
	NewWithT(t).Eventually(func() v1alpha1.State {
		err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o)
		common := o.CommonStatus()
		if err != nil || *common.ObservedGeneration != o.GetGeneration() {
			return ""
		}
		return common.Summary.State
	}).WithTimeout(time.Minute).Should(Equal(state))
}

// ExpectSuspended waits until an object is in a state without work to do: it has no
// Ready condition and is Current for kstatus.
func (c *Cluster) ExpectSuspended(t testing.TB, o Summarized, state v1alpha1.State) {
	t.Helper()
	c.ExpectState(t, o, state)
	NewWithT(t).Expect(meta.FindStatusCondition(*o.CommonStatus().Conditions, v1alpha1.ConditionReady)).To(BeNil())
	NewWithT(t).Expect(kstatus.Compute(t, o)).To(BeEquivalentTo("Current"))
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
