package headlines

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega" //nolint:staticcheck // reads as in the tests
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/kubelet"
)

// Subject is an object with one pod, which is scheduled and left to the test.
type Subject struct {
	Cluster *cluster.Cluster
	Object  cluster.Summarized
	// Controller is the name of the controller in Events. Container is its container in the pod.
	Controller, Container string
	// Pod waits for the present pod.
	Pod func() *corev1.Pod
	// Touch changes the generation of the object, and nothing else that counts.
	Touch func()
	// Describe returns what the owner sees.
	Describe func() string
}

// patience is the time limit for a failure to be reported. The machine may be busy.
const patience = 2 * time.Minute

// PodSpecOf returns the part of the pod's spec that the owner sets.
func (r Row) PodSpecOf(container string) string {
	return strings.ReplaceAll(r.PodSpec, "CONTAINER", container)
}

// Check puts the pod into the state, and checks what the owner reads.
func (r Row) Check(t *testing.T, s Subject) {
	t.Helper()
	g := NewWithT(t)
	pod := s.Pod()
	k := kubelet.Kubelet{Client: s.Cluster.Client}
	r.Happen(t, k, pod)
	says := strings.NewReplacer("NAMESPACE", pod.Namespace, "POD", pod.Name, "CONTAINER", s.Container).Replace(r.Says)
	warning := ConsistOf(And(
		HaveField("Reason", r.Reason), HaveField("Note", says), HaveField("ReportingController", s.Controller),
	))
	warnings := func() []eventsv1.Event { return s.warnings(t) }
	if r.Replaced {
		var next *corev1.Pod
		g.Eventually(func() bool {
			next = s.Pod()
			return next.UID != pod.UID
		}).WithTimeout(patience).Should(BeTrue())
		k.Running(t, next, true)
		s.Cluster.ExpectState(t, s.Object, v1alpha1.StateReady)
	} else {
		g.Eventually(s.headline(t)).WithTimeout(patience).Should(Equal(headline{
			State: v1alpha1.StateFailing, Reason: r.Reason, Stalled: r.Reason + ": " + says, Ready: r.Reason + ": " + says,
		}))
	}
	g.Eventually(warnings).WithTimeout(patience).Should(warning)
	g.Expect(oneLine(s.Describe())).To(ContainSubstring(oneLine(says)))
	for range 2 { // the second shows that the reconcile after the first has emitted its Events
		s.Touch()
		g.Eventually(s.isObserved(t)).WithTimeout(patience).Should(BeTrue())
	}
	g.Expect(warnings()).To(warning, "a further reconcile emits no further Event")
}

// headline is what the status says.
type headline struct {
	State          v1alpha1.State
	Reason         string
	Stalled, Ready string
}

func (s Subject) headline(t *testing.T) func() headline {
	return func() headline {
		common := s.read(t)
		text := func(kind string, status metav1.ConditionStatus) string {
			c := meta.FindStatusCondition(*common.Conditions, kind)
			if c == nil || c.Status != status {
				return ""
			}
			return c.Reason + ": " + c.Message
		}
		return headline{
			State: common.Summary.State, Reason: common.Summary.Reason,
			Stalled: text(v1alpha1.ConditionStalled, metav1.ConditionTrue), Ready: text(v1alpha1.ConditionReady, metav1.ConditionFalse),
		}
	}
}

func (s Subject) isObserved(t *testing.T) func() bool {
	return func() bool { return *s.read(t).ObservedGeneration == s.Object.GetGeneration() }
}

func (s Subject) read(t *testing.T) v1alpha1.CommonStatus {
	t.Helper()
	if err := s.Cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(s.Object), s.Object); err != nil {
		t.Fatal(err)
	}
	return s.Object.CommonStatus()
}

// warnings returns the Warnings on the object.
func (s Subject) warnings(t *testing.T) []eventsv1.Event {
	t.Helper()
	uid := string(s.Object.GetUID())
	if uid == "" {
		s.read(t)
		uid = string(s.Object.GetUID())
	}
	var all eventsv1.EventList
	if err := s.Cluster.Client.List(t.Context(), &all, client.InNamespace(s.Object.GetNamespace())); err != nil {
		t.Fatal(err)
	}
	var warnings []eventsv1.Event
	for _, e := range all.Items {
		if e.Type == corev1.EventTypeWarning && string(e.Regarding.UID) == uid {
			warnings = append(warnings, e)
		}
	}
	return warnings
}

// oneLine undoes the line breaks of a description.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// String is for the messages of failed tests.
func (h headline) String() string {
	return fmt.Sprintf("%s (%s)\nStalled: %s\nReady: %s", h.State, h.Reason, h.Stalled, h.Ready)
}
