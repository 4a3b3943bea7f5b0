package install_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/config"
	"github.com/bongsu-io/bongsu/internal/cli/install"
	"github.com/bongsu-io/bongsu/internal/operator/options"
	"github.com/bongsu-io/bongsu/internal/testing/audit"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/size"
)

// With namespaces for shared Secrets, the operator has no permission for Secrets elsewhere, and asks
// for none. A namespace that was deleted, together with the permission, does not stop the others.
func TestSharedSecretsStayInTheNamespacesOfTheInstallation(t *testing.T) {
	size.NotInTest(t, "it installs in a cluster of its own, as two other tests do")
	t.Parallel()
	g := NewWithT(t)
	c := cluster.StartBare(t)
	for _, name := range []string{"vault", "shop", "lost", "other"} {
		g.Expect(c.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	}
	installer, err := install.New(c.RESTConfig(), func(string) {})
	g.Expect(err).NotTo(HaveOccurred())
	apply := func(namespaces string) {
		objects := render(t, "controllers={secretshare}", "secretShare.namespaces="+namespaces)
		g.Expect(installer.Apply(t.Context(), objects)).To(Succeed())
		g.Expect(installer.Prune(t.Context(), namespace, objects)).To(Succeed())
	}
	bindings := func() (in []string) {
		var all rbacv1.RoleBindingList
		g.Expect(c.Client.List(t.Context(), &all)).To(Succeed())
		for _, b := range all.Items {
			if b.RoleRef.Name == config.ShareSecretsRole {
				in = append(in, b.Namespace)
			}
		}
		return in
	}
	apply("{vault,shop,lost,other}")
	g.Expect(bindings()).To(ConsistOf("vault", "shop", "lost", "other"))
	apply("{vault,shop,lost}")
	g.Expect(bindings()).To(ConsistOf("vault", "shop", "lost"))
	lost := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "lost", Name: config.ShareSecretsRole}}
	g.Expect(c.Client.Delete(t.Context(), lost)).To(Succeed())

	operator := c.StartOperator(t, func(o *options.Options) {
		o.Controllers, o.ShareNamespaces = []string{"secretshare"}, []string{"vault", "shop", "lost"}
	})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "vault", Name: "ca"}, StringData: map[string]string{"a": "b"}}
	g.Expect(c.Client.Create(t.Context(), secret)).To(Succeed())
	create := func(name, spec string) *v1alpha1.ClusterSecretShare {
		o := cluster.Manifest(t, v1alpha1.KindClusterSecretShare, "", name, spec)
		g.Expect(c.Client.Create(t.Context(), o)).To(Succeed())
		return &v1alpha1.ClusterSecretShare{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	ready := func(rule *v1alpha1.ClusterSecretShare) func() *metav1.Condition {
		return func() *metav1.Condition {
			g.Expect(c.Client.Get(context.Background(), client.ObjectKeyFromObject(rule), rule)).To(Succeed())
			return meta.FindStatusCondition(rule.Status.Conditions, v1alpha1.ConditionReady)
		}
	}
	copied := func(namespace string) func() error {
		return func() error {
			return c.Client.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: "ca"}, &corev1.Secret{})
		}
	}
	rule := create("everywhere", "{source: {namespace: vault, names: [ca]}, targets: {exclude: [lost]}}")
	g.Eventually(copied("shop")).WithTimeout(timeout).Should(Succeed())
	g.Eventually(ready(rule)).WithTimeout(timeout).Should(HaveField("Status", metav1.ConditionTrue))
	for _, elsewhere := range []string{"other", "default", "lost"} {
		g.Expect(copied(elsewhere)()).To(MatchError(apierrors.IsNotFound, "IsNotFound"), elsewhere)
	}
	g.Eventually(ready(create("named", "{source: {namespace: vault, names: [ca]}, targets: {names: [other]}}"))).WithTimeout(timeout).
		Should(And(HaveField("Reason", v1alpha1.ReasonInvalidTarget), HaveField("Message", ContainSubstring("secretShare.namespaces"))))
	g.Eventually(ready(create("source", "{source: {namespace: other, names: [ca]}, targets: {}}"))).WithTimeout(timeout).
		Should(And(HaveField("Reason", v1alpha1.ReasonSourceUnreadable), HaveField("Message", ContainSubstring("secretShare.namespaces"))))

	// A copy that was changed and a deleted rule are noticed by the streams of the namespaces.
	edited := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "ca"}}
	g.Expect(c.Client.Patch(t.Context(), edited, client.RawPatch("application/merge-patch+json", []byte(`{"data":{"a":"Yw=="}}`)))).To(Succeed())
	g.Eventually(func() string {
		g.Expect(c.Client.Get(context.Background(), client.ObjectKeyFromObject(edited), edited)).To(Succeed())
		return string(edited.Data["a"])
	}).WithTimeout(timeout).Should(Equal("b"))
	g.Expect(c.Client.Delete(t.Context(), rule)).To(Succeed())
	g.Eventually(copied("shop")).WithTimeout(timeout).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
	g.Eventually(func() error {
		return c.Client.Get(context.Background(), client.ObjectKeyFromObject(rule), rule)
	}).WithTimeout(timeout).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))

	g.Expect(operator.Stop()).To(Succeed())
	requests := audit.Requests(t, c.AuditLog(), "system:serviceaccount:"+namespace+":bongsu")
	g.Expect(requests).NotTo(BeEmpty())
	for _, r := range audit.Denied(requests) {
		if r.Namespace != "lost" {
			t.Errorf("the operator tried what it is not allowed to do: %+v", r)
		}
	}
}
