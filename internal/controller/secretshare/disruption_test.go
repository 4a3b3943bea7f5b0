package secretshare_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/size"
)

// downtime is a change while no operator runs. The rule shares the Secret with two
// namespaces.
type downtime struct {
	// tenant means that the rule is a SecretShare, and both namespaces have a grant for it.
	tenant bool
	policy v1alpha1.DeletionPolicy
	change func(*scene, client.Object)
	// after is the outcome for the copy in each of the two namespaces.
	after [2]outcome
	// ruleDeleted means that the rule must be deleted.
	ruleDeleted bool
}

// outcome checks a copy afterwards.
type outcome func(s *scene, namespace string)

func isKept(s *scene, namespace string)    { s.expectCopyOf(namespace, hunter2) }
func isRemoved(s *scene, namespace string) { s.expectNone(namespace, "shared") }
func follows(s *scene, namespace string) {
	s.expectCopyOf(namespace, map[string][]byte{"password": []byte("hunter3")})
}

// isReleased expects an ordinary Secret.
func isReleased(s *scene, namespace string) {
	s.t.Helper()
	s.g.Eventually(func() (*corev1.Secret, error) { return s.get(namespace, "shared") }).Should(And(
		HaveField("Data", hunter2), HaveField("Labels", BeEmpty()),
		HaveField("Annotations", And(HaveLen(1), HaveKey(share.AnnotationReleasedBy)))))
}

// isForeign expects the foreign Secret in place of the copy, unchanged.
func isForeign(s *scene, namespace string) {
	s.t.Helper()
	s.g.Expect(s.get(namespace, "shared")).To(And(HaveField("Data", BeEmpty()), HaveField("Annotations", BeEmpty())))
}

// expectCopyOf waits for a copy with its label and annotations.
func (s *scene) expectCopyOf(namespace string, data map[string][]byte) {
	s.t.Helper()
	s.g.Eventually(func() (*corev1.Secret, error) { return s.get(namespace, "shared") }).Should(And(
		HaveField("Data", data), HaveField("Labels", HaveKey(share.LabelRuleUID)),
		HaveField("Annotations", HaveKey(share.AnnotationRuleUID)), HaveField("Annotations", HaveKey(share.AnnotationSourceUID))))
}

func (s *scene) deleteSecret(namespace, name string) {
	s.t.Helper()
	o := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	s.g.Expect(s.Client.Delete(s.t.Context(), o)).To(Succeed())
}

func removeRule(s *scene, rule client.Object) {
	s.t.Helper()
	s.g.Expect(s.Client.Delete(s.t.Context(), rule)).To(Succeed())
}

func deselect(s *scene, _ client.Object) {
	s.t.Helper()
	s.patch(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.targets[0]}}, `{"metadata":{"labels":{"team":null}}}`)
}

func narrow(s *scene, rule client.Object) {
	s.t.Helper()
	s.patch(rule, fmt.Sprintf(`{"spec":{"targets":{"exclude":[%q]}}}`, s.targets[0]))
}

var downtimes = map[string]downtime{
	"the rule is narrowed":              {change: narrow, after: [2]outcome{isRemoved, isKept}},
	"the rule that retains is narrowed": {policy: "Retain", change: narrow, after: [2]outcome{isReleased, isKept}},
	"the rule is deleted":               {change: removeRule, after: [2]outcome{isRemoved, isRemoved}, ruleDeleted: true},
	"the rule that retains is deleted":  {policy: "Retain", change: removeRule, after: [2]outcome{isReleased, isReleased}, ruleDeleted: true},
	"the tenant's rule is deleted":      {tenant: true, change: removeRule, after: [2]outcome{isRemoved, isRemoved}, ruleDeleted: true},
	"the namespace is deselected":       {change: deselect, after: [2]outcome{isRemoved, isKept}},
	"the grant is deleted": {
		tenant: true,
		change: func(s *scene, _ client.Object) {
			grant := &v1alpha1.SecretShareGrant{ObjectMeta: metav1.ObjectMeta{Namespace: s.targets[0], Name: "it"}}
			s.g.Expect(s.Client.Delete(s.t.Context(), grant)).To(Succeed())
		},
		after: [2]outcome{isRemoved, isKept},
	},
	"the source is deleted": {
		change: func(s *scene, _ client.Object) { s.deleteSecret(s.source, "shared") },
		after:  [2]outcome{isRemoved, isRemoved},
	},
	"the source is changed": {
		change: func(s *scene, _ client.Object) {
			s.update(s.source, "shared", func(o *corev1.Secret) { o.Data["password"] = []byte("hunter3") })
		},
		after: [2]outcome{follows, follows},
	},
	"the source is deleted and created again": {
		change: func(s *scene, _ client.Object) {
			s.deleteSecret(s.source, "shared")
			s.secret(func(o *corev1.Secret) { o.Data["password"] = []byte("hunter3") })
		},
		after: [2]outcome{follows, follows},
	},
	"a copy is edited": {
		change: func(s *scene, _ client.Object) {
			s.update(s.targets[0], "shared", func(o *corev1.Secret) { o.Data = map[string][]byte{"x": nil} })
		},
		after: [2]outcome{isKept, isKept},
	},
	"a copy's label is removed": {
		change: func(s *scene, _ client.Object) {
			s.update(s.targets[0], "shared", func(o *corev1.Secret) { o.Labels = nil })
		},
		after: [2]outcome{isKept, isKept},
	},
	"a copy's label is removed and the rule is deleted": {
		change: func(s *scene, rule client.Object) {
			s.update(s.targets[0], "shared", func(o *corev1.Secret) { o.Labels = nil })
			removeRule(s, rule)
		},
		after: [2]outcome{isRemoved, isRemoved}, ruleDeleted: true,
	},
	"a copy is deleted": {
		change: func(s *scene, _ client.Object) { s.deleteSecret(s.targets[0], "shared") },
		after:  [2]outcome{isKept, isKept},
	},
	// No copy is deleted in between: the outcome checks its UID.
	"the rule gets another name":       {change: rename, after: [2]outcome{isTakenOver, isTakenOver}, ruleDeleted: true},
	"a foreign Secret replaces a copy": {change: replace, after: [2]outcome{isForeign, isKept}},
	"a foreign Secret replaces a copy and the rule is deleted": {
		change: func(s *scene, rule client.Object) { replace(s, rule); removeRule(s, rule) },
		after:  [2]outcome{isForeign, isRemoved}, ruleDeleted: true,
	},
}

// renamedTo is the suffix of the new rule.
const renamedTo = "-2"

// rename creates the rule again with another name, and notes the UIDs of the copies on their namespaces.
func rename(s *scene, rule client.Object) {
	s.t.Helper()
	for _, namespace := range s.targets {
		secret, err := s.get(namespace, "shared")
		s.g.Expect(err).NotTo(HaveOccurred())
		s.patch(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, fmt.Sprintf(`{"metadata":{"annotations":{"uid":%q}}}`, secret.UID))
	}
	p := &pair{scene: s, kind: v1alpha1.KindClusterSecretShare}
	p.rule(renamedTo, "")
	removeRule(s, rule)
}

// isTakenOver expects the copy of before, which belongs to the rule with the other name.
func isTakenOver(s *scene, namespace string) {
	s.t.Helper()
	s.g.Eventually(func() (*corev1.Secret, error) { return s.get(namespace, "shared") }).
		Should(HaveField("Annotations", HaveKeyWithValue(share.AnnotationRule, "ClusterSecretShare/"+s.source+renamedTo)))
	s.expectCopyOf(namespace, hunter2)
	ns := &corev1.Namespace{}
	s.g.Expect(s.Client.Get(s.t.Context(), client.ObjectKey{Name: namespace}, ns)).To(Succeed())
	s.g.Expect(s.get(namespace, "shared")).To(HaveField("UID", BeEquivalentTo(ns.Annotations["uid"])), "the copy was deleted in between")
}

// replace replaces a copy with a foreign Secret.
func replace(s *scene, _ client.Object) {
	s.t.Helper()
	s.deleteSecret(s.targets[0], "shared")
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.targets[0], Name: "shared"}}
	s.g.Expect(s.Client.Create(s.t.Context(), foreign)).To(Succeed())
}

func TestChangesWhileTheOperatorIsDownAreReconciledAtItsStart(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	operator := c.StartOperator(t)
	scenes, rules := map[string]*scene{}, map[string]secretshare.Object{}
	for name, a := range downtimes {
		scenes[name] = &scene{Cluster: c, t: t, g: NewWithT(t), source: c.Namespace(t, nil)}
		rules[name] = a.prepare(scenes[name])
	}
	for name := range downtimes {
		scenes[name].expectReady(rules[name])
		scenes[name].expectCopies(hunter2)
	}
	if err := operator.Stop(); err != nil {
		t.Fatal(err)
	}
	for name, a := range downtimes {
		a.change(scenes[name], rules[name].DeepCopyObject().(client.Object))
	}
	c.StartOperator(t)
	for name, a := range downtimes {
		t.Run(name, func(t *testing.T) {
			s := *scenes[name]
			s.t, s.g = t, NewWithT(t)
			for i, check := range a.after {
				check(&s, s.targets[i])
			}
			if a.ruleDeleted {
				s.g.Eventually(func() bool {
					return apierrors.IsNotFound(s.Client.Get(t.Context(), client.ObjectKeyFromObject(rules[name]), rules[name]))
				}).Should(BeTrue(), "the rule still exists")
			}
			for i, check := range a.after {
				check(&s, s.targets[i]) // nothing changes afterwards
			}
		})
	}
}

// prepare creates the objects that exist before the change.
func (a *downtime) prepare(s *scene) secretshare.Object {
	for range 2 {
		s.addTarget()
	}
	s.secret()
	policy := "\ndeletionPolicy: Delete"
	if a.policy != "" {
		policy = "\ndeletionPolicy: " + string(a.policy)
	}
	if !a.tenant {
		return s.share(policy)
	}
	for _, namespace := range s.targets {
		s.grant(namespace, "from: [{namespace: "+s.source+"}]")
	}
	return s.tenantShare("source: {names: [shared]}\ntargets: {}" + policy)
}

// sequence is a random sequence of changes of one rule.
type sequence struct {
	*secretshare.Model
	t       *testing.T
	rng     *rand.Rand
	history []string
}

const realRounds = 6

// Many rules change at the same time, also while no operator runs. The model keeps the
// demands of all rounds, because the test does not know what the operator has read.
func TestCopiesConvergeOnARealAPIServerAfterAnySequenceOfChanges(t *testing.T) {
	size.NotInTest(t, "it takes a cluster of its own, and TestCopiesConvergeAfterAnySequenceOfChanges runs sequences without one")
	c := cluster.Start(t)
	operator := c.StartOperator(t)
	var sequences []*sequence
	for seed := range uint64(size.Choose(t, 0, 24, 100, "sequences")) {
		sequences = append(sequences, newSequence(t, c, seed))
	}
	for _, s := range sequences {
		s.expectConverged()
		NewWithT(t).Expect(s.StartRound(t.Context())).To(Succeed())
	}
	for round := range realRounds {
		restart := round%3 == 1
		if restart {
			NewWithT(t).Expect(operator.Stop()).To(Succeed())
		}
		for _, s := range sequences {
			s.change(1 + s.rng.IntN(6))
		}
		if restart {
			operator = c.StartOperator(t)
		}
		for _, s := range sequences {
			s.expectConverged()
		}
	}
	for _, s := range sequences {
		NewWithT(t).Expect(s.DeleteRule(t.Context())).To(Succeed())
	}
	for _, s := range sequences {
		s.expectConverged()
	}
}

// newSequence creates a rule, its namespaces and its sources.
func newSequence(t *testing.T, c *cluster.Cluster, seed uint64) *sequence {
	t.Helper()
	t.Attr("rerun", "never") // the sequence would be another one
	kind := []string{v1alpha1.KindSecretShare, v1alpha1.KindClusterSecretShare}[seed%2]
	m := &secretshare.Model{Client: c.Client, Kind: kind, Sources: []string{c.Namespace(t, nil), c.Namespace(t, nil)}}
	m.Rule = m.Sources[0]
	for range 3 {
		m.Targets = append(m.Targets, c.Namespace(t, m.TargetLabels()))
	}
	s := &sequence{Model: m, t: t, rng: rand.New(rand.NewPCG(seed, 0))}
	NewWithT(t).Expect(m.Prepare(t.Context())).To(Succeed())
	return s
}

func (s *sequence) change(n int) {
	s.t.Helper()
	for range n {
		what, err := s.Change(s.t.Context(), s.rng)
		s.history = append(s.history, what)
		NewWithT(s.t).Expect(err).NotTo(HaveOccurred(), what)
	}
	s.history = append(s.history, "check")
}

func (s *sequence) expectConverged() {
	s.t.Helper()
	NewWithT(s.t).Eventually(func() error { return s.Check(s.t.Context()) }).Should(Succeed(), func() string {
		return fmt.Sprintf("rule %s, after:\n%s", s.Rule, strings.Join(s.history, "\n"))
	})
}
