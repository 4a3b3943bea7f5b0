package cluster

import (
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bongsu-io/bongsu/config"
	"github.com/bongsu-io/bongsu/internal/operator/feature"
	"github.com/bongsu-io/bongsu/internal/operator/options"
	"github.com/bongsu-io/bongsu/internal/operator/permissions"
)

// StartOperatorFor starts an operator that is to do nothing but what was chosen, as a
// user of its own, whose name is returned: it has the roles of that and no others.
func (c *Cluster) StartOperatorFor(t testing.TB, chosen []feature.Feature, change ...func(*options.Options)) (o *Operator, user string) {
	t.Helper()
	account := "only-" + strings.Join(feature.Names(chosen), "-")
	c.grantRoles(t, account, chosen)
	user = "system:serviceaccount:bongsu-system:" + account
	c.awaitNeeded(t, user, chosen)
	choose := func(o *options.Options) { o.Controllers = feature.Names(chosen) }
	return c.startOperatorAs(t, account, nil, append(change, choose)...), user
}

// grantRoles binds the roles to a new service account, as the manifests bind them to the
// operator's own.
func (c *Cluster) grantRoles(t testing.TB, account string, chosen []feature.Feature) {
	t.Helper()
	objects, err := config.RBAC(chosen)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Client.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "bongsu-system", Name: account}}); err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if !strings.HasSuffix(o.GetKind(), "RoleBinding") { // or ClusterRoleBinding
			continue
		}
		o.SetName(account + "." + o.GetName())
		subject := map[string]any{"kind": "ServiceAccount", "namespace": "bongsu-system", "name": account}
		if err := unstructured.SetNestedSlice(o.Object, []any{subject}, "subjects"); err != nil {
			t.Fatal(err)
		}
		if err := c.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// awaitNeeded returns when the API server has heard of all that a user was granted.
func (c *Cluster) awaitNeeded(t testing.TB, user string, chosen []feature.Feature) {
	t.Helper()
	needed, err := permissions.Needed("bongsu-system", chosen)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range needed {
		err := c.awaitAllowed(t.Context(), user, &authorizationv1.ResourceAttributes{
			Namespace: r.Namespace, Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource,
		})
		if err != nil {
			t.Fatalf("%s may not %s %s: %v", user, r.Verb, r.Resource, err)
		}
	}
}
