package jupyter_test

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/kubelet"
)

// byHand leaves the notebook's pod to the test.
const byHand = "template: {metadata: {annotations: {bongsu-local/simulate: none}}}\n"

// scene is a namespace with a Jupyter "nb" and an operator.
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
	}).Should(Succeed())
	return s
}

// create creates the Jupyter, with a spec in YAML.
func (s *scene) create(spec string) *v1alpha1.Jupyter {
	s.t.Helper()
	s.g.Expect(s.Client.Create(s.t.Context(), cluster.Manifest(s.t, v1alpha1.KindJupyter, s.namespace, "nb", spec))).To(Succeed())
	return &v1alpha1.Jupyter{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "nb"}}
}

// make creates an object in the scene's namespace.
func (s *scene) make(o client.Object) {
	s.t.Helper()
	o.SetNamespace(s.namespace)
	s.g.Expect(s.Client.Create(s.t.Context(), o)).To(Succeed())
}

// change changes the Jupyter.
func (s *scene) change(f func(*v1alpha1.Jupyter)) {
	s.t.Helper()
	s.g.Eventually(func() error {
		var j v1alpha1.Jupyter
		if err := s.Client.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "nb"}, &j); err != nil {
			return err
		}
		f(&j)
		return s.Client.Update(s.t.Context(), &j)
	}).Should(Succeed())
}

// now returns the Jupyter as it is.
func (s *scene) now() *v1alpha1.Jupyter {
	var j v1alpha1.Jupyter
	if err := s.Client.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "nb"}, &j); err != nil {
		return &v1alpha1.Jupyter{}
	}
	return &j
}

// condition returns a condition of its present generation; empty if there is none.
func (s *scene) condition(kind string) metav1.Condition { return conditionOf(s.now(), kind) }

func conditionOf(j *v1alpha1.Jupyter, kind string) metav1.Condition {
	c := meta.FindStatusCondition(j.Status.Conditions, kind)
	if c == nil || c.ObservedGeneration != j.Generation {
		return metav1.Condition{}
	}
	return *c
}

// await waits until a condition has a status and reason.
func (s *scene) await(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	s.t.Helper()
	return conditionOf(s.see(kind, status, reason), kind)
}

// see is await for what else holds then, and may not for long: it returns the Jupyter
// of that moment.
func (s *scene) see(kind string, status metav1.ConditionStatus, reason string) *v1alpha1.Jupyter {
	s.t.Helper()
	var j *v1alpha1.Jupyter
	s.g.Eventually(func() metav1.Condition {
		j = s.now()
		return conditionOf(j, kind)
	}).Should(And(HaveField("Status", status), HaveField("Reason", reason)), func() string { return fmt.Sprintf("%+v", j.Status) })
	return j
}

func (s *scene) awaitReady() {
	s.t.Helper()
	s.g.Eventually(func() metav1.Condition { return s.condition(v1alpha1.ConditionReady) }).WithTimeout(patience).
		Should(And(HaveField("Status", metav1.ConditionTrue), HaveField("Reason", v1alpha1.ReasonReady)))
}

// pod returns the notebook's pod when it has a node.
func (s *scene) pod() *corev1.Pod {
	s.t.Helper()
	return s.kubelet.Await(s.t, s.namespace, "nb-0")
}

// warnings counts the Warnings on the Jupyter, by reason.
func (s *scene) warnings() map[string]int {
	counts := map[string]int{}
	for _, e := range s.events() {
		if e.Type == corev1.EventTypeWarning {
			counts[e.Reason]++
		}
	}
	return counts
}

// events returns the Events on the Jupyter.
func (s *scene) events() []corev1.Event {
	var all corev1.EventList
	s.g.Expect(s.Client.List(s.t.Context(), &all, client.InNamespace(s.namespace))).To(Succeed())
	var mine []corev1.Event
	for i := range all.Items {
		if all.Items[i].InvolvedObject.Kind == v1alpha1.KindJupyter {
			mine = append(mine, all.Items[i])
		}
	}
	return mine
}

// describer returns what a user sees whose only permissions are to look at Jupyters and
// Events of the namespace.
func (s *scene) describer() func() string {
	s.t.Helper()
	look := []string{"get", "list", "watch"}
	user := s.User(s.t, s.namespace,
		cluster.Rule(v1alpha1.Group, "jupyters", look...), cluster.Rule("", "events", look...), cluster.Rule("events.k8s.io", "events", look...))
	kubectl := s.Kubectl(s.t, user)
	return func() string {
		out, err := kubectl("describe", "jupyter", "nb", "-n", s.namespace)
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
		MatchRegexp(`Warning +` + reason + ` .*jupyter-controller`),
	}
	for _, w := range words {
		all = append(all, WithTransform(oneLine, ContainSubstring(w)))
	}
	return And(all...)
}

// oneLine undoes the line breaks of a description.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
