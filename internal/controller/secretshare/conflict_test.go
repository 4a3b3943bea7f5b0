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
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// foreign creates a Secret with the name of the copy.
func (s *scene) foreign(namespace string, annotations map[string]string) *corev1.Secret {
	s.t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shared", Annotations: annotations},
		Data:       map[string][]byte{"theirs": []byte("x")},
	}
	s.g.Expect(s.Client.Create(s.t.Context(), secret)).To(Succeed())
	return secret
}

func (s *scene) expectUnchanged(secret *corev1.Secret) {
	s.t.Helper()
	now, err := s.get(secret.Namespace, secret.Name)
	s.g.Expect(err).NotTo(HaveOccurred())
	s.g.Expect(now.ResourceVersion).To(Equal(secret.ResourceVersion), "a foreign Secret was changed")
}

func TestAForeignSecretIsNeverChanged(t *testing.T) {
	s := newScene(t, 3)
	blocker := s.foreign(s.targets[1], nil)
	source := s.secret()
	rule := s.share("")
	message := s.expectNotReady(rule, v1alpha1.ReasonConflict)
	s.g.Expect(message).To(ContainSubstring(s.targets[1]))
	s.g.Eventually(func() v1alpha1.SecretShareStatus { s.ready(rule)(); return rule.Status }).
		Should(And(HaveField("Synced", int32(2)), HaveField("Conflicted", int32(1)), HaveField("Desired", int32(3))))
	s.g.Expect(rule.Status.Failing).To(ConsistOf(And(
		HaveField("Namespace", s.targets[1]), HaveField("Reason", v1alpha1.ReasonConflict), HaveField("Message", ContainSubstring("bongsu.io/adopt=ClusterSecretShare/"+s.source)),
	)))
	s.ExpectWarning(t, rule, v1alpha1.ReasonConflict, "clustersecretshare-controller")
	s.ExpectWarning(t, blocker, v1alpha1.ReasonConflict, "clustersecretshare-controller")

	s.update(s.source, "shared", func(o *corev1.Secret) { o.Data["password"] = []byte("hunter3") })
	s.g.Eventually(s.data(s.targets[0], "shared")).Should(HaveKeyWithValue("password", []byte("hunter3")))
	s.expectUnchanged(blocker)
	s.patch(rule.DeepCopy(), `{"spec":{"targets":{"names":["`+s.targets[0]+`"]}}}`)
	s.expectNone(s.targets[2], "shared")
	s.expectUnchanged(blocker)
	s.patch(rule.DeepCopy(), `{"spec":{"targets":{"names":null}}}`)
	s.expectNotReady(rule, v1alpha1.ReasonConflict)

	s.g.Expect(s.Client.Delete(t.Context(), blocker.DeepCopy())).To(Succeed())
	s.expectCopies(map[string][]byte{"password": []byte("hunter3")})
	s.expectReady(rule)
	s.g.Eventually(func() int { return len(s.EventsOn(t.Context(), rule, v1alpha1.ReasonRecovered)) }).ShouldNot(BeZero())

	late := s.Namespace(t, nil)
	other := s.foreign(late, nil)
	s.patch(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: late}}, `{"metadata":{"labels":{"`+team+`":"`+s.source+`"}}}`)
	s.expectNotReady(rule, v1alpha1.ReasonConflict)
	s.g.Expect(s.Client.Delete(t.Context(), source)).To(Succeed())
	s.expectNone(s.targets[0], "shared")
	s.g.Expect(s.Client.Delete(t.Context(), rule.DeepCopy())).To(Succeed())
	s.g.Eventually(s.ready(rule)).Should(BeZero())
	s.expectUnchanged(other)
}

func TestTwoRulesForTheSameCopyDoNotOverwriteEachOther(t *testing.T) {
	s := newScene(t, 1)
	s.secret()
	first := s.share("")
	s.expectReady(first)
	second := newSceneOf(s)
	second.secret(func(o *corev1.Secret) { o.Data["password"] = []byte("other") })
	rule := second.share("")
	message := second.expectNotReady(rule, v1alpha1.ReasonConflict)
	s.g.Expect(message).To(ContainSubstring("ClusterSecretShare/" + s.source))
	s.expectCopies(hunter2)
	s.g.Expect(s.Client.Delete(t.Context(), first.DeepCopy())).To(Succeed())
	second.expectReady(rule)
	second.expectCopies(map[string][]byte{"password": []byte("other")})
}

func TestTheOwnerOfASecretCanGiveItToARule(t *testing.T) {
	for name, change := range map[string]func(*corev1.Secret){
		"of the same type": func(*corev1.Secret) {},
		"of another type":  func(o *corev1.Secret) { o.Type = "example.com/theirs" },
		"immutable":        func(o *corev1.Secret) { o.Immutable = new(true) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, 1)
			theirs := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.targets[0], Name: "shared", Labels: map[string]string{"theirs": "x"}},
				Data:       map[string][]byte{"theirs": []byte("x")},
			}
			change(theirs)
			s.g.Expect(s.Client.Create(t.Context(), theirs)).To(Succeed())
			s.secret()
			rule := s.share("")
			s.expectNotReady(rule, v1alpha1.ReasonConflict)
			s.patch(theirs.DeepCopy(), `{"metadata":{"annotations":{"bongsu.io/adopt":"ClusterSecretShare/another"}}}`)
			s.g.Consistently(s.data(s.targets[0], "shared"), "500ms").Should(HaveKey("theirs"))
			s.patch(theirs.DeepCopy(), `{"metadata":{"annotations":{"bongsu.io/adopt":"ClusterSecretShare/`+s.source+`"}}}`)
			s.expectCopies(hunter2)
			s.expectReady(rule)
			copied, err := s.get(s.targets[0], "shared")
			s.g.Expect(err).NotTo(HaveOccurred())
			s.g.Expect(copied.Annotations).NotTo(HaveKey(share.AnnotationAdopt))
			s.g.Expect(s.Client.Delete(t.Context(), rule.DeepCopy())).To(Succeed())
			s.expectNone(s.targets[0], "shared")
		})
	}
}

func TestCopiesCanHaveOtherNames(t *testing.T) {
	s := newScene(t, 2)
	for _, namespace := range s.targets {
		s.foreign(namespace, nil) // has the name "shared"
	}
	s.secret()
	s.secret(func(o *corev1.Secret) { o.Name = "second" })
	rule := s.shareOf("names: [shared, second]", "copyName: {prefix: platform-, suffix: -copy, rename: [{from: second, to: other}]}")
	s.expectSynced(rule, 4)
	expect := func(names ...string) {
		t.Helper()
		for _, namespace := range s.targets {
			for _, name := range names {
				s.g.Eventually(s.data(namespace, name)).Should(Equal(hunter2), "%s/%s", namespace, name)
			}
		}
	}
	expect("platform-shared-copy", "other")

	s.update(s.targets[0], "other", func(o *corev1.Secret) { o.Data["password"] = []byte("x") })
	expect("other")
	source, err := s.get(s.source, "second")
	s.g.Expect(err).NotTo(HaveOccurred())
	s.g.Expect(s.Client.Delete(t.Context(), source)).To(Succeed())
	s.expectNone(s.targets[0], "other")
	s.expectNotReady(rule, v1alpha1.ReasonSourceNotFound)

	s.patch(rule.DeepCopy(), `{"spec":{"source":{"names":["shared"]},"copyName":{"prefix":null,"suffix":".example"}}}`)
	expect("shared.example")
	for _, namespace := range s.targets {
		s.expectNone(namespace, "platform-shared-copy")
		s.g.Expect(s.data(namespace, "shared")()).To(HaveKey("theirs"), "a foreign Secret was changed")
	}
	s.expectReady(rule)

	s.update(s.source, "shared", func(o *corev1.Secret) { o.Data = map[string][]byte{"other": []byte("x")} })
	s.patch(rule.DeepCopy(), `{"spec":{"keys":[{"from":"password"}]}}`)
	s.expectNotReady(rule, v1alpha1.ReasonKeyNotFound)
	expect("shared.example") // the copies of a source that lacks a key stay
	s.patch(rule.DeepCopy(), `{"spec":{"copyName":{"suffix":".other"}}}`)
	s.g.Consistently(s.data(s.targets[0], "shared.example"), "500ms").Should(Equal(hunter2), "no copy can replace it")
	s.g.Expect(s.Client.Delete(t.Context(), rule.DeepCopy())).To(Succeed())
	s.expectNone(s.targets[0], "shared.example")
}

func TestTwoCopiesWithOneNameAreReported(t *testing.T) {
	s := newScene(t, 1)
	s.secret()
	s.secret(func(o *corev1.Secret) { o.Name = "second"; o.Data["password"] = []byte("other") })
	rule := s.shareOf("names: [shared, second]", "copyName: {rename: [{from: second, to: shared}]}")
	s.g.Expect(s.expectNotReady(rule, v1alpha1.ReasonSourceRefused)).To(ContainSubstring("the copy of Secret " + s.source + "/second would have the name shared"))
	s.expectCopies(hunter2)

	s.patch(rule.DeepCopy(), `{"spec":{"keys":[{"from":"password"}]}}`)
	s.update(s.source, "shared", func(o *corev1.Secret) { o.Data = map[string][]byte{"other": []byte("x")} })
	s.expectNotReady(rule, v1alpha1.ReasonSourceRefused)
	s.g.Consistently(s.data(s.targets[0], "shared"), "500ms").Should(Equal(hunter2), "the second source must not replace the copy of the first")
}

// newSceneOf returns another source for the targets of a scene.
func newSceneOf(s *scene) *scene {
	s.t.Helper()
	other := *s
	other.source = s.Namespace(s.t, nil)
	for _, namespace := range s.targets {
		s.patch(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, `{"metadata":{"labels":{"`+team+`":"`+other.source+`"}}}`)
	}
	// From here on, both rules select the targets.
	rule := &v1alpha1.ClusterSecretShare{ObjectMeta: metav1.ObjectMeta{Name: s.source}}
	s.patch(rule, `{"spec":{"targets":{"namespaceSelector":{"matchLabels":{"`+team+`":"`+other.source+`"}}}}}`)
	s.expectSynced(rule, int32(len(s.targets)))
	return &other
}

// A tenant who can write Secrets can also write the annotations of copies.
func TestForgedAnnotationsAffectOnlyTheirOwnSecret(t *testing.T) {
	s := newScene(t, 1)
	source := s.secret()
	rule := s.share("")
	s.expectReady(rule)
	bystander := s.Namespace(t, nil)
	theirs := s.foreign(bystander, nil)
	forger := s.Namespace(t, nil)
	s.foreign(forger, map[string]string{
		share.AnnotationRuleUID: string(rule.UID), share.AnnotationSourceUID: string(source.UID),
		share.AnnotationSource: bystander + "/shared", share.AnnotationRule: "ClusterSecretShare/\x1b[31mforged",
	})
	s.expectNone(forger, "shared") // the annotations claim that it is a copy of the rule, which does not want it
	s.expectUnchanged(theirs)
	s.expectCopies(hunter2)
	s.expectUnchanged(source)
	s.expectReady(rule)
}

func TestCopiesOfCopiesAreRefused(t *testing.T) {
	s := newScene(t, 1)
	s.secret()
	first := s.share("")
	s.expectReady(first)
	// The target shares its copy with the source namespace.
	ring := cluster.Manifest(t, "ClusterSecretShare", "", s.targets[0],
		"source: {namespace: "+s.targets[0]+", names: [shared]}\ntargets: {names: ["+s.source+"]}")
	s.g.Expect(s.Client.Create(t.Context(), ring)).To(Succeed())
	t.Cleanup(func() { _ = s.Client.Delete(context.Background(), ring) })
	rule := &v1alpha1.ClusterSecretShare{ObjectMeta: metav1.ObjectMeta{Name: s.targets[0]}}
	s.g.Expect(s.expectNotReady(rule, v1alpha1.ReasonSourceRefused)).To(ContainSubstring("is a copy of " + s.source + "/shared"))
	s.expectReady(first)
}

func TestASourceOfARefusedTypeIsReported(t *testing.T) {
	s := newScene(t, 1)
	s.secret(func(o *corev1.Secret) { o.Type = "helm.sh/release.v1" })
	rule := s.share("")
	s.expectNotReady(rule, v1alpha1.ReasonSourceRefused)
	s.ExpectWarning(t, rule, v1alpha1.ReasonSourceRefused, "clustersecretshare-controller")
	s.expectNone(s.targets[0], "shared")
}

// A rule stays until its copies are removed.
func TestARuleThatCannotBeDeletedReportsWhy(t *testing.T) {
	s := newScene(t, 1)
	s.secret()
	rule := s.share("")
	s.expectSynced(rule, 1)
	lift := s.Deny(t, s.targets[0], "secrets", "'nothing is deleted here'", admissionv1.Delete)
	s.g.Expect(s.Client.Delete(t.Context(), rule.DeepCopy())).To(Succeed())
	s.g.Expect(s.expectNotReady(rule, v1alpha1.ReasonCopyFailed)).To(ContainSubstring("nothing is deleted here"))
	lift()
	s.expectNone(s.targets[0], "shared")
	s.g.Eventually(s.ready(rule)).Should(BeZero())
}

// A policy sees the new and the former values of a Secret in base64, and can put both into
// its message.
func TestSecretValuesInAPolicyMessageAreRedacted(t *testing.T) {
	const former, present = "correct-horse", "battery-staple"
	holds := func(value string) func(*corev1.Secret) {
		return func(o *corev1.Secret) { o.Data = map[string][]byte{"password": []byte(value)} }
	}
	for name, tc := range map[string]struct {
		operation admissionv1.OperationType
		message   string
		change    func(*scene, client.Object)
		quoted    string
	}{
		"when the copy is created": {
			admissionv1.Create, "'is ' + string(object.data.password)",
			func(s *scene, _ client.Object) { s.deleteSecret(s.targets[0], "shared") }, "is [redacted]",
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
			s.expectSynced(rule, 1)
			s.Deny(t, s.targets[0], "secrets", tc.message, tc.operation)
			tc.change(s, rule.DeepCopy())

			s.g.Expect(s.expectNotReady(rule, v1alpha1.ReasonCopyFailed)).To(ContainSubstring(tc.quoted))
			s.ExpectWarning(t, rule, v1alpha1.ReasonCopyFailed, "clustersecretshare-controller")
			output := operator.Log.String()
			for _, failing := range rule.Status.Failing {
				output += failing.Message
			}
			for _, event := range s.EventsOn(t.Context(), rule, v1alpha1.ReasonCopyFailed) {
				output += event.Note
			}
			for _, value := range []string{former, present} {
				for _, form := range []string{value, base64.StdEncoding.EncodeToString([]byte(value))} {
					s.g.Expect(strings.Contains(output, form)).To(BeFalse(), "%s was shown", form)
				}
			}
		})
	}
}

// To write the copy again would change nothing, and the user must know that the copy is
// different.
func TestACopyThatAPolicyChangesIsReportedAndNotRewritten(t *testing.T) {
	s := newScene(t, 2)
	s.secret()
	lift := s.mutateSecrets(s.targets[0])
	rule := s.share("")
	s.g.Expect(s.expectNotReady(rule, v1alpha1.ReasonCopyFailed)).To(ContainSubstring("an admission webhook or policy changes copy shared"))
	s.g.Expect(rule.Status.Failing).To(ConsistOf(HaveField("Namespace", s.targets[0])))
	s.g.Eventually(s.data(s.targets[1], "shared")).Should(Equal(hunter2))
	version := func() string {
		altered, err := s.get(s.targets[0], "shared")
		s.g.Expect(err).NotTo(HaveOccurred())
		return altered.ResourceVersion
	}
	s.g.Consistently(version, "2s").Should(Equal(version()), "the copy is written again and again")
	lift()
	s.expectCopies(hunter2)
	s.expectReady(rule)
}

// mutateSecrets creates an admission policy that adds a key to all Secrets of a namespace.
// It returns when the policy is in force.
func (s *scene) mutateSecrets(namespace string) (lift func()) {
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
