package headlines

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
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
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

// Subject is an object with one pod, which is scheduled and left to the test.
type Subject struct {
	Cluster *cluster.Cluster
	Object  cluster.Summarized
	// Controller is the name of the controller in Events. Container is its container in the pod.
	Controller, Container string
	// EventReasons are the reasons of Events that differ from those of conditions. It can be nil.
	EventReasons map[string]string
	// Pod waits for the present pod.
	Pod func() *corev1.Pod
	// Touch changes the generation of the object, and nothing else that counts.
	Touch func()
	// Describe returns what the owner sees.
	Describe func() string
}

// patience is the time limit for a failure to be reported. The machine may be busy.
const patience = 2 * time.Minute

// Setup prepares a namespace for the state. It returns the template of the pod, in YAML.
func (r Row) Setup(t testing.TB, c *cluster.Cluster, namespace, container string) string {
	t.Helper()
	if r.Prepare != nil {
		r.Prepare(t, c, namespace)
	}
	parts := []string{}
	if r.PodSpec != "" {
		parts = append(parts, strings.NewReplacer("CONTAINER", container, "NAMESPACE", namespace).Replace(r.PodSpec))
	}
	if r.Node != nil {
		r.Node.create(t, c.Client, nodeOf(namespace))
		parts = append(parts, "nodeSelector: {kubernetes.io/hostname: "+nodeOf(namespace)+"}", "tolerations: [{key: "+ownTaint+", operator: Exists}]")
	}
	return "{metadata: {annotations: {" + localcluster.Simulate + ": none}}, spec: {" + strings.Join(parts, ", ") + "}}"
}

func nodeOf(namespace string) string { return "node-of-" + namespace }

// Check puts the pod into the state, and checks what the owner reads.
func (r Row) Check(t *testing.T, s Subject) {
	t.Helper()
	g := NewWithT(t)
	k := kubelet.Kubelet{Client: s.Cluster.Client}
	warnings := func() []eventsv1.Event { return s.warnings(t) }
	pod := &corev1.Pod{}
	if r.Happen != nil {
		pod = s.Pod()
		r.Happen(t, k, pod)
	}
	if len(r.Before) > 0 {
		g.Eventually(warnings).WithTimeout(patience).Should(ContainElements(s.matchersOf(r.Before, pod)...))
		k.Deleted(t, pod)
	}
	all := ConsistOf(s.expected(r, pod)...)
	if r.Replaced {
		s.replace(t, k, pod)
	} else {
		g.Eventually(s.headline(t)).WithTimeout(patience).Should(r.headline(s, pod))
	}
	g.Eventually(warnings).WithTimeout(patience).Should(all)
	g.Expect(oneLine(s.Describe())).To(s.matches(r.Says, pod))
	for range 2 { // the second shows that the reconcile after the first has emitted its Events
		s.Touch()
		g.Eventually(s.isObserved(t)).WithTimeout(patience).Should(BeTrue())
	}
	g.Expect(warnings()).To(all, "a further reconcile emits no further Event")
}

// expected are the matchers of all Warnings.
func (s Subject) expected(r Row, pod *corev1.Pod) []any {
	sentences := slices.Clone(r.Before)
	if !r.Waits {
		sentences = append(sentences, r.Sentence)
	}
	return s.matchersOf(sentences, pod)
}

func (s Subject) matchersOf(sentences []Sentence, pod *corev1.Pod) []any {
	matchers := []any{}
	for _, want := range sentences {
		matchers = append(matchers, And(
			HaveField("Reason", s.eventReason(want.Reason)), HaveField("Note", s.matches(want.Says, pod)), HaveField("ReportingController", s.Controller),
		))
	}
	return matchers
}

// headline matches what the status must say.
func (r Row) headline(s Subject, pod *corev1.Pod) OmegaMatcher {
	state, stalled := v1alpha1.StateFailing, s.matches(r.Reason+": "+r.Says, pod)
	if r.Waits {
		state, stalled = v1alpha1.StateStarting, BeEmpty()
	}
	return And(
		HaveField("State", state), HaveField("Reason", r.Reason), HaveField("Stalled", stalled), HaveField("Ready", s.matches(r.Reason+": "+r.Says, pod)),
	)
}

// replace waits for the next pod, and lets it run.
func (s Subject) replace(t *testing.T, k kubelet.Kubelet, pod *corev1.Pod) {
	t.Helper()
	// A StatefulSet controller with an old cache deletes the next pod too, because it deletes pods by
	// their name: pkg/controller/statefulset/stateful_pod_control.go. Each pod must therefore start.
	started := pod.UID
	NewWithT(t).Eventually(func() v1alpha1.State {
		if next := s.Pod(); next.UID != started {
			k.Running(t, next, true)
			started = next.UID
		}
		if started == pod.UID {
			return "" // the former pod can still be the one in the status
		}
		return s.headline(t)().State
	}).WithTimeout(patience).Should(Equal(v1alpha1.StateReady))
	s.Cluster.ExpectState(t, s.Object, v1alpha1.StateReady)
}

// matches returns a matcher of texts with the sentence in them.
func (s Subject) matches(says string, pod *corev1.Pod) OmegaMatcher {
	namespace := s.Object.GetNamespace()
	says = strings.NewReplacer("NAMESPACE", namespace, "POD", pod.Name, "CONTAINER", s.Container, "NODE", nodeOf(namespace)).Replace(says)
	return MatchRegexp(strings.ReplaceAll(regexp.QuoteMeta(says), "…", ".*"))
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

// eventReason is the reason of the Event about a failure with a reason. All attempts to pull an image
// are one failure.
func (s Subject) eventReason(reason string) string {
	if reason == diagnosis.ReasonErrImagePull {
		reason = diagnosis.ReasonImagePullBackOff
	}
	return cmp.Or(s.EventReasons[reason], reason)
}
