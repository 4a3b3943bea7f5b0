package secretshare_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// kubectl replace --force deletes a Secret and creates it again.
func TestASourceThatIsReplacedKeepsItsCopies(t *testing.T) {
	s := newScene(t, 3)
	s.secret()
	rule := s.share("sourceDeletionGraceSeconds: 3600")
	s.expectSynced(rule, 3)
	before := map[string]any{}
	for _, namespace := range s.targets {
		copied, err := s.get(namespace, "shared")
		s.g.Expect(err).NotTo(HaveOccurred())
		before[namespace] = copied.UID
	}
	s.deleteSecret(s.source, "shared")
	s.g.Expect(s.expectNotReady(rule, v1alpha1.ReasonSourceDeleted)).To(ContainSubstring("Secret " + s.source + "/shared was deleted"))
	s.ExpectWarning(t, rule, v1alpha1.ReasonSourceDeleted, "clustersecretshare-controller")
	s.expectCopies(hunter2)
	s.secret(func(o *corev1.Secret) { o.Data["password"] = []byte("hunter3") })
	s.expectSynced(rule, 3)
	s.expectCopies(map[string][]byte{"password": []byte("hunter3")})
	for _, namespace := range s.targets {
		copied, err := s.get(namespace, "shared")
		s.g.Expect(err).NotTo(HaveOccurred())
		s.g.Expect(copied.UID).To(BeEquivalentTo(before[namespace]), "the copy in %s was created again", namespace)
	}
	s.g.Expect(s.EventsOn(t.Context(), rule, v1alpha1.ReasonRemovingCopies)).To(BeEmpty())

	s.deleteSecret(s.source, "shared")
	s.expectNotReady(rule, v1alpha1.ReasonSourceDeleted)
	s.patch(rule.DeepCopy(), `{"spec":{"sourceDeletionGraceSeconds":0}}`)
	for _, namespace := range s.targets {
		s.expectNone(namespace, "shared")
	}
	s.expectNotReady(rule, v1alpha1.ReasonSourceNotFound)
	s.g.Eventually(func() []string {
		var notes []string
		for _, e := range s.EventsOn(t.Context(), rule, v1alpha1.ReasonRemovingCopies) {
			notes = append(notes, e.Note)
		}
		return notes
	}).Should(ConsistOf("Deleting 3 copies: Secret shared was deleted"))
}
