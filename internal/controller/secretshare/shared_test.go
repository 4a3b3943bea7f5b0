package secretshare_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/size"
)

// pair makes rules of one kind that want the same copies in the targets of a scene.
type pair struct {
	*scene
	kind string
	// more are further fields of all specs.
	more string
}

// rule creates a rule with a suffix of its name, and more fields of its spec.
func (p *pair) rule(suffix, more string) secretshare.Object {
	p.t.Helper()
	name := p.source + suffix
	spec := "sourceDeletionGraceSeconds: 0\n" + p.selected() + "\n" + p.more + "\n" + more
	if p.kind == v1alpha1.KindSecretShare {
		p.g.Expect(p.Client.Create(p.t.Context(), cluster.Manifest(p.t, p.kind, p.source, name, "source: {names: [shared]}\n"+spec))).To(Succeed())
		return &v1alpha1.SecretShare{ObjectMeta: metav1.ObjectMeta{Namespace: p.source, Name: name}}
	}
	p.g.Expect(p.Client.Create(p.t.Context(), cluster.Manifest(p.t, p.kind, "", name, "source: {namespace: "+p.source+", names: [shared]}\n"+spec))).To(Succeed())
	return &v1alpha1.ClusterSecretShare{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func (p *pair) remove(rule secretshare.Object) {
	p.t.Helper()
	p.g.Expect(p.Client.Delete(p.t.Context(), rule.DeepCopyObject().(client.Object))).To(Succeed())
}

func (p *pair) expectGone(rule secretshare.Object) {
	p.t.Helper()
	p.g.Eventually(func() bool {
		return apierrors.IsNotFound(p.Client.Get(p.t.Context(), client.ObjectKeyFromObject(rule), rule))
	}).Should(BeTrue(), "the rule still exists")
}

// uids returns the UIDs of the copies. A copy that was deleted and created again has another one.
func (p *pair) uids() map[string]types.UID {
	p.t.Helper()
	uids := map[string]types.UID{}
	for _, namespace := range p.targets {
		secret, err := p.get(namespace, "shared")
		p.g.Expect(err).NotTo(HaveOccurred())
		uids[namespace] = secret.UID
	}
	return uids
}

// expectOwner waits until the copies belong to a rule.
func (p *pair) expectOwner(rule secretshare.Object) {
	p.t.Helper()
	for _, namespace := range p.targets {
		p.g.Eventually(func() (*corev1.Secret, error) { return p.get(namespace, "shared") }).
			Should(HaveField("Annotations", HaveKeyWithValue(share.AnnotationRule, ruleName(p.kind, rule))), "in %s", namespace)
	}
}

// GitOps tools create the rule with the new name first. Others delete the old one first.
func TestTheCopiesOfARuleThatGetsAnotherNameExistAllTheTime(t *testing.T) {
	hunter3 := map[string][]byte{"password": []byte("hunter3")}
	exclude := func(p *pair, rule secretshare.Object, value string) {
		p.patch(rule.DeepCopyObject().(client.Object), `{"spec":{"targets":{"exclude":`+value+`}}}`)
	}
	type variant struct {
		kind   string
		policy v1alpha1.DeletionPolicy
	}
	variants := []variant{
		{v1alpha1.KindClusterSecretShare, v1alpha1.DeletionPolicyDelete}, {v1alpha1.KindSecretShare, v1alpha1.DeletionPolicyRetain},
		{v1alpha1.KindSecretShare, v1alpha1.DeletionPolicyDelete}, {v1alpha1.KindClusterSecretShare, v1alpha1.DeletionPolicyRetain},
	}
	variants = variants[:size.Choose(t, 2, len(variants), len(variants), "kinds and policies")]
	for name, tc := range map[string]struct {
		// rename leaves only the second rule, which it returns.
		rename func(p *pair, first secretshare.Object) secretshare.Object
		data   map[string][]byte
	}{
		"created and deleted": {func(p *pair, first secretshare.Object) secretshare.Object {
			second := p.rule("-2", "")
			p.g.Expect(p.expectReadyMessage(second)).To(ContainSubstring(fmt.Sprintf("; 2 copies of them written by %s, which wants the same", ruleName(p.kind, first))))
			p.expectOwner(first)
			p.remove(first)
			return second
		}, hunter2},
		"created, rotated and deleted": {func(p *pair, first secretshare.Object) secretshare.Object {
			second := p.rule("-2", "")
			p.expectReady(second)
			p.update(p.source, "shared", func(o *corev1.Secret) { o.Data = hunter3 })
			p.remove(first)
			return second
		}, hunter3},
		"created and deleted at once": {func(p *pair, first secretshare.Object) secretshare.Object {
			second := p.rule("-2", "")
			p.remove(first)
			return second
		}, hunter2},
		"deleted and created": {func(p *pair, first secretshare.Object) secretshare.Object {
			p.remove(first)
			return p.rule("-2", "")
		}, hunter2},
		"two rules that change in one apply": {func(p *pair, first secretshare.Object) secretshare.Object {
			all := fmt.Sprintf("[%q, %q]", p.targets[0], p.targets[1])
			second := p.rule("-2", "")
			exclude(p, second, all)
			p.g.Eventually(func() int32 { p.ready(second)(); return second.ShareStatus().Desired }).Should(BeZero())
			exclude(p, first, all)
			exclude(p, second, "[]")
			p.expectOwner(second)
			p.remove(first)
			return second
		}, hunter2},
		"two followers": {func(p *pair, first secretshare.Object) secretshare.Object {
			second := p.rule("-2", "")
			p.expectReady(second)
			third := p.rule("-3", "")
			p.expectReady(third)
			p.remove(first)
			p.expectGone(first)
			heir, other := second, third
			secret, err := p.get(p.targets[0], "shared")
			p.g.Expect(err).NotTo(HaveOccurred())
			if secret.Annotations[share.AnnotationRule] == ruleName(p.kind, third) { // both may have the same age
				heir, other = third, second
			}
			p.expectOwner(heir)
			p.g.Eventually(func() string { return p.expectReadyMessage(other) }).Should(ContainSubstring(ruleName(p.kind, heir)))
			p.remove(heir)
			p.expectGone(heir)
			return other
		}, hunter2},
	} {
		for _, v := range variants {
			t.Run(fmt.Sprint(name, ", ", v.kind, ", ", v.policy), func(t *testing.T) {
				t.Parallel()
				p := &pair{scene: newScene(t, 2), kind: v.kind, more: "deletionPolicy: " + string(v.policy)}
				p.secret()
				for _, namespace := range p.targets {
					p.grant(namespace, "from: [{namespace: "+p.source+"}]")
				}
				first := p.rule("", "")
				p.expectReady(first)
				before := p.uids()
				last := tc.rename(p, first)
				p.expectGone(first)
				p.expectOwner(last)
				p.expectReady(last)
				p.expectCopies(tc.data)
				p.g.Expect(p.uids()).To(Equal(before), "a copy was deleted in between")

				p.update(p.source, "shared", func(o *corev1.Secret) { o.Data = map[string][]byte{"password": []byte("last")} })
				p.expectCopies(map[string][]byte{"password": []byte("last")})
			})
		}
	}
}

// expectReadyMessage waits until a rule is ready, and returns the message of its condition.
func (s *scene) expectReadyMessage(rule secretshare.Object) string {
	s.t.Helper()
	s.expectReady(rule)
	return s.ready(rule)().Message
}

func TestRulesThatMakeDifferentCopiesDoNotShareThem(t *testing.T) {
	for name, more := range map[string]string{
		"other keys":        "keys: [{from: password, to: pass}]",
		"other labels":      "copyLabels: [team]",
		"other annotations": "copyAnnotations: [note]",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &pair{scene: newScene(t, 1), kind: v1alpha1.KindClusterSecretShare}
			p.secret()
			first := p.rule("", "")
			p.expectReady(first)
			second := p.rule("-2", more)
			p.g.Expect(p.expectNotReady(second, v1alpha1.ReasonConflict)).To(ContainSubstring("is already a copy of " + ruleName(p.kind, first)))
			p.remove(first)
			p.expectReady(second)
			p.expectOwner(second)
			p.remove(second)
		})
	}
}

// A rule for all namespaces and one of a namespace have different authors.
func TestAClusterSecretShareLosesNoCopyToASecretShare(t *testing.T) {
	p := &pair{scene: newScene(t, 1), kind: v1alpha1.KindClusterSecretShare}
	p.secret()
	p.grant(p.targets[0], "from: [{namespace: "+p.source+"}]")
	first := p.rule("", "")
	p.expectReady(first)
	tenant := &pair{scene: p.scene, kind: v1alpha1.KindSecretShare}
	second := tenant.rule("", "")
	p.expectNotReady(second, v1alpha1.ReasonConflict)
	p.update(p.source, "shared", func(o *corev1.Secret) { o.Data = map[string][]byte{"password": []byte("hunter3")} })
	p.expectCopies(map[string][]byte{"password": []byte("hunter3")})
	p.expectOwner(first)
	p.remove(first)
	p.remove(second)
}
