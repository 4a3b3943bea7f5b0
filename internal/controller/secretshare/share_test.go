package secretshare_test

import (
	"context"
	"os"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// scene is a source namespace and target namespaces with a label of the test's own,
// and an operator.
type scene struct {
	*cluster.Cluster
	t       *testing.T
	g       *WithT
	source  string
	targets []string
}

// team labels the namespaces of a scene.
const team = "team"

func newScene(t *testing.T, targets int) *scene {
	t.Helper()
	c, _ := cluster.SharedOperator(t)
	s := &scene{Cluster: c, t: t, g: NewWithT(t), source: c.Namespace(t, nil)}
	for range targets {
		s.addTarget()
	}
	return s
}

func (s *scene) addTarget() string {
	s.t.Helper()
	name := s.Namespace(s.t, map[string]string{team: s.source})
	s.targets = append(s.targets, name)
	return name
}

// selected selects the scene's target namespaces.
func (s *scene) selected() string {
	return "targets: {namespaceSelector: {matchLabels: {" + team + ": " + s.source + "}}}"
}

// share creates a ClusterSecretShare of the Secret "shared", with more of a spec.
func (s *scene) share(more string) *v1alpha1.ClusterSecretShare {
	s.t.Helper()
	return s.shareOf("names: [shared]", more)
}

func (s *scene) shareOf(source, more string) *v1alpha1.ClusterSecretShare {
	s.t.Helper()
	spec := "source: {namespace: " + s.source + ", " + source + "}\n" + s.selected() + "\n" + more
	s.g.Expect(s.Client.Create(s.t.Context(), cluster.Manifest(s.t, "ClusterSecretShare", "", s.source, spec))).To(Succeed())
	rule := &v1alpha1.ClusterSecretShare{ObjectMeta: metav1.ObjectMeta{Name: s.source}}
	s.t.Cleanup(func() { _ = s.Client.Delete(context.Background(), rule.DeepCopy()) })
	return rule
}

// secret creates a Secret in the source namespace.
func (s *scene) secret(change ...func(*corev1.Secret)) *corev1.Secret {
	s.t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.source, Name: "shared"},
		Data:       map[string][]byte{"password": []byte("hunter2")},
	}
	for _, f := range change {
		f(secret)
	}
	s.g.Expect(s.Client.Create(s.t.Context(), secret)).To(Succeed())
	return secret
}

func (s *scene) get(namespace, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	return secret, s.Client.Get(s.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, secret)
}

// update changes a Secret, whatever others do to it.
func (s *scene) update(namespace, name string, change func(*corev1.Secret)) {
	s.t.Helper()
	s.g.Eventually(func() error {
		secret, err := s.get(namespace, name)
		if err != nil {
			return err
		}
		change(secret)
		return s.Client.Update(s.t.Context(), secret)
	}).Should(Succeed())
}

func (s *scene) patch(o client.Object, patch string) {
	s.t.Helper()
	s.g.Expect(s.Client.Patch(s.t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(patch)))).To(Succeed())
}

// data is what a Secret holds, nil if there is none.
func (s *scene) data(namespace, name string) func() map[string][]byte {
	return func() map[string][]byte {
		secret, err := s.get(namespace, name)
		if err != nil {
			return nil
		}
		return secret.Data
	}
}

func (s *scene) expectCopies(data map[string][]byte) {
	s.t.Helper()
	for _, namespace := range s.targets {
		s.g.Eventually(s.data(namespace, "shared")).Should(Equal(data), "in %s", namespace)
	}
}

func (s *scene) expectNone(namespace, name string) {
	s.t.Helper()
	s.g.Eventually(func() bool { _, err := s.get(namespace, name); return apierrors.IsNotFound(err) }).Should(BeTrue(), "a copy is still there")
}

// ready is the Ready condition of the rule's present generation.
func (s *scene) ready(rule secretshare.Object) func() metav1.Condition {
	return func() metav1.Condition {
		if err := s.Client.Get(s.t.Context(), client.ObjectKeyFromObject(rule), rule); err != nil {
			return metav1.Condition{}
		}
		c := meta.FindStatusCondition(rule.ShareStatus().Conditions, v1alpha1.ConditionReady)
		if c == nil || c.ObservedGeneration != rule.GetGeneration() {
			return metav1.Condition{}
		}
		return *c
	}
}

func (s *scene) expectReady(rule secretshare.Object) {
	s.t.Helper()
	s.g.Eventually(s.ready(rule)).Should(HaveField("Status", metav1.ConditionTrue))
}

func (s *scene) expectNotReady(rule secretshare.Object, reason string) string {
	s.t.Helper()
	var got metav1.Condition
	s.g.Eventually(func() metav1.Condition { got = s.ready(rule)(); return got }).
		Should(And(HaveField("Status", metav1.ConditionFalse), HaveField("Reason", reason)))
	return got.Message
}

var hunter2 = map[string][]byte{"password": []byte("hunter2")}

func TestASecretIsKeptTheSameInEveryTarget(t *testing.T) {
	s := newScene(t, 3)
	rule := s.share("")
	s.expectNotReady(rule, v1alpha1.ReasonSourceNotFound)
	s.secret(func(o *corev1.Secret) { o.Type = "example.com/kind" })
	s.expectCopies(hunter2)
	s.expectServed(rule, 3)
	s.g.Expect(rule.Status).To(HaveField("Sources", int32(1)))

	s.addTarget()
	s.expectCopies(hunter2)
	made, err := s.get(s.targets[3], "shared")
	s.g.Expect(err).NotTo(HaveOccurred())
	s.g.Expect(made.Type).To(BeEquivalentTo("example.com/kind"))

	s.update(s.source, "shared", func(o *corev1.Secret) { o.Data["password"] = []byte("hunter3") })
	s.expectCopies(map[string][]byte{"password": []byte("hunter3")})
	source, err := s.get(s.source, "shared")
	s.g.Expect(err).NotTo(HaveOccurred())
	s.g.Expect(s.Client.Delete(t.Context(), source)).To(Succeed())
	for _, namespace := range s.targets {
		s.expectNone(namespace, "shared")
	}
	s.expectNotReady(rule, v1alpha1.ReasonSourceNotFound)
}
