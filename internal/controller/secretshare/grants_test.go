package secretshare_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// granted is a scene with the Secret "shared", a SecretShare for it, and a grant in the
// first target namespace.
type granted struct {
	*scene
	object *v1alpha1.SecretShareGrant
	rule   *v1alpha1.SecretShare
}

func newGranted(t *testing.T, to string) *granted {
	t.Helper()
	s := newScene(t, 1)
	s.secret()
	rule := s.tenantShare("source: {names: [shared]}\ntargets: {}")
	return &granted{s, s.grant(s.targets[0], "from: [{namespace: "+s.source+"}]"+to), rule}
}

// status returns the status of the grant if it describes the present spec.
func (s *granted) status() v1alpha1.SecretShareGrantStatus {
	if err := s.Client.Get(s.t.Context(), client.ObjectKeyFromObject(s.object), s.object); err != nil || s.object.Status.ObservedGeneration != s.object.Generation {
		return v1alpha1.SecretShareGrantStatus{}
	}
	return s.object.Status
}

// expect waits for a status, and returns the message of its first waiting copy.
func (s *granted) expect(ready metav1.ConditionStatus, reason string, synced, waiting []string) string {
	s.t.Helper()
	var got v1alpha1.SecretShareGrantStatus
	s.g.Eventually(func(g Gomega) {
		got = s.status()
		c := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionReady)
		g.Expect(c).To(And(Not(BeNil()), HaveField("Status", ready), HaveField("Reason", reason)))
		var found []string
		for _, copied := range got.SyncedCopies {
			g.Expect(copied.SecretShare).To(Equal(s.source + "/it"))
			found = append(found, copied.Name)
		}
		g.Expect(found).To(Equal(synced))
		found = nil
		for _, copied := range got.WaitingCopies {
			g.Expect(copied.SecretShare).To(Equal(s.source + "/it"))
			found = append(found, copied.Name+": "+copied.Reason)
		}
		g.Expect(found).To(Equal(waiting))
		g.Expect(got.Synced).To(BeEquivalentTo(len(synced)))
		g.Expect(got.Waiting).To(BeEquivalentTo(len(waiting)))
	}).Should(Succeed())
	if len(waiting) == 0 {
		return ""
	}
	return got.WaitingCopies[0].Message
}

func TestAGrantShowsTheCopiesThatItAllows(t *testing.T) {
	s := newGranted(t, "")
	s.expect(metav1.ConditionTrue, v1alpha1.ReasonReady, []string{"shared"}, nil)

	s.patch(s.rule.DeepCopy(), `{"spec":{"source":{"names":["shared","another"]}}}`)
	s.secret(func(o *corev1.Secret) { o.Name = "another" })
	s.expect(metav1.ConditionTrue, v1alpha1.ReasonReady, []string{"another", "shared"}, nil)

	s.g.Expect(s.Client.Delete(t.Context(), s.rule.DeepCopy())).To(Succeed())
	s.expect(metav1.ConditionTrue, v1alpha1.ReasonUnused, nil, nil)
}

func TestAGrantShowsACopyThatAnotherSecretBlocks(t *testing.T) {
	s := newScene(t, 1)
	s.secret()
	blocking := s.foreign(s.targets[0], nil)
	rule := s.tenantShare("source: {names: [shared]}\ntargets: {}")
	g := &granted{s, s.grant(s.targets[0], "from: [{namespace: "+s.source+"}]"), rule}
	message := g.expect(metav1.ConditionFalse, v1alpha1.ReasonConflict, nil, []string{"shared: Conflict"})
	s.g.Expect(message).To(ContainSubstring("spec.copyName"))

	s.g.Expect(s.Client.Delete(t.Context(), blocking)).To(Succeed())
	g.expect(metav1.ConditionTrue, v1alpha1.ReasonReady, []string{"shared"}, nil)
}

func TestAGrantShowsASecretThatItDoesNotAllow(t *testing.T) {
	s := newGranted(t, "\nto: [{name: other-*}]")
	message := s.expect(metav1.ConditionTrue, v1alpha1.ReasonUnused, nil, []string{"shared: NotGranted"})
	s.g.Expect(message).To(ContainSubstring("spec.to"))

	s.patch(s.object.DeepCopy(), `{"spec":{"to":[{"name":"shared"}]}}`)
	s.expect(metav1.ConditionTrue, v1alpha1.ReasonReady, []string{"shared"}, nil)
}

func TestAGrantLeavesOutCopiesThatOnlyAnotherGrantAllows(t *testing.T) {
	s := newGranted(t, "\nto: [{name: other-*}]")
	s.expect(metav1.ConditionTrue, v1alpha1.ReasonUnused, nil, []string{"shared: NotGranted"})
	another := cluster.Manifest(t, "SecretShareGrant", s.targets[0], "another", "from: [{namespace: "+s.source+"}]")
	s.g.Expect(s.Client.Create(t.Context(), another)).To(Succeed())
	s.expect(metav1.ConditionTrue, v1alpha1.ReasonUnused, nil, nil)
	s.object.Name = "another"
	s.expect(metav1.ConditionTrue, v1alpha1.ReasonReady, []string{"shared"}, nil)
}

func TestAGrantShowsCopiesThatTheSecretShareHolds(t *testing.T) {
	s := newGranted(t, "")
	s.expect(metav1.ConditionTrue, v1alpha1.ReasonReady, []string{"shared"}, nil)

	s.patch(s.rule.DeepCopy(), `{"spec":{"suspend":true}}`)
	message := s.expect(metav1.ConditionTrue, v1alpha1.ReasonUnused, nil, []string{"shared: Suspended"})
	s.g.Expect(message).To(ContainSubstring(s.source + "/it"))

	s.patch(s.rule.DeepCopy(), `{"spec":{"suspend":false,"keys":[{"from":"missing"}]}}`)
	message = s.expect(metav1.ConditionFalse, v1alpha1.ReasonKeyNotFound, nil, []string{"shared: KeyNotFound"})
	s.g.Expect(strings.Contains(message, "missing")).To(BeFalse(), "it quotes the status of the SecretShare")

	s.patch(s.rule.DeepCopy(), `{"spec":{"keys":null}}`)
	s.expect(metav1.ConditionTrue, v1alpha1.ReasonReady, []string{"shared"}, nil)
}
