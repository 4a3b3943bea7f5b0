package jupyter_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// Permissions that the operator uses for the author of a Jupyter.
var (
	pods     = cluster.Rule("", "pods", "create")
	services = cluster.Rule("", "services", "create")
	claims   = cluster.Rule("", "persistentvolumeclaims", "create")
	growth   = cluster.Rule("", "persistentvolumeclaims", "patch")
	deletion = cluster.Rule("", "persistentvolumeclaims", "delete")
	ingress  = cluster.Rule("networking.k8s.io", "ingresses", "create")
)

// named is a right on one object alone.
func named(name string, rule rbacv1.PolicyRule) rbacv1.PolicyRule {
	rule.ResourceNames = []string{name}
	return rule
}

// author is a user who may write Jupyters in a namespace, and what else the rules say.
func author(t *testing.T, c *cluster.Cluster, namespace string, rules ...rbacv1.PolicyRule) client.Client {
	t.Helper()
	user, err := cluster.ClientFor(c.User(t, namespace, append(rules, cluster.Rule("bongsu.io", "jupyters", "get", "create", "update", "patch"))...))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return user
}

func forbidden(text string) gomegatypes.GomegaMatcher {
	return And(MatchError(ContainSubstring(text)), WithTransform(apierrors.IsForbidden, BeTrue()))
}

// everything asks for each thing that takes a right.
const everything = `
serviceAccountName: trainer
storage: {size: 1Gi, retentionPolicy: {whenDeleted: Delete}}
access: {type: Ingress, host: lab.example.org, tlsSecretName: certificate}
auth: {tokenSecretRef: {name: password}}
`

func TestAJupyterNeedsThePermissionsThatItMakesTheOperatorUse(t *testing.T) {
	c := cluster.Shared(t)
	namespace := c.Namespace(t, nil)
	account := named("trainer", cluster.Rule("", "serviceaccounts/token", "create"))
	certificate, password := named("certificate", cluster.Rule("", "secrets", "get")), named("password", cluster.Rule("", "secrets", "get"))
	all := map[string]rbacv1.PolicyRule{
		"pods": pods, "services": services, "claims": claims, "growth": growth, "deletion": deletion, "ingress": ingress,
		"certificate": certificate, "password": password, "account": account,
	}
	allowed := author(t, c, namespace, pods, services, claims, growth, deletion, ingress, certificate, password, account)
	create := func(user client.Client, spec string) error {
		return user.Create(t.Context(), cluster.Manifest(t, "Jupyter", namespace, "lab", spec), client.DryRunAll)
	}
	g := NewWithT(t)
	g.Expect(create(allowed, everything)).To(Succeed())

	for lacking, tc := range map[string]struct{ with, without, want string }{
		"pods":        {`{}`, "", "you must be allowed to create pods in namespace " + namespace + " to create or change a Jupyter"},
		"services":    {`{}`, "", "you must be allowed to create services in namespace " + namespace + " to create or change a Jupyter"},
		"claims":      {`storage: {size: 1Gi}`, `storage: {existingClaim: mine}`, "spec.storage.size: you must be allowed to create persistentvolumeclaims in namespace " + namespace + " to create the claim, or name one in spec.storage.existingClaim"},
		"growth":      {`storage: {size: 1Gi}`, `storage: {existingClaim: mine}`, "spec.storage.size: you must be allowed to patch persistentvolumeclaims in namespace " + namespace + " to set this size, or name a claim in spec.storage.existingClaim"},
		"deletion":    {`storage: {size: 1Gi, retentionPolicy: {whenDeleted: Delete}}`, `storage: {size: 1Gi, retentionPolicy: {whenDeleted: Retain}}`, "spec.storage.retentionPolicy: you must be allowed to delete persistentvolumeclaims in namespace " + namespace + " to delete the claim, or remove whenDeleted: Delete"},
		"ingress":     {`access: {type: Ingress, host: a.b}`, `access: {type: None}`, "spec.access.type: you must be allowed to create ingresses.networking.k8s.io in namespace " + namespace + " to create the Ingress, or remove spec.access"},
		"certificate": {`access: {type: Ingress, host: a.b, tlsSecretName: certificate}`, `access: {type: Ingress, host: a.b}`, "spec.access.tlsSecretName: you must be allowed to get Secret " + namespace + "/certificate to use it in a Jupyter"},
		"password":    {`auth: {tokenSecretRef: {name: password}}`, `auth: {}`, "spec.auth.tokenSecretRef: you must be allowed to get Secret " + namespace + "/password to use it in a Jupyter, or remove this field to use a random token"},
		"account":     {`serviceAccountName: trainer`, `serviceAccountName: default`, "spec.serviceAccountName: you must be allowed to create tokens (serviceaccounts/token) for service account " + namespace + "/trainer to use it"},
	} {
		t.Run("without the right to "+lacking, func(t *testing.T) {
			g := NewWithT(t)
			var rules []rbacv1.PolicyRule
			for name, rule := range all {
				if name != lacking {
					rules = append(rules, rule)
				}
			}
			user := author(t, c, namespace, rules...)
			g.Expect(create(user, tc.with)).To(forbidden(tc.want))
			g.Expect(create(user, everything)).To(forbidden(tc.want))
			g.Expect(create(allowed, tc.with)).To(Succeed())
			if tc.without != "" {
				g.Expect(create(user, tc.without)).To(Succeed())
			}
		})
	}
}

func TestPermissionsInOtherNamespacesOrOnOtherObjectsDoNotCount(t *testing.T) {
	c := cluster.Shared(t)
	g := NewWithT(t)
	here, there := c.Namespace(t, nil), c.Namespace(t, nil)
	manage := cluster.Rule("bongsu.io", "jupyters", "create")
	user, err := cluster.ClientFor(c.User(t, "", manage)) // in both namespaces
	g.Expect(err).NotTo(HaveOccurred())
	manifest := func(namespace, spec string) client.Object {
		return cluster.Manifest(t, "Jupyter", namespace, "lab", spec)
	}
	g.Expect(user.Create(t.Context(), manifest(there, "{}"))).To(forbidden("you must be allowed to create pods in namespace " + there))

	reader := author(t, c, here, pods, services, named("mine", cluster.Rule("", "secrets", "get")),
		named("mine", cluster.Rule("", "serviceaccounts/token", "create")), cluster.Rule("", "serviceaccounts", "get", "list", "impersonate"))
	for _, spec := range []string{
		`auth: {tokenSecretRef: {name: theirs}}`, `serviceAccountName: theirs`,
	} {
		g.Expect(reader.Create(t.Context(), manifest(here, spec))).To(forbidden("theirs"), spec)
	}
	for _, spec := range []string{
		`auth: {tokenSecretRef: {name: mine}}`, `serviceAccountName: mine`,
		// A user who may create pods can use any Secret in one.
		`template: {spec: {imagePullSecrets: [{name: theirs}], containers: [{name: notebook, envFrom: [{secretRef: {name: theirs}}]}]}}`,
	} {
		g.Expect(reader.Create(t.Context(), manifest(here, spec), client.DryRunAll)).To(Succeed(), spec)
	}
}

func TestOnlyAGrowingSizeNeedsTheRightToPatchClaims(t *testing.T) {
	c := cluster.Shared(t)
	namespace := c.Namespace(t, nil)
	user := author(t, c, namespace, pods, services, claims)
	j := cluster.Manifest(t, "Jupyter", namespace, "lab", `storage: {size: 1Gi}`)
	NewWithT(t).Expect(c.Client.Create(t.Context(), j)).To(Succeed())
	for name, tc := range map[string]struct {
		spec    string
		allowed bool
	}{
		"more":                     {`{"storage":{"size":"1025Mi"}}`, false},
		"more, in plain bytes":     {`{"storage":{"size":1073741825}}`, false},
		"the same, said otherwise": {`{"storage":{"size":"1024Mi"}}`, true},
		"something else":           {`{"image":"a"}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			want := forbidden("you must be allowed to patch persistentvolumeclaims")
			if tc.allowed {
				want = Succeed()
			}
			patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":`+tc.spec+`}`))
			NewWithT(t).Expect(user.Patch(t.Context(), j.DeepCopyObject().(client.Object), patch, client.DryRunAll)).To(want)
		})
	}
}

func TestOnlyStoppingNeedsNoRight(t *testing.T) {
	c := cluster.Shared(t)
	namespace := c.Namespace(t, nil)
	weak, strong := author(t, c, namespace), author(t, c, namespace, pods, services)
	const spec = `
image: a
template: {spec: {nodeSelector: {a: b}}}
culling: {idleTimeoutSeconds: 600}
`
	for name, tc := range map[string]struct {
		from, patch string
		allowed     bool
	}{
		"stopped":                             {"false", `{"spec":{"suspend":true}}`, true},
		"stopped, with the time":              {"false", `{"metadata":{"annotations":{"bongsu.io/culled-at":"x"}},"spec":{"suspend":true}}`, true},
		"started":                             {"true", `{"spec":{"suspend":false}}`, false},
		"started by leaving it out":           {"true", `{"spec":{"suspend":null}}`, false},
		"labelled":                            {"false", `{"metadata":{"labels":{"a":"b"}}}`, true},
		"an image while stopped":              {"true", `{"spec":{"image":"b"}}`, false},
		"an image as it is stopped":           {"false", `{"spec":{"suspend":true,"image":"b"}}`, false},
		"no image as it is stopped":           {"false", `{"spec":{"suspend":true,"image":null}}`, false},
		"storage as it is stopped":            {"false", `{"spec":{"suspend":true,"storage":{"existingClaim":"theirs"}}}`, false},
		"no culling as it is stopped":         {"false", `{"spec":{"suspend":true,"culling":null}}`, false},
		"another template as it is stopped":   {"false", `{"spec":{"suspend":true,"template":{"spec":{"nodeSelector":{"a":"c"}}}}}`, false},
		"a service account as it is stopped":  {"false", `{"spec":{"suspend":true,"serviceAccountName":"admin"}}`, false},
		"an update strategy as it is stopped": {"false", `{"spec":{"suspend":true,"updateStrategy":{"type":"Recreate"}}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			j := cluster.Manifest(t, "Jupyter", namespace, "lab", "suspend: "+tc.from+spec)
			g.Expect(c.Client.Create(t.Context(), j)).To(Succeed())
			t.Cleanup(func() { _ = c.Client.Delete(context.Background(), j) })
			patch := client.RawPatch(types.MergePatchType, []byte(tc.patch))
			want := forbidden("you must be allowed to create pods")
			if tc.allowed {
				want = Succeed()
			}
			g.Expect(weak.Patch(t.Context(), j.DeepCopy(), patch, client.DryRunAll)).To(want)
			g.Expect(strong.Patch(t.Context(), j.DeepCopy(), patch, client.DryRunAll)).To(Or(Succeed(), forbidden("serviceaccounts/token")))
		})
	}
}

// Culling sets spec.suspend, as the operator: it may not create pods, and cannot be
// made to start a notebook.
func TestTheOperatorMayStopANotebookAndNotStartIt(t *testing.T) {
	c := cluster.Shared(t)
	g := NewWithT(t)
	namespace := c.Namespace(t, nil)
	operator, err := cluster.ClientFor(c.OperatorConfig(t))
	g.Expect(err).NotTo(HaveOccurred())
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "culling"}
	g.Expect(c.Client.Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{cluster.Rule("bongsu.io", "jupyters", "patch")}})).To(Succeed())
	g.Expect(c.Client.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "bongsu-system", Name: "bongsu"}},
	})).To(Succeed())
	j := cluster.Manifest(t, "Jupyter", namespace, "lab", everything)
	g.Expect(c.Client.Create(t.Context(), j)).To(Succeed())

	patch := func(suspend string) error {
		return operator.Patch(t.Context(), j.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":`+suspend+`}}`)))
	}
	g.Eventually(func() error { return patch("true") }).Should(Succeed())
	g.Expect(patch("false")).To(Or(forbidden("you must be allowed to create pods"), forbidden("only stops notebooks"))) // of two policies
}
