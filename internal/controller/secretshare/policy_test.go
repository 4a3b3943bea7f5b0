package secretshare_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/config"
	"github.com/bongsu-io/bongsu/internal/feature"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// maxNames is the maximum number of names in a source.
const maxNames = 16

// sharer returns the client of a user who can write shares, and has these rules in a
// namespace. The user can create Secrets in all namespaces.
func sharer(t *testing.T, c *cluster.Cluster, namespace string, rules ...rbacv1.PolicyRule) client.Client {
	t.Helper()
	g := NewWithT(t)
	manage := func(resource string) rbacv1.PolicyRule {
		return cluster.Rule("bongsu.io", resource, "create", "update", "patch")
	}
	user, err := cluster.ClientFor(c.User(t, namespace, append(rules, manage("secretshares"), manage("secretsharegrants"))...))
	g.Expect(err).NotTo(HaveOccurred())
	self := &authenticationv1.SelfSubjectReview{}
	g.Expect(user.Create(t.Context(), self)).To(Succeed())

	name := metav1.ObjectMeta{Name: "share-" + self.Status.UserInfo.Username}
	g.Expect(c.Client.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{
		manage("clustersecretshares"), cluster.Rule("", "secrets", "create"),
	}})).To(Succeed())
	g.Expect(c.Client.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: self.Status.UserInfo.Username}},
	})).To(Succeed())
	probe := cluster.Manifest(t, "ClusterSecretShare", "", "probe", "targets: {}")
	g.Eventually(func() error { return user.Create(t.Context(), probe.DeepCopy(), client.DryRunAll) }).
		Should(MatchError(apierrors.IsInvalid, "IsInvalid"), "the API server does not know the user's permissions yet")
	return user
}

// granter returns the client of a user who can write grants in a namespace, and has these
// rules there.
func granter(t *testing.T, c *cluster.Cluster, namespace string, rules ...rbacv1.PolicyRule) client.Client {
	t.Helper()
	user, err := cluster.ClientFor(c.User(t, namespace, append(rules, cluster.Rule("bongsu.io", "secretsharegrants", "create", "update", "patch"))...))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return user
}

// mayGet allows to get all Secrets, or only those with these names.
func mayGet(names ...string) rbacv1.PolicyRule {
	rule := cluster.Rule("", "secrets", "get")
	rule.ResourceNames = names
	return rule
}

// shareIn returns a share of either kind for Secrets of a namespace.
func shareIn(t *testing.T, kind, namespace, source string) *unstructured.Unstructured {
	t.Helper()
	if kind == "SecretShare" {
		return cluster.Manifest(t, kind, namespace, "mine", "source: {"+source+"}\ntargets: {}")
	}
	return cluster.Manifest(t, kind, "", namespace, "source: {namespace: "+namespace+", "+source+"}\ntargets: {names: [nowhere]}")
}

// bothKinds runs a test for each kind of share.
func bothKinds(t *testing.T, test func(t *testing.T, kind string)) {
	t.Helper()
	for _, kind := range []string{"SecretShare", "ClusterSecretShare"} {
		t.Run(kind, func(t *testing.T) { test(t, kind) })
	}
}

func forbidden(text string) gomegatypes.GomegaMatcher {
	return And(MatchError(ContainSubstring(text)), WithTransform(apierrors.IsForbidden, BeTrue()))
}

// A share reads Secrets on behalf of its author.
func TestAUserWhoCannotGetASecretCannotShareIt(t *testing.T) {
	c := cluster.Shared(t)
	namespace, elsewhere := c.Namespace(t, nil), c.Namespace(t, nil)
	names := make([]string, maxNames)
	for i := range names {
		names[i] = fmt.Sprintf("mine-%d", i)
	}
	some := sharer(t, c, namespace, mayGet(names...))
	all := sharer(t, c, namespace, mayGet())
	lister := sharer(t, c, namespace, cluster.Rule("", "secrets", "list", "watch", "create", "update", "delete"))
	stranger := sharer(t, c, elsewhere, mayGet())

	bothKinds(t, func(t *testing.T, kind string) {
		g := NewWithT(t)
		try := func(user client.Client, source string) error {
			return user.Create(t.Context(), shareIn(t, kind, namespace, source), client.DryRunAll)
		}
		named := func(names ...string) string { return "names: [" + strings.Join(names, ", ") + "]" }
		for i := range names {
			attempt := append([]string(nil), names...)
			attempt[i] = "theirs"
			g.Expect(try(some, named(attempt...))).To(forbidden(
				fmt.Sprintf("spec.source.names[%d]: you must be allowed to get Secret %s/theirs to share it", i, namespace)))
		}
		g.Expect(try(some, named(names...))).To(Succeed())
		g.Expect(try(some, named(names[0])+", type: Opaque")).To(Succeed())
		g.Expect(try(lister, named(names[0]))).To(forbidden("spec.source.names[0]: you must be allowed to get Secret"))

		ofAll := "spec.source: you must be allowed to get all Secrets of namespace " + namespace + " to share them by type or selector, or list their names"
		for _, source := range []string{
			"type: Opaque", "selector: {matchLabels: {a: b}}", "selector: {matchExpressions: [{key: a, operator: Exists}]}",
			"type: Opaque, names: []",
		} {
			g.Expect(try(some, source)).To(forbidden(ofAll), source)
			g.Expect(try(lister, source)).To(forbidden(ofAll), source)
			g.Expect(try(all, source)).To(Succeed(), source)
		}
		g.Expect(try(all, named("theirs"))).To(Succeed())
	})
	// Permissions in another namespace than that of the source do not help.
	g := NewWithT(t)
	g.Expect(stranger.Create(t.Context(), shareIn(t, "ClusterSecretShare", namespace, "names: [a]"))).
		To(forbidden("spec.source.names[0]: you must be allowed to get Secret " + namespace + "/a to share it"))
	g.Expect(stranger.Create(t.Context(), shareIn(t, "ClusterSecretShare", namespace, "type: a"))).
		To(forbidden("you must be allowed to get all Secrets of namespace " + namespace))
}

// A user who can write the share of another user must not make it share more.
func TestAUserWhoCannotGetItsSecretsCannotChangeAShare(t *testing.T) {
	c := cluster.Shared(t)
	namespace, elsewhere := c.Namespace(t, nil), c.Namespace(t, nil)
	strong := sharer(t, c, namespace, mayGet("a"))
	weak := sharer(t, c, namespace)
	bothKinds(t, func(t *testing.T, kind string) {
		g := NewWithT(t)
		patch := func(user client.Client, patch string, opts ...client.SubResourcePatchOption) error {
			o := shareIn(t, kind, namespace, "names: [a]")
			if opts != nil {
				return user.Status().Patch(t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(patch)), opts...)
			}
			return user.Patch(t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(patch)))
		}
		mine := shareIn(t, kind, namespace, "names: [a]")
		g.Expect(strong.Create(t.Context(), mine)).To(Succeed())
		t.Cleanup(func() { _ = c.Client.Delete(context.Background(), mine) })

		g.Expect(patch(strong, `{"spec":{"source":{"names":["a","b"]}}}`)).To(forbidden("spec.source.names[1]: you must be allowed to get Secret " + namespace + "/b"))
		g.Expect(patch(strong, `{"spec":{"source":{"names":null,"type":"b"}}}`)).To(forbidden("you must be allowed to get all Secrets of namespace " + namespace))
		g.Expect(patch(strong, `{"spec":{"targets":{"names":["others"]}}}`)).To(Succeed())
		g.Expect(patch(weak, `{"spec":{"targets":{"names":["mine"]}}}`)).To(forbidden("spec.source.names[0]: you must be allowed to get Secret " + namespace + "/a"))
		g.Expect(patch(weak, `{"spec":{"suspend":true}}`)).To(forbidden("spec.source.names[0]: you must be allowed to get Secret " + namespace + "/a"))
		if kind == "ClusterSecretShare" {
			g.Expect(patch(strong, `{"spec":{"source":{"namespace":"`+elsewhere+`"}}}`)).To(forbidden("spec.source.names[0]: you must be allowed to get Secret " + elsewhere + "/a"))
		}

		// Changes of metadata and status need no permission for Secrets.
		g.Expect(patch(weak, `{"metadata":{"labels":{"a":"b"}}}`)).To(Succeed())
		g.Expect(patch(c.Client, `{"status":{"sources":1}}`, &client.SubResourcePatchOptions{})).To(Succeed())
	})
}

// A grant allows others to create Secrets in its namespace.
func TestAUserWhoCannotCreateSecretsCannotCreateAGrant(t *testing.T) {
	c := cluster.Shared(t)
	namespace, elsewhere := c.Namespace(t, nil), c.Namespace(t, nil)
	g := NewWithT(t)
	want := "you must be allowed to create Secrets in namespace " + namespace + " to allow copies there"
	grant := cluster.Manifest(t, "SecretShareGrant", namespace, "mine", "from: [{namespace: "+elsewhere+"}]")
	weak := granter(t, c, namespace, cluster.Rule("", "secrets", "get", "list", "watch", "update", "patch", "delete"))
	strong := granter(t, c, namespace, cluster.Rule("", "secrets", "create"))
	g.Expect(weak.Create(t.Context(), grant.DeepCopy())).To(forbidden(want))
	g.Expect(strong.Create(t.Context(), grant.DeepCopy())).To(Succeed())

	patch := func(user client.Client, patch string) error {
		return user.Patch(t.Context(), grant.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(patch)))
	}
	g.Expect(patch(weak, `{"spec":{"from":[{"namespace":"anyone"}]}}`)).To(forbidden(want))
	g.Expect(patch(weak, `{"spec":{"to":[{"name":"*"}]}}`)).To(forbidden(want))
	g.Expect(patch(weak, `{"metadata":{"labels":{"a":"b"}}}`)).To(Succeed())
	g.Expect(patch(strong, `{"spec":{"to":[{"name":"a"}]}}`)).To(Succeed())
}

// A ClusterSecretShare writes Secrets to all namespaces without a grant.
func TestAUserWhoCannotCreateSecretsEverywhereCannotCreateAClusterSecretShare(t *testing.T) {
	c := cluster.Shared(t)
	g := NewWithT(t)
	namespace := c.Namespace(t, nil)
	share := cluster.Rule("bongsu.io", "clustersecretshares", "create", "update", "patch")
	allRules := map[string][]rbacv1.PolicyRule{
		"without the right to create Secrets": {share, mayGet(), cluster.Rule("", "secrets", "list", "watch", "update", "patch", "delete")},
		"only for a name":                     {share, mayGet(), {APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"a"}, Verbs: []string{"create"}}},
	}
	const want = "spec.targets: you must be allowed to create Secrets in all namespaces to create or change a ClusterSecretShare"
	mine := shareIn(t, "ClusterSecretShare", namespace, "names: [a]")
	for name, rules := range allRules {
		user, err := cluster.ClientFor(c.User(t, "", rules...))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(user.Create(t.Context(), mine.DeepCopy(), client.DryRunAll)).To(forbidden(want), name)
	}
	// The right in the namespaces of the targets is not enough: they can change.
	here, err := cluster.ClientFor(c.User(t, "", share, mayGet()))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(here.Create(t.Context(), mine.DeepCopy())).To(forbidden(want))

	user, err := cluster.ClientFor(c.User(t, "", share, mayGet(), cluster.Rule("", "secrets", "create")))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(user.Create(t.Context(), mine.DeepCopy())).To(Succeed())
	t.Cleanup(func() { _ = c.Client.Delete(context.Background(), mine) })
	patch := func(user client.Client, text string) error {
		return user.Patch(t.Context(), mine.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(text)))
	}
	g.Expect(patch(here, `{"spec":{"targets":{"names":null}}}`)).To(forbidden(want))
	g.Expect(patch(user, `{"spec":{"targets":{"names":null}}}`)).To(Succeed())
	g.Expect(patch(here, `{"metadata":{"labels":{"a":"b"}}}`)).To(Succeed())
}

// defaultSource creates the namespace of the default rule's Secrets. Only one test of a
// cluster may need that it does not exist yet.
func defaultSource(t *testing.T, c *cluster.Cluster) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "secretsync"}}
	NewWithT(t).Expect(client.IgnoreAlreadyExists(c.Client.Create(t.Context(), ns))).To(Succeed())
	return ns.Name
}

// The default rule exists before its namespace. The first user to create this namespace
// could otherwise put Secrets into all others.
func TestATenantCannotSquatTheDefaultSource(t *testing.T) {
	c := cluster.Shared(t)
	g := NewWithT(t)
	namespace := defaultSource(t, c)
	const want = "you must be allowed to create clustersecretshares.bongsu.io to write Secrets in namespace secretsync"
	everything := cluster.Rule("*", "*", "*")
	owner, err := cluster.ClientFor(c.User(t, namespace, everything))
	g.Expect(err).NotTo(HaveOccurred())
	// A controller that writes Secrets for tenants must not do it here for them either.
	writer, err := cluster.ClientFor(c.User(t, "", cluster.Rule("", "secrets", "get", "create", "update", "patch")))
	g.Expect(err).NotTo(HaveOccurred())
	admin, err := cluster.ClientFor(c.User(t, "", cluster.Rule("", "secrets", "get", "create", "update", "patch", "delete"),
		cluster.Rule("bongsu.io", "clustersecretshares", "create")))
	g.Expect(err).NotTo(HaveOccurred())

	secret := func(name string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Finalizers: []string{"example.com/hold"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: "owner"}},
		}, Data: map[string][]byte{"key": []byte("value")}}
	}
	ours := secret("ours")
	g.Expect(admin.Create(t.Context(), ours)).To(Succeed())
	t.Cleanup(func() {
		_ = c.Client.Patch(context.Background(), ours, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
		_ = c.Client.Delete(context.Background(), ours)
	})
	patch := func(user client.Client, text string) error {
		return user.Patch(t.Context(), secret("ours"), client.RawPatch("application/merge-patch+json", []byte(text)), client.DryRunAll)
	}
	changes := []string{
		`{"data":{"key":"eA=="}}`, `{"stringData":{"key":"x"}}`, `{"data":null}`, `{"immutable":true}`,
		`{"metadata":{"labels":{"a":"b"}}}`, `{"metadata":{"annotations":{"a":"b"}}}`,
		`{"metadata":{"finalizers":null},"data":{"other":"eA=="}}`,
	}
	for name, user := range map[string]client.Client{"the owner of the namespace": owner, "a controller": writer} {
		for _, kind := range []corev1.SecretType{"bongsu.io/secretsync", corev1.SecretTypeOpaque} {
			theirs := secret("theirs")
			theirs.Type = kind
			g.Expect(user.Create(t.Context(), theirs, client.DryRunAll)).To(forbidden(want), name)
		}
		for _, text := range changes {
			g.Expect(patch(user, text)).To(forbidden(want), "%s: %s", name, text)
		}
		// The garbage collector writes these. They change no copy.
		g.Expect(patch(user, `{"metadata":{"finalizers":null}}`)).To(Succeed(), name)
		g.Expect(patch(user, `{"metadata":{"ownerReferences":null}}`)).To(Succeed(), name)
	}
	for _, text := range changes {
		g.Expect(patch(admin, text)).To(Succeed(), text)
	}
	g.Expect(admin.Create(t.Context(), secret("theirs"), client.DryRunAll)).To(Succeed())

	// Other objects and other namespaces are not affected, whatever labels they have.
	g.Expect(owner.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "theirs"}}, client.DryRunAll)).To(Succeed())
	other := c.Namespace(t, nil)
	elsewhere := secret("theirs")
	elsewhere.Namespace = other
	g.Expect(writer.Create(t.Context(), elsewhere, client.DryRunAll)).To(Succeed())
	relabel, err := cluster.ClientFor(c.User(t, "", cluster.Rule("", "namespaces", "patch")))
	g.Expect(err).NotTo(HaveOccurred())
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	g.Expect(relabel.Patch(t.Context(), ns, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"kubernetes.io/metadata.name":"other"}}}`)))).To(Succeed())
	g.Expect(owner.Create(t.Context(), secret("theirs"), client.DryRunAll)).To(forbidden(want), "the namespace lost its label")

	// The operator would otherwise write copies there for the tenant, and release them.
	grant := cluster.Manifest(t, "SecretShareGrant", namespace, "theirs", "from: [{namespace: "+other+"}]")
	g.Expect(owner.Create(t.Context(), grant.DeepCopy(), client.DryRunAll)).
		To(forbidden("you must be allowed to create clustersecretshares.bongsu.io to allow copies in namespace secretsync"))
	g.Expect(c.Client.Create(t.Context(), grant.DeepCopy(), client.DryRunAll)).To(Succeed())
}

func TestSecretsOfTheDefaultSourceAreDeletedWithTheirNamespaceAndOwners(t *testing.T) {
	c := cluster.Shared(t)
	g := NewWithT(t)
	namespace := defaultSource(t, c)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "of-an-owner"}}
	g.Expect(c.Client.Create(t.Context(), secret)).To(Succeed())
	t.Cleanup(func() { _ = c.Client.Delete(context.Background(), secret) })
	remove := func(config *rest.Config) error {
		user, err := cluster.ClientFor(config)
		g.Expect(err).NotTo(HaveOccurred())
		return user.Delete(t.Context(), secret.DeepCopy(), client.DryRunAll)
	}
	for _, name := range []string{"namespace-controller", "generic-garbage-collector"} {
		config := rest.CopyConfig(c.RESTConfig())
		config.Impersonate.UserName = "system:serviceaccount:kube-system:" + name
		g.Eventually(func() error { return remove(config) }).Should(Succeed(), name)
	}
	g.Expect(remove(c.User(t, namespace, cluster.Rule("", "secrets", "delete")))).
		To(forbidden("you must be allowed to create clustersecretshares.bongsu.io"))
	g.Expect(remove(c.User(t, "", cluster.Rule("", "secrets", "delete"), cluster.Rule("bongsu.io", "clustersecretshares", "create")))).To(Succeed())
}

// A policy has one check for each name. No check would apply to an additional name.
func TestThePoliciesCheckEveryNameOfASource(t *testing.T) {
	objects, err := config.Objects(feature.All())
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	found := map[string]*unstructured.Unstructured{}
	for _, o := range objects {
		found[o.GetKind()+"/"+o.GetName()] = o
	}
	for _, plural := range []string{"secretshares", "clustersecretshares"} {
		crd, policy := found["CustomResourceDefinition/"+plural+".bongsu.io"], found["ValidatingAdmissionPolicy/"+plural+".bongsu.io"]
		g.Expect(crd).NotTo(BeNil(), plural)
		g.Expect(policy).NotTo(BeNil(), plural)
		versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
		g.Expect(err).NotTo(HaveOccurred())
		for _, version := range versions {
			limit, _, err := unstructured.NestedFieldNoCopy(version.(map[string]any),
				"schema", "openAPIV3Schema", "properties", "spec", "properties", "source", "properties", "names", "maxItems")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(limit).To(BeNumerically("==", maxNames), plural)
		}
		g.Expect(checks(t, policy)).To(HaveLen(maxNames), plural)
	}
}

// checks returns the expressions of a policy that check a name. Each must check the next
// name.
func checks(t *testing.T, policy *unstructured.Unstructured) []string {
	t.Helper()
	g := NewWithT(t)
	validations, _, err := unstructured.NestedSlice(policy.Object, "spec", "validations")
	g.Expect(err).NotTo(HaveOccurred())
	var found []string
	for _, validation := range validations {
		expression, _ := validation.(map[string]any)["expression"].(string)
		if strings.Contains(expression, "variables.secrets.name(") {
			i := len(found)
			g.Expect(expression).To(Equal(fmt.Sprintf("variables.names.size() <= %d || variables.secrets.name(variables.names[%d]).check('get').allowed()", i, i)))
			found = append(found, expression)
		}
	}
	return found
}
