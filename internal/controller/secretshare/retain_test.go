package secretshare_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
)

// removeRetaining deletes a rule with Retain, and waits until it is gone.
func (s *scene) removeRetaining(rule secretshare.Object) {
	s.t.Helper()
	removeRule(s, rule.DeepCopyObject().(client.Object))
	s.g.Eventually(func() bool {
		return apierrors.IsNotFound(s.Client.Get(s.t.Context(), client.ObjectKeyFromObject(rule), rule))
	}).Should(BeTrue(), "the rule still exists")
	isReleased(s, s.targets[0])
}

// A Secret that its owner has changed since is not a copy of the rule any more.
func TestARuleTakesBackTheSecretsThatItRetained(t *testing.T) {
	hunter3 := map[string][]byte{"password": []byte("hunter3")}
	for name, tc := range map[string]struct {
		change func(s *scene, namespace string)
		// kept is the data of a Secret that stays as it is. Nil means that it is taken back.
		kept map[string][]byte
		// taken is the data of the copy if it is taken back, without hunter2.
		taken map[string][]byte
	}{
		"unchanged": {func(*scene, string) {}, nil, nil},
		"edited": {func(s *scene, ns string) {
			s.update(ns, "shared", func(o *corev1.Secret) { o.Data = hunter3 })
		}, hunter3, nil},
		"edited and restored": {func(s *scene, ns string) {
			s.update(ns, "shared", func(o *corev1.Secret) { o.Data = hunter3 })
			s.update(ns, "shared", func(o *corev1.Secret) { o.Data = hunter2 })
		}, hunter2, nil},
		// If equal content decided, a tenant could find out whether a guessed value is right.
		"created again with the same content": {func(s *scene, ns string) {
			released, err := s.get(ns, "shared")
			s.g.Expect(err).NotTo(HaveOccurred())
			s.deleteSecret(ns, "shared")
			again := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "shared", Annotations: released.Annotations}, Data: hunter2}
			s.g.Expect(s.Client.Create(s.t.Context(), again)).To(Succeed())
		}, hunter2, nil},
		"labelled by another": {func(s *scene, ns string) {
			s.update(ns, "shared", func(o *corev1.Secret) { o.Labels = map[string]string{"mine": "x"} })
		}, nil, nil},
		"the annotation removed": {func(s *scene, ns string) {
			s.update(ns, "shared", func(o *corev1.Secret) { delete(o.Annotations, share.AnnotationReleasedBy) })
		}, hunter2, nil},
		"the source changed": {func(s *scene, _ string) {
			s.update(s.source, "shared", func(o *corev1.Secret) { o.Data = hunter3 })
		}, nil, hunter3},
	} {
		for kind, create := range map[string]func(*scene) secretshare.Object{
			"ClusterSecretShare": func(s *scene) secretshare.Object { return s.share("deletionPolicy: Retain") },
			"SecretShare": func(s *scene) secretshare.Object {
				return s.tenantShare("source: {names: [shared]}\ntargets: {}\ndeletionPolicy: Retain")
			},
		} {
			t.Run(kind+", "+name, func(t *testing.T) {
				s := newScene(t, 1)
				s.secret()
				s.grant(s.targets[0], "from: [{namespace: "+s.source+"}]")
				rule := create(s)
				s.expectCopies(hunter2)
				s.removeRetaining(rule)
				tc.change(s, s.targets[0])
				rule = create(s)
				if tc.kept == nil {
					s.expectReady(rule)
					if tc.taken == nil {
						tc.taken = hunter2
					}
					s.expectCopyOf(s.targets[0], tc.taken)
					s.update(s.source, "shared", func(o *corev1.Secret) { o.Data = hunter3 })
					s.expectCopyOf(s.targets[0], hunter3)
					return
				}
				message := s.expectNotReady(rule, v1alpha1.ReasonConflict)
				s.g.Expect(message).To(ContainSubstring("annotate it with bongsu.io/adopt=" + kind + "/"))
				s.g.Consistently(s.data(s.targets[0], "shared"), "500ms").Should(Equal(tc.kept))
				s.update(s.targets[0], "shared", func(o *corev1.Secret) {
					if o.Annotations == nil {
						o.Annotations = map[string]string{}
					}
					o.Annotations[share.AnnotationAdopt] = ruleName(kind, rule)
				})
				s.expectReady(rule)
				source, err := s.get(s.source, "shared")
				s.g.Expect(err).NotTo(HaveOccurred())
				s.expectCopyOf(s.targets[0], source.Data)
			})
		}
	}
}

// ruleName returns the name by which an annotation names a rule.
func ruleName(kind string, rule client.Object) string {
	if rule.GetNamespace() == "" {
		return kind + "/" + rule.GetName()
	}
	return kind + "/" + rule.GetNamespace() + "/" + rule.GetName()
}

// Without a grant, a SecretShare has no right to a Secret that it once wrote.
func TestASecretShareWithoutAGrantTakesNothingBack(t *testing.T) {
	s := newScene(t, 1)
	s.secret()
	grant := s.grant(s.targets[0], "from: [{namespace: "+s.source+"}]")
	const spec = "source: {names: [shared]}\ntargets: {}\ndeletionPolicy: Retain"
	rule := s.tenantShare(spec)
	s.expectCopies(hunter2)
	s.g.Expect(s.Client.Delete(t.Context(), grant.DeepCopy())).To(Succeed())
	isReleased(s, s.targets[0])
	s.removeRetaining(rule)
	rule = s.tenantShare(spec)
	s.expectReady(rule)
	s.g.Consistently(func() (*corev1.Secret, error) { return s.get(s.targets[0], "shared") }, "500ms").
		Should(HaveField("Annotations", Not(HaveKey(share.AnnotationRuleUID))))

	s.grant(s.targets[0], "from: [{namespace: "+s.source+"}]")
	s.expectCopyOf(s.targets[0], hunter2)
}
