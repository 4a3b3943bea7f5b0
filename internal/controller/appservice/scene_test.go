package appservice_test

import (
	"errors"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/kubelet"
)

// byHand leaves the app's pods to the test.
const byHand = "template: {metadata: {annotations: {bongsu-local/simulate: none}}}\n"

// scene is a namespace with an AppService "web" and an operator.
type scene struct {
	*cluster.Cluster
	t         *testing.T
	g         *WithT
	kubelet   kubelet.Kubelet
	namespace string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	c, _ := cluster.SharedOperator(t)
	return sceneIn(t, c)
}

func sceneIn(t *testing.T, c *cluster.Cluster) *scene {
	t.Helper()
	s := &scene{Cluster: c, t: t, g: NewWithT(t), kubelet: kubelet.Kubelet{Client: c.Client}, namespace: c.Namespace(t, nil)}
	// Pods are refused until the controller manager has given the namespace this.
	s.g.Eventually(func() error {
		return c.Client.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "default"}, &corev1.ServiceAccount{})
	}).WithTimeout(patience).Should(Succeed())
	return s
}

func (s *scene) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: s.namespace, Name: name}
}

// create creates the AppService, with a spec in YAML.
func (s *scene) create(spec string) { s.createNamed("web", spec) }

func (s *scene) createNamed(name, spec string) {
	s.t.Helper()
	s.g.Expect(s.Client.Create(s.t.Context(), cluster.Manifest(s.t, v1alpha1.KindAppService, s.namespace, name, spec))).To(Succeed())
}

// change changes the AppService.
func (s *scene) change(f func(*v1alpha1.AppService)) {
	s.t.Helper()
	s.g.Eventually(func() error {
		var a v1alpha1.AppService
		if err := s.Client.Get(s.t.Context(), s.key("web"), &a); err != nil {
			return err
		}
		f(&a)
		return s.Client.Update(s.t.Context(), &a)
	}).Should(Succeed())
}

// resize changes the size.
func (s *scene) resize(size int32) {
	s.t.Helper()
	s.change(func(a *v1alpha1.AppService) { a.Spec.Size = size })
}

// remove deletes the AppService.
func (s *scene) remove(opts ...client.DeleteOption) {
	s.t.Helper()
	a := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web"}}
	s.g.Expect(s.Client.Delete(s.t.Context(), a, opts...)).To(Succeed())
}

// now returns the AppService as it is.
func (s *scene) now() *v1alpha1.AppService { return s.nowOf("web") }

func (s *scene) nowOf(name string) *v1alpha1.AppService {
	var a v1alpha1.AppService
	if err := s.Client.Get(s.t.Context(), s.key(name), &a); err != nil {
		return &v1alpha1.AppService{}
	}
	return &a
}

// conditionOf returns a condition of the present generation; empty if there is none.
func conditionOf(a *v1alpha1.AppService, kind string) metav1.Condition {
	c := meta.FindStatusCondition(a.Status.Conditions, kind)
	if c == nil || c.ObservedGeneration != a.Generation {
		return metav1.Condition{}
	}
	return *c
}

// await waits until a condition has a status and reason.
func (s *scene) await(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	s.t.Helper()
	return s.awaitOf("web", kind, status, reason)
}

func (s *scene) awaitOf(name, kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	s.t.Helper()
	var c metav1.Condition
	s.g.Eventually(func() metav1.Condition {
		c = conditionOf(s.nowOf(name), kind)
		return c
	}).WithTimeout(patience).Should(And(HaveField("Status", status), HaveField("Reason", reason)))
	return c
}

func (s *scene) awaitReady() {
	s.t.Helper()
	s.await(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
}

// pods returns the pods that bear the label of an AppService and are not terminating.
func (s *scene) pods(name string) []*corev1.Pod {
	var all corev1.PodList
	s.g.Expect(s.Client.List(s.t.Context(), &all, client.InNamespace(s.namespace), client.MatchingLabels{v1alpha1.LabelAppService: name})).To(Succeed())
	var pods []*corev1.Pod
	for i := range all.Items {
		if all.Items[i].DeletionTimestamp.IsZero() {
			pods = append(pods, &all.Items[i])
		}
	}
	return pods
}

func names(pods []*corev1.Pod) []string {
	all := make([]string, len(pods))
	for i, pod := range pods {
		all[i] = pod.Name
	}
	return all
}

// podsWithNodes waits until there are so many, each with a node.
func (s *scene) podsWithNodes(n int) []*corev1.Pod {
	s.t.Helper()
	var pods []*corev1.Pod
	s.g.Eventually(func() []*corev1.Pod {
		pods = s.pods("web")
		return pods
	}).WithTimeout(patience).Should(And(HaveLen(n), HaveEach(HaveField("Spec.NodeName", Not(BeEmpty())))))
	return pods
}

func (s *scene) deployment() *appsv1.Deployment {
	var d appsv1.Deployment
	if err := s.Client.Get(s.t.Context(), s.key("web"), &d); err != nil {
		return nil
	}
	return &d
}

func (s *scene) isGone(o client.Object, name string) func() bool {
	return func() bool { return apierrors.IsNotFound(s.Client.Get(s.t.Context(), s.key(name), o)) }
}

// events returns the Events on the AppService.
func (s *scene) events() []corev1.Event {
	var all corev1.EventList
	s.g.Expect(s.Client.List(s.t.Context(), &all, client.InNamespace(s.namespace))).To(Succeed())
	var mine []corev1.Event
	for i := range all.Items {
		if all.Items[i].InvolvedObject.Kind == v1alpha1.KindAppService {
			mine = append(mine, all.Items[i])
		}
	}
	return mine
}

// eventCount counts the Events on the AppService with a reason.
func (s *scene) eventCount(reason string) func() int {
	return func() int {
		n := 0
		for _, e := range s.events() {
			if e.Reason == reason {
				n++
			}
		}
		return n
	}
}

// describer returns what a user sees whose only permissions are to look at AppServices and
// Events of the namespace.
func (s *scene) describer() func() string {
	s.t.Helper()
	look := []string{"get", "list", "watch"}
	user := s.User(s.t, s.namespace,
		cluster.Rule(v1alpha1.Group, "appservices", look...), cluster.Rule("", "events", look...), cluster.Rule("events.k8s.io", "events", look...))
	kubectl := s.Kubectl(s.t, user)
	return func() string {
		out, err := kubectl("describe", "appservice", "web", "-n", s.namespace)
		if err != nil {
			return err.Error() + ": " + out
		}
		return out
	}
}

// describesFailure matches a description with a failure in a condition and in a Warning.
func describesFailure(reason string, words ...string) OmegaMatcher {
	all := []OmegaMatcher{
		MatchRegexp(`Reason: +` + reason + `\n`),
		MatchRegexp(`Warning +` + reason + ` .*appservice-controller`),
	}
	for _, w := range words {
		all = append(all, WithTransform(oneLine, ContainSubstring(w)))
	}
	return And(all...)
}

// oneLine undoes the line breaks of a description.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// hasUsage returns an error until a quota is in force.
func (s *scene) hasUsage(quota string) error {
	var q corev1.ResourceQuota
	if err := s.Client.Get(s.t.Context(), s.key(quota), &q); err != nil {
		return err
	}
	if len(q.Status.Used) == 0 {
		return errors.New("the quota is not in force yet")
	}
	return nil
}
