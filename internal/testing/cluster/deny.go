package cluster

import (
	"context"
	"testing"

	. "github.com/onsi/gomega" //nolint:staticcheck // reads as in the tests
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// denied is the ConfigMap that a policy of Deny refuses as well, so that any policy
// can be seen to be in force.
const denied = "denied"

// Deny has an admission policy refuse what is done to a resource of the core group
// in a namespace, and returns when it is in force. The message is a CEL expression,
// which may quote the object. It is refused until the test ends or lift is called.
func (c *Cluster) Deny(t testing.TB, namespace, resource, message string, operations ...admissionv1.OperationType) (lift func()) {
	t.Helper()
	g := NewWithT(t)
	fail := admissionv1.Fail
	of := func(resource string, operations ...admissionv1.OperationType) admissionv1.RuleWithOperations {
		return admissionv1.RuleWithOperations{
			Operations: operations,
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{resource}},
		}
	}
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "deny-"},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail,
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{
					{RuleWithOperations: of(resource, operations...)},
					{RuleWithOperations: of("configmaps", admissionv1.Create), ResourceNames: []string{denied}},
				},
			},
			Validations: []admissionv1.Validation{{Expression: "false", MessageExpression: message}},
		},
	}
	g.Expect(c.Client.Create(t.Context(), policy)).To(Succeed())
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policy.Name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policy.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
	g.Expect(c.Client.Create(t.Context(), binding)).To(Succeed())
	lift = func() {
		t.Helper()
		for _, o := range []client.Object{binding, policy} {
			g.Expect(client.IgnoreNotFound(c.Client.Delete(context.Background(), o))).To(Succeed())
		}
	}
	t.Cleanup(lift)
	probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: denied}}
	g.Eventually(func() error { return c.Client.Create(t.Context(), probe.DeepCopy(), client.DryRunAll) }).
		Should(MatchError(ContainSubstring(policy.Name)))
	return lift
}
