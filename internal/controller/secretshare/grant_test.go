package secretshare_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

func (s *scene) grant(namespace, spec string) *v1alpha1.SecretShareGrant {
	s.t.Helper()
	s.g.Expect(s.Client.Create(s.t.Context(), cluster.Manifest(s.t, "SecretShareGrant", namespace, "it", spec))).To(Succeed())
	return &v1alpha1.SecretShareGrant{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "it"}}
}

func (s *scene) tenantShare(spec string) *v1alpha1.SecretShare {
	s.t.Helper()
	s.g.Expect(s.Client.Create(s.t.Context(), cluster.Manifest(s.t, "SecretShare", s.source, "it", spec))).To(Succeed())
	return &v1alpha1.SecretShare{ObjectMeta: metav1.ObjectMeta{Namespace: s.source, Name: "it"}}
}

func TestATenantsSecretGoesWhereItIsLetInAndNowhereElse(t *testing.T) {
	s := newScene(t, 3)
	s.secret()
	rule := s.tenantShare("source: {names: [shared]}\ntargets: {}")
	s.expectReady(rule)
	s.g.Expect(rule.Status.Desired).To(BeZero())

	let := s.grant(s.targets[0], "from: [{namespace: "+s.source+"}]")
	s.grant(s.targets[1], "from: [{namespace: elsewhere}]")
	s.grant(s.targets[2], "from: [{namespace: "+s.source+"}]\nto: [{name: other-*}]")
	s.g.Eventually(s.data(s.targets[0], "shared")).Should(Equal(hunter2))
	message := s.expectNotReady(rule, v1alpha1.ReasonNotGranted)
	s.g.Expect(message).To(ContainSubstring(s.targets[2]))
	for _, namespace := range s.targets[1:] {
		_, err := s.get(namespace, "shared")
		s.g.Expect(err).To(HaveOccurred())
	}

	s.g.Expect(s.Client.Delete(t.Context(), let)).To(Succeed())
	s.expectNone(s.targets[0], "shared")
}

func TestANamespaceThatIsNamedWithoutAGrantIsToldOf(t *testing.T) {
	s := newScene(t, 1)
	s.secret()
	rule := s.tenantShare("source: {names: [shared]}\ntargets: {names: [" + s.targets[0] + ", there-is-none]}")
	s.expectNotReady(rule, v1alpha1.ReasonNotGranted)
	s.g.Expect(rule.Status.Failing).To(HaveLen(2), "whether a namespace exists is not told")
	s.g.Expect(rule.Status.Failing[0].Message).To(Equal(rule.Status.Failing[1].Message))
	s.grant(s.targets[0], "from: [{namespace: "+s.source+"}]\nto: [{name: shared}]")
	s.g.Eventually(s.data(s.targets[0], "shared")).Should(Equal(hunter2))
}

func TestARuleThatTargetsItsOwnNamespaceWritesNothing(t *testing.T) {
	s := newScene(t, 1)
	s.secret()
	s.grant(s.targets[0], "from: [{namespace: "+s.source+"}]")
	rule := s.tenantShare("source: {names: [shared]}\ntargets: {names: [" + s.targets[0] + ", " + s.source + "]}")
	s.expectNotReady(rule, v1alpha1.ReasonInvalidTarget)
	_, err := s.get(s.targets[0], "shared")
	s.g.Expect(err).To(HaveOccurred())
}

func TestTheTwoCommandCaseWorksAsInstalled(t *testing.T) {
	s := newScene(t, 2)
	rule := &v1alpha1.ClusterSecretShare{ObjectMeta: metav1.ObjectMeta{Name: "secretsync"}}
	s.expectNotReady(rule, v1alpha1.ReasonSourceNotFound)
	s.g.Expect(s.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "secretsync"}})).To(Succeed())
	s.g.Expect(s.Client.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "secretsync", Name: "supersecret"},
		Type:       "bongsu.io/secretsync", StringData: map[string]string{"ziwon": "awesome"},
	})).To(Succeed())
	for _, namespace := range append(s.targets, "default", "bongsu-system", s.source) {
		s.g.Eventually(s.data(namespace, "supersecret")).Should(HaveKeyWithValue("ziwon", []byte("awesome")), "in %s", namespace)
	}
	s.expectReady(rule)
	_, err := s.get("kube-system", "supersecret")
	s.g.Expect(err).To(HaveOccurred())

	another := s.addTarget()
	s.g.Eventually(s.data(another, "supersecret")).Should(HaveKeyWithValue("ziwon", []byte("awesome")))
	s.patch(rule.DeepCopy(), `{"spec":{"source":{"type":"k8s.ziwon.dev/secretsync"}}}`)
	s.expectNone(another, "supersecret")
	s.patch(rule.DeepCopy(), `{"spec":{"source":{"type":"bongsu.io/secretsync"}}}`)
	s.g.Eventually(s.data(another, "supersecret")).Should(HaveKeyWithValue("ziwon", []byte("awesome")))
	s.g.Expect(s.Client.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "secretsync", Name: "supersecret"}})).To(Succeed())
	s.expectNone(another, "supersecret")
}
