package jupyter_test

import (
	"cmp"
	"regexp"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/explain"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// Users must read one cause of a state: in conditions, Events, `bongsu explain`, and messages about
// the pod.
func TestConditionsEventsExplainAndMessagesAgree(t *testing.T) {
	t.Parallel()
	const container = "spec.containers{notebook}"
	noNetwork := func(s *scene, pod *corev1.Pod) {
		s.kubelet.Event(s.t, pod, "FailedCreatePodSandBox", "", `Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "5a": plugin type="bridge" failed (add): failed to allocate for range 0: no IP addresses available in range set: 10.244.1.1-10.244.1.254`)
	}
	for name, tc := range map[string]struct {
		spec   string
		happen func(*scene, *corev1.Pod)
		// again happens until there is a message with the cause: one about the start of a pod has none.
		again func(*scene, *corev1.Pod)
	}{
		"no node is large enough": {spec: impatient + "resources: {requests: {cpu: '640'}}\n"},
		"the image does not exist": {happen: func(s *scene, pod *corev1.Pod) {
			const text = `rpc error: code = NotFound desc = failed to pull and unpack image "example.org/nb:nope": failed to resolve reference "example.org/nb:nope": example.org/nb:nope: not found`
			s.kubelet.Waiting(s.t, pod, "ErrImagePull", text)
			s.kubelet.Event(s.t, pod, "Failed", container, `Failed to pull image "example.org/nb:nope": `+text)
		}},
		"a key of a ConfigMap is missing": {happen: func(s *scene, pod *corev1.Pod) {
			text := "couldn't find key theme in ConfigMap " + pod.Namespace + "/settings"
			s.kubelet.Waiting(s.t, pod, "CreateContainerConfigError", text)
			s.kubelet.Event(s.t, pod, "Failed", container, "Error: "+text)
		}},
		"the server crashes":            {happen: func(s *scene, pod *corev1.Pod) { s.kubelet.Crashed(s.t, pod, "Error", 3) }},
		"the server runs out of memory": {happen: func(s *scene, pod *corev1.Pod) { s.kubelet.Crashed(s.t, pod, "OOMKilled", 137) }},
		"the node has no network": {happen: func(s *scene, pod *corev1.Pod) {
			s.kubelet.Waiting(s.t, pod, "ContainerCreating", "")
			noNetwork(s, pod)
		}, again: noNetwork},
		"a volume cannot be mounted": {happen: func(s *scene, pod *corev1.Pod) {
			s.kubelet.Waiting(s.t, pod, "ContainerCreating", "")
			s.kubelet.Event(s.t, pod, "FailedMount", "", `MountVolume.SetUp failed for volume "extra" : configmap "settings" not found`)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			_, operator := cluster.SharedOperator(t)
			s.make(cluster.Manifest(t, "AlarmReceiver", s.namespace, "log", "log: {}"))
			alarm := cluster.Manifest(t, "Alarm", s.namespace, "causes",
				"match: [{kinds: [Pod], types: [Warning]}]\nreceivers: [{name: log}]\nmessage:\n  title: cause in ${event.namespace}\n  text: 'it is: ${object.cause}'")
			s.make(alarm)
			s.ExpectReady(t, &v1alpha1.Alarm{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "causes"}})
			explainer, err := explain.New(s.RESTConfig(), clock.RealClock{})
			s.g.Expect(err).NotTo(HaveOccurred())

			if tc.happen == nil {
				s.create(tc.spec)
			} else {
				s.create(byHand)
				tc.happen(s, s.pod())
			}
			var stalled metav1.Condition
			s.g.Eventually(func() metav1.ConditionStatus {
				stalled = s.condition(v1alpha1.ConditionStalled)
				return stalled.Status
			}).WithTimeout(patience).Should(Equal(metav1.ConditionTrue))

			s.g.Expect(s.condition(v1alpha1.ConditionReady).Message).To(Equal(stalled.Message))
			s.g.Eventually(s.events).Should(ContainElement(And(
				HaveField("Type", corev1.EventTypeWarning), HaveField("Reason", cmp.Or(diagnosis.LaterStage(stalled.Reason), stalled.Reason)), HaveField("Message", stalled.Message))))
			found, err := explainer.Explain(t.Context(), schema.GroupResource{Group: v1alpha1.Group, Resource: "jupyters"}, s.namespace, "nb")
			s.g.Expect(err).NotTo(HaveOccurred())
			s.g.Expect(found.Cause).NotTo(BeNil())
			s.g.Expect(found.Cause.Reason).To(Equal(stalled.Reason))
			s.g.Expect(found.Cause.Message + ": " + found.Cause.Advice).To(Equal(stalled.Message))
			s.g.Eventually(func() string {
				if tc.again != nil {
					tc.again(s, s.pod())
				}
				return operator.Out.String()
			}).WithTimeout(patience).WithPolling(time.Second).Should(MatchRegexp("cause in " + s.namespace + ".*\n.*it is: " + regexp.QuoteMeta(stalled.Message) + "\n"))
		})
	}
}
