package secretshare_test

import (
	"fmt"
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
)

// absence is something that happens while no operator runs. The rule shares the
// Secret with two namespaces.
type absence struct {
	// tenant says that the rule is a SecretShare, which both namespaces let in.
	tenant bool
	policy v1alpha1.DeletionPolicy
	// happen is told the rule.
	happen func(*scene, client.Object)
	// after says of both namespaces what becomes of the copy there.
	after [2]fate
	// gone says that the rule is deleted.
	gone bool
}

// fate is what becomes of a copy.
type fate func(s *scene, namespace string)

func isKept(s *scene, namespace string)    { s.expectCopyOf(namespace, hunter2) }
func isRemoved(s *scene, namespace string) { s.expectNone(namespace, "shared") }
func follows(s *scene, namespace string) {
	s.expectCopyOf(namespace, map[string][]byte{"password": []byte("hunter3")})
}

// isReleased: it has become a Secret like any other.
func isReleased(s *scene, namespace string) {
	s.t.Helper()
	s.g.Eventually(func() (*corev1.Secret, error) { return s.get(namespace, "shared") }).Should(And(
		HaveField("Data", hunter2), HaveField("Labels", BeEmpty()), HaveField("Annotations", BeEmpty())))
}

// isForeign: another has taken its place, which is not touched.
func isForeign(s *scene, namespace string) {
	s.t.Helper()
	s.g.Expect(s.get(namespace, "shared")).To(And(HaveField("Data", BeEmpty()), HaveField("Annotations", BeEmpty())))
}

// expectCopyOf waits for a copy with all its marks.
func (s *scene) expectCopyOf(namespace string, data map[string][]byte) {
	s.t.Helper()
	s.g.Eventually(func() (*corev1.Secret, error) { return s.get(namespace, "shared") }).Should(And(
		HaveField("Data", data), HaveField("Labels", HaveKey(share.LabelRuleUID)),
		HaveField("Annotations", HaveKey(share.AnnotationRuleUID)), HaveField("Annotations", HaveKey(share.AnnotationSourceUID))))
}

// drop deletes a Secret.
func (s *scene) drop(namespace, name string) {
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

var absences = map[string]absence{
	"the rule is narrowed":              {happen: narrow, after: [2]fate{isRemoved, isKept}},
	"the rule that retains is narrowed": {policy: "Retain", happen: narrow, after: [2]fate{isReleased, isKept}},
	"the rule is deleted":               {happen: removeRule, after: [2]fate{isRemoved, isRemoved}, gone: true},
	"the rule that retains is deleted":  {policy: "Retain", happen: removeRule, after: [2]fate{isReleased, isReleased}, gone: true},
	"the tenant's rule is deleted":      {tenant: true, happen: removeRule, after: [2]fate{isRemoved, isRemoved}, gone: true},
	"the namespace is deselected":       {happen: deselect, after: [2]fate{isRemoved, isKept}},
	"the grant is withdrawn": {
		tenant: true,
		happen: func(s *scene, _ client.Object) {
			grant := &v1alpha1.SecretShareGrant{ObjectMeta: metav1.ObjectMeta{Namespace: s.targets[0], Name: "it"}}
			s.g.Expect(s.Client.Delete(s.t.Context(), grant)).To(Succeed())
		},
		after: [2]fate{isRemoved, isKept},
	},
	"the source is deleted": {
		happen: func(s *scene, _ client.Object) { s.drop(s.source, "shared") },
		after:  [2]fate{isRemoved, isRemoved},
	},
	"the source is changed": {
		happen: func(s *scene, _ client.Object) {
			s.update(s.source, "shared", func(o *corev1.Secret) { o.Data["password"] = []byte("hunter3") })
		},
		after: [2]fate{follows, follows},
	},
	"the source is deleted and created again": {
		happen: func(s *scene, _ client.Object) {
			s.drop(s.source, "shared")
			s.secret(func(o *corev1.Secret) { o.Data["password"] = []byte("hunter3") })
		},
		after: [2]fate{follows, follows},
	},
	"a copy is edited": {
		happen: func(s *scene, _ client.Object) {
			s.update(s.targets[0], "shared", func(o *corev1.Secret) { o.Data = map[string][]byte{"x": nil} })
		},
		after: [2]fate{isKept, isKept},
	},
	"a copy's label is stripped": {
		happen: func(s *scene, _ client.Object) {
			s.update(s.targets[0], "shared", func(o *corev1.Secret) { o.Labels = nil })
		},
		after: [2]fate{isKept, isKept},
	},
	"a copy's label is stripped and the rule is deleted": {
		happen: func(s *scene, rule client.Object) {
			s.update(s.targets[0], "shared", func(o *corev1.Secret) { o.Labels = nil })
			removeRule(s, rule)
		},
		after: [2]fate{isRemoved, isRemoved}, gone: true,
	},
	"a copy is deleted": {
		happen: func(s *scene, _ client.Object) { s.drop(s.targets[0], "shared") },
		after:  [2]fate{isKept, isKept},
	},
	"another takes a copy's place": {happen: replace, after: [2]fate{isForeign, isKept}},
	"another takes a copy's place and the rule is deleted": {
		happen: func(s *scene, rule client.Object) { replace(s, rule); removeRule(s, rule) },
		after:  [2]fate{isForeign, isRemoved}, gone: true,
	},
}

// replace puts somebody else's Secret in a copy's place.
func replace(s *scene, _ client.Object) {
	s.t.Helper()
	s.drop(s.targets[0], "shared")
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.targets[0], Name: "shared"}}
	s.g.Expect(s.Client.Create(s.t.Context(), foreign)).To(Succeed())
}

func TestWhatHappensWhileTheOperatorIsDownIsMadeGoodAtItsStart(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	operator := c.StartOperator(t)
	scenes, rules := map[string]*scene{}, map[string]secretshare.Object{}
	for name, a := range absences {
		scenes[name] = &scene{Cluster: c, t: t, g: NewWithT(t), source: c.Namespace(t, nil)}
		rules[name] = a.set(scenes[name])
	}
	for name := range absences {
		scenes[name].expectReady(rules[name])
		scenes[name].expectCopies(hunter2)
	}
	if err := operator.Stop(); err != nil {
		t.Fatal(err)
	}
	for name, a := range absences {
		a.happen(scenes[name], rules[name].DeepCopyObject().(client.Object))
	}
	c.StartOperator(t)
	for name, a := range absences {
		t.Run(name, func(t *testing.T) {
			s := *scenes[name]
			s.t, s.g = t, NewWithT(t)
			for i, becomes := range a.after {
				becomes(&s, s.targets[i])
			}
			if a.gone {
				s.g.Eventually(func() bool {
					return apierrors.IsNotFound(s.Client.Get(t.Context(), client.ObjectKeyFromObject(rules[name]), rules[name]))
				}).Should(BeTrue(), "the rule is still there")
			}
			for i, became := range a.after {
				became(&s, s.targets[i]) // and stays so
			}
		})
	}
}

// set creates what there is before it happens.
func (a *absence) set(s *scene) secretshare.Object {
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
