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

// Manifest returns an object of one of the project's kinds with a spec in YAML. The spec
// may be invalid.
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

// Summarized is an object of any of the project's kinds.
type Summarized interface {
	client.Object
	CommonStatus() v1alpha1.CommonStatus
}

// Object is an alarm or a receiver.
type Object interface {
	client.Object
	AlarmStatus() *v1alpha1.AlarmStatus
}

// Ready reads an object and returns its Ready condition. It returns a zero condition if
// there is none for the current generation.
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

// ExpectNotReady waits until the object is not Ready for this reason, and returns the
// message of the condition.
func (c *Cluster) ExpectNotReady(t testing.TB, o Object, reason string) string {
	t.Helper()
	var ready metav1.Condition
	NewWithT(t).Eventually(func() metav1.Condition {
		ready = c.Ready(t.Context(), o)
		return ready
	}).Should(And(HaveField("Status", metav1.ConditionFalse), HaveField("Reason", reason)))
	return ready.Message
}

// Reason returns the reason for the state of the object's current generation, or the state
// itself if there is no reason. It is empty if the operator has not handled the generation
// yet.
func Reason(o Summarized) string {
	common := o.CommonStatus()
	if *common.ObservedGeneration != o.GetGeneration() {
		return ""
	}
	return cmp.Or(common.Summary.Reason, string(common.Summary.State))
}

// ExpectState waits until the current generation of an object is in this state.
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

// ExpectSuspended waits until an object is in a state without work to do. It then has no
// Ready condition, and kstatus reports it as Current.
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

// ExpectWarning waits for a Warning of the controller on the object.
func (c *Cluster) ExpectWarning(t testing.TB, o client.Object, reason, controller string) {
	t.Helper()
	NewWithT(t).Eventually(func() []eventsv1.Event { return c.EventsOn(t.Context(), o, reason) }).
		Should(ContainElement(And(
			HaveField("Type", "Warning"),
			HaveField("ReportingController", controller),
		)))
}
