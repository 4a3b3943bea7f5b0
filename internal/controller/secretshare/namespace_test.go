package secretshare_test

import (
	"fmt"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

// withControllerManager has quotas in force and namespaces that go.
func withControllerManager(c *localcluster.Config) {
	c.Components = []localcluster.Component{localcluster.ControllerManager}
}

func TestNamespacesThatComeGoOrRefuseDoNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, withControllerManager)
	c.StartOperator(t)
	for name, test := range map[string]func(*scene){
		"two refuse":            twoRefuse,
		"one refuses changes":   oneRefusesChanges,
		"one is terminating":    oneIsTerminating,
		"created and deleted":   createdAndDeleted,
		"deleted and come back": deletedAndBack,
	} {
		t.Run(name, func(t *testing.T) {
			s := &scene{Cluster: c, t: t, g: NewWithT(t), source: c.Namespace(t, nil)}
			for range 5 {
				s.addTarget()
			}
			test(s)
		})
	}
}

func twoRefuse(s *scene) {
	refusing := slices.Clone(s.targets[:2])
	liftQuota, liftPolicy := s.forbidByQuota(refusing[0]), s.forbidByPolicy(refusing[1])
	s.secret()
	rule := s.share("")
	for _, namespace := range s.targets[2:] {
		s.g.Eventually(s.data(namespace, "shared")).Should(Equal(hunter2))
	}
	s.expectNotReady(rule, v1alpha1.ReasonCopyFailed)
	slices.Sort(refusing)
	s.g.Eventually(func() v1alpha1.SecretShareStatus { s.ready(rule)(); return rule.Status }).Should(And(
		HaveField("Desired", int32(5)), HaveField("Synced", int32(3)), HaveField("Failed", int32(2)), HaveField("Conflicted", int32(0)),
		HaveField("Failing", HaveExactElements(HaveField("Namespace", refusing[0]), HaveField("Namespace", refusing[1]))),
		HaveField("Failing", ConsistOf(
			HaveField("Message", ContainSubstring("exceeded quota: none")),
			HaveField("Message", ContainSubstring("no Secrets here")),
		)),
	))
	s.ExpectWarning(s.t, rule, v1alpha1.ReasonCopyFailed, "clustersecretshare-controller")

	liftQuota()
	liftPolicy()
	s.expectCopies(hunter2)
	s.expectReady(rule)
	s.g.Expect(rule.Status).To(And(HaveField("Synced", int32(5)), HaveField("Failed", int32(0)), HaveField("Failing", BeEmpty())))
}

func oneRefusesChanges(s *scene) {
	s.secret()
	rule := s.share("")
	s.expectServed(rule, 5)
	lift := s.forbidByPolicy(s.targets[0])
	s.update(s.source, "shared", func(o *corev1.Secret) { o.Data["password"] = []byte("hunter3") })
	s.expectNotReady(rule, v1alpha1.ReasonCopyFailed)
	for _, namespace := range s.targets[1:] {
		s.g.Eventually(s.data(namespace, "shared")).Should(HaveKeyWithValue("password", []byte("hunter3")))
	}
	s.g.Expect(s.data(s.targets[0], "shared")()).To(Equal(hunter2))
	lift()
	s.expectCopies(map[string][]byte{"password": []byte("hunter3")})
	s.expectReady(rule)
}

func oneIsTerminating(s *scene) {
	s.secret()
	rule := s.share("")
	s.expectServed(rule, 5)
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.targets[0], Name: "held", Finalizers: []string{"example.com/hold"},
	}}
	s.g.Expect(s.Client.Create(s.t.Context(), held)).To(Succeed())
	s.terminate(s.targets[0])
	s.expectNone(s.targets[0], "shared")
	s.update(s.source, "shared", func(o *corev1.Secret) { o.Data["password"] = []byte("hunter3") })
	for _, namespace := range s.targets[1:] {
		s.g.Eventually(s.data(namespace, "shared")).Should(HaveKeyWithValue("password", []byte("hunter3")))
	}
	s.expectServed(rule, 4)
	s.g.Consistently(s.data(s.targets[0], "shared"), "500ms").Should(BeNil())

	// A rule can be deleted while a namespace of its is stuck.
	s.g.Expect(s.Client.Delete(s.t.Context(), rule.DeepCopy())).To(Succeed())
	s.g.Eventually(func() bool {
		return apierrors.IsNotFound(s.Client.Get(s.t.Context(), client.ObjectKeyFromObject(rule), rule))
	}).Should(BeTrue())
	s.patch(held, `{"metadata":{"finalizers":null}}`)
}

func createdAndDeleted(s *scene) {
	s.secret()
	rule := s.share("")
	s.expectServed(rule, 5)
	for range 30 {
		s.terminate(s.Namespace(s.t, map[string]string{team: s.source}))
	}
	s.addTarget()
	s.expectCopies(hunter2)
	s.expectServed(rule, 6)
}

func deletedAndBack(s *scene) {
	s.secret()
	rule := s.share("")
	s.expectServed(rule, 5)
	s.terminate(s.targets[0])
	again := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.targets[0], Labels: map[string]string{team: s.source}}}
	s.g.Eventually(func() error { return s.Client.Create(s.t.Context(), again.DeepCopy()) }).Should(Succeed())
	s.expectCopies(hunter2)
	s.expectServed(rule, 5)
}

// expectServed waits until all is well, in so many namespaces: a rule is Ready too
// before the operator has heard of them.
func (s *scene) expectServed(rule *v1alpha1.ClusterSecretShare, namespaces int32) {
	s.t.Helper()
	s.g.Eventually(func() v1alpha1.SecretShareStatus {
		if s.ready(rule)().Status != metav1.ConditionTrue {
			return v1alpha1.SecretShareStatus{}
		}
		return rule.Status
	}).Should(And(HaveField("Desired", namespaces), HaveField("Synced", namespaces), HaveField("Failing", BeEmpty())))
}

func (s *scene) terminate(namespace string) {
	s.t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	s.g.Expect(s.Client.Delete(s.t.Context(), ns)).To(Succeed())
}

// forbidByQuota lets a namespace have no Secrets.
func (s *scene) forbidByQuota(namespace string) (lift func()) {
	s.t.Helper()
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "none"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceSecrets: resource.MustParse("0")}},
	}
	s.g.Expect(s.Client.Create(s.t.Context(), quota)).To(Succeed())
	s.awaitRefused(namespace)
	return func() { s.g.Expect(s.Client.Delete(s.t.Context(), quota)).To(Succeed()) }
}

// forbidByPolicy has an admission policy refuse all Secrets in a namespace.
func (s *scene) forbidByPolicy(namespace string) (lift func()) {
	s.t.Helper()
	return s.Deny(s.t, namespace, "secrets", "'no Secrets here'", admissionv1.Create, admissionv1.Update)
}

// awaitRefused returns when the API server lets nobody create a Secret.
func (s *scene) awaitRefused(namespace string) {
	s.t.Helper()
	n := 0
	s.g.Eventually(func() error {
		n++
		return s.Client.Create(s.t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("probe-", n)},
		}, client.DryRunAll)
	}).Should(HaveOccurred())
}
