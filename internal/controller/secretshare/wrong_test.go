package secretshare_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// The API server takes any selector of the right structure.
func TestASelectorThatCannotBeUsedIsNamedAndNothingIsWritten(t *testing.T) {
	for name, tc := range map[string]struct{ source, more, field string }{
		"of the source": {
			"names: [shared], selector: {matchExpressions: [{key: tier, operator: In}]}", "", "spec.source.selector: ",
		},
		"with an operator that there is not": {
			"names: [shared], selector: {matchExpressions: [{key: tier, operator: Like, values: [a]}]}", "", "spec.source.selector: ",
		},
		"with a key that is none": {"names: [shared], selector: {matchLabels: {'a b': c}}", "", "spec.source.selector: "},
		"of the targets": {
			"names: [shared]", "targets: {namespaceSelector: {matchExpressions: [{key: tier, operator: NotIn, values: []}]}}",
			"spec.targets.namespaceSelector: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, 1)
			s.secret(func(o *corev1.Secret) { o.Labels = map[string]string{"tier": "a"} })
			targets := tc.more
			if targets == "" {
				targets = s.selected()
			}
			spec := "source: {namespace: " + s.source + ", " + tc.source + "}\n" + targets
			rule := cluster.Manifest(t, "ClusterSecretShare", "", s.source, spec)
			s.g.Expect(s.Client.Create(t.Context(), rule)).To(Succeed())
			t.Cleanup(func() { _ = s.Client.Delete(context.Background(), rule) })

			typed := &v1alpha1.ClusterSecretShare{ObjectMeta: metav1.ObjectMeta{Name: s.source}}
			s.g.Expect(s.expectNotReady(typed, v1alpha1.ReasonInvalidSelector)).To(HavePrefix(tc.field))
			s.ExpectWarning(t, typed, v1alpha1.ReasonInvalidSelector, "clustersecretshare-controller")
			s.g.Consistently(s.data(s.targets[0], "shared"), "500ms").Should(BeNil())

			s.patch(rule, `{"spec":{"source":{"selector":null},"targets":{"namespaceSelector":{"matchExpressions":null,"matchLabels":{"`+team+`":"`+s.source+`"}}}}}`)
			s.expectReady(typed)
			s.expectCopies(hunter2)
		})
	}
}

func TestARuleWhoseSelectorBecomesWrongLeavesItsCopiesAsTheyAre(t *testing.T) {
	s := newScene(t, 2)
	s.secret()
	rule := s.share("")
	s.expectServed(rule, 2)
	s.patch(rule.DeepCopy(), `{"spec":{"targets":{"namespaceSelector":{"matchExpressions":[{"key":"tier","operator":"In"}]}}}}`)
	s.expectNotReady(rule, v1alpha1.ReasonInvalidSelector)
	s.g.Consistently(s.data(s.targets[0], "shared"), "500ms").Should(Equal(hunter2))
	s.g.Expect(s.Client.Delete(t.Context(), rule.DeepCopy())).To(Succeed())
	for _, namespace := range s.targets {
		s.expectNone(namespace, "shared")
	}
	s.g.Eventually(s.ready(rule)).Should(BeZero(), "a rule can be deleted though its selector is wrong")
}

func TestASourceNamespaceThatAppearsLaterIsServed(t *testing.T) {
	s := newScene(t, 2)
	targets := s.selected()
	s.source += "-later"
	spec := "source: {namespace: " + s.source + ", names: [shared]}\n" + targets
	rule := &v1alpha1.ClusterSecretShare{ObjectMeta: metav1.ObjectMeta{Name: s.source}}
	s.g.Expect(s.Client.Create(t.Context(), cluster.Manifest(t, "ClusterSecretShare", "", rule.Name, spec))).To(Succeed())
	t.Cleanup(func() { _ = s.Client.Delete(context.Background(), rule.DeepCopy()) })
	s.g.Expect(s.expectNotReady(rule, v1alpha1.ReasonSourceNotFound)).To(ContainSubstring("namespace " + s.source))
	s.ExpectWarning(t, rule, v1alpha1.ReasonSourceNotFound, "clustersecretshare-controller")

	s.g.Expect(s.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.source}})).To(Succeed())
	s.secret()
	s.expectCopies(hunter2)
	s.expectReady(rule)
}
