package secretshare_test

import (
	"context"
	"encoding/base64"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// A policy sees a Secret's values in base64, those that are and those that were, and
// may put both into its message.
func TestWhatAPolicyQuotesOfASecretIsToldNowhere(t *testing.T) {
	const former, present = "correct-horse", "battery-staple"
	holds := func(value string) func(*corev1.Secret) {
		return func(o *corev1.Secret) { o.Data = map[string][]byte{"password": []byte(value)} }
	}
	for name, tc := range map[string]struct {
		operation admissionv1.OperationType
		message   string
		happen    func(*scene, client.Object)
		quoted    string
	}{
		"when the copy is created": {
			admissionv1.Create, "'is ' + string(object.data.password)",
			func(s *scene, _ client.Object) { s.drop(s.targets[0], "shared") }, "is [redacted]",
		},
		"when it is changed": {
			admissionv1.Update, "'was ' + string(oldObject.data.password) + ', is ' + string(object.data.password)",
			func(s *scene, _ client.Object) { s.update(s.source, "shared", holds(present)) }, "was [redacted], is [redacted]",
		},
		"when it is removed": {
			admissionv1.Delete, "'was ' + string(oldObject.data.password)",
			func(s *scene, rule client.Object) { removeRule(s, rule) }, "was [redacted]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, 1)
			_, operator := cluster.SharedOperator(t)
			s.secret(holds(former))
			rule := s.share("")
			s.expectServed(rule, 1)
			s.Deny(t, s.targets[0], "secrets", tc.message, tc.operation)
			tc.happen(s, rule.DeepCopy())

			s.g.Expect(s.expectNotReady(rule, v1alpha1.ReasonCopyFailed)).To(ContainSubstring(tc.quoted))
			s.ExpectWarning(t, rule, v1alpha1.ReasonCopyFailed, "clustersecretshare-controller")
			told := operator.Log.String()
			for _, failing := range rule.Status.Failing {
				told += failing.Message
			}
			for _, event := range s.EventsOn(t.Context(), rule, v1alpha1.ReasonCopyFailed) {
				told += event.Note
			}
			for _, value := range []string{former, present} {
				for _, form := range []string{value, base64.StdEncoding.EncodeToString([]byte(value))} {
					s.g.Expect(strings.Contains(told, form)).To(BeFalse(), "%s is told", form)
				}
			}
		})
	}
}

// What changes a copy on its way would be fought for ever; or nobody would know that
// the copy is another.
func TestACopyThatAPolicyAltersIsSaidToBeAnother(t *testing.T) {
	s := newScene(t, 2)
	s.secret()
	lift := s.alter(s.targets[0])
	rule := s.share("")
	s.g.Expect(s.expectNotReady(rule, v1alpha1.ReasonCopyFailed)).To(ContainSubstring("not stored as it is written"))
	s.g.Expect(rule.Status.Failing).To(ConsistOf(HaveField("Namespace", s.targets[0])))
	s.g.Eventually(s.data(s.targets[1], "shared")).Should(Equal(hunter2))
	version := func() string {
		altered, err := s.get(s.targets[0], "shared")
		s.g.Expect(err).NotTo(HaveOccurred())
		return altered.ResourceVersion
	}
	s.g.Consistently(version, "2s").Should(Equal(version()), "it is written again and again")
	lift()
	s.expectCopies(hunter2)
	s.expectReady(rule)
}

// alter has an admission policy add a key to all Secrets of a namespace, and returns
// when it does.
func (s *scene) alter(namespace string) (lift func()) {
	s.t.Helper()
	policy := &admissionv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: admissionv1.MutatingAdmissionPolicySpec{
			ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}},
				}}},
			},
			Mutations: []admissionv1.Mutation{{
				PatchType: admissionv1.PatchTypeJSONPatch,
				JSONPatch: &admissionv1.JSONPatch{Expression: `[JSONPatch{op: "add", path: "/data/added", value: "eA=="}]`},
			}},
		},
	}
	binding := &admissionv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec:       admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: namespace},
	}
	lift = func() {
		for _, o := range []client.Object{binding, policy} {
			s.g.Expect(client.IgnoreNotFound(s.Client.Delete(context.Background(), o))).To(Succeed())
		}
	}
	s.t.Cleanup(lift)
	for _, o := range []client.Object{policy, binding} {
		s.g.Expect(s.Client.Create(s.t.Context(), o)).To(Succeed())
	}
	s.g.Eventually(func() map[string][]byte {
		probe := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "probe"}, StringData: map[string]string{"a": "b"}}
		s.g.Expect(s.Client.Create(s.t.Context(), probe, client.DryRunAll)).To(Succeed())
		return probe.Data
	}).Should(HaveKey("added"))
	return lift
}
