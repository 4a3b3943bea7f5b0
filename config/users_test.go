package config_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

var (
	reading = []string{"get", "list", "watch"}
	writing = []string{"create", "update", "patch", "delete", "deletecollection"}
)

// The kinds of the cluster reach across namespaces: whoever was given a namespace, or all
// of them, by one of Kubernetes' own roles has no right to them.
func TestKubernetesOwnRolesHoldOurKindsOfANamespaceAndNoneOfTheCluster(t *testing.T) {
	c := cluster.Start(t, func(config *localcluster.Config) {
		config.Components = []localcluster.Component{localcluster.ControllerManager} // it aggregates roles
	})
	var crds apiextensionsv1.CustomResourceDefinitionList
	g := NewWithT(t)
	g.Expect(c.Client.List(t.Context(), &crds)).To(Succeed())
	namespace := c.Namespace(t, nil)
	for role, verbs := range map[string][]string{
		"view": reading, "edit": slices.Concat(reading, writing), "admin": slices.Concat(reading, writing),
	} {
		here, everywhere := bind(t, c, role, namespace), bind(t, c, role, "")
		may := func(user, namespace, resource, verb string) bool {
			return allowed(t, c, user, namespace, resource, verb)
		}
		g.Eventually(func() bool { return may(here, namespace, "jupyters", verbs[len(verbs)-1]) }).
			WithTimeout(time.Minute).Should(BeTrue(), "the roles are aggregated")
		expectRefused(g, c, everywhere, cluster.Manifest(t, "ClusterAlarm", "", "a", "{match: [{}], receivers: [{name: a}]}"))
		for i := range crds.Items {
			crd := &crds.Items[i]
			for _, verb := range slices.Concat(reading, writing) {
				resource := crd.Spec.Names.Plural
				want := crd.Spec.Scope == apiextensionsv1.NamespaceScoped && slices.Contains(verbs, verb)
				if may(here, namespace, resource, verb) != want || may(everywhere, namespace, resource, verb) != want {
					t.Errorf("%s may %s %s: want %t", role, verb, resource, want)
				}
				if may(here, "elsewhere", resource, verb) {
					t.Errorf("%s may %s %s in another namespace", role, verb, resource)
				}
			}
		}
	}
}

// expectRefused has a user try what reviews say is refused.
func expectRefused(g *WithT, c *cluster.Cluster, user string, o client.Object) {
	config, err := c.ClientConfigFor(user)
	g.Expect(err).NotTo(HaveOccurred())
	cl, err := cluster.ClientFor(config)
	g.Expect(err).NotTo(HaveOccurred())
	err = cl.Create(context.Background(), o)
	g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", user, err)
}

// bind gives a new user one of Kubernetes' roles: in a namespace, or everywhere if that is
// empty.
func bind(t *testing.T, c *cluster.Cluster, role, namespace string) (user string) {
	t.Helper()
	user = strings.Trim(role+"-"+namespace, "-")
	meta := metav1.ObjectMeta{Namespace: namespace, Name: user}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
	var binding client.Object = &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}
	if namespace == "" {
		binding = &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}
	}
	if err := c.Client.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	return user
}

func allowed(t *testing.T, c *cluster.Cluster, user, namespace, resource, verb string) bool {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Group: v1alpha1.Group, Resource: resource, Verb: verb,
		},
	}}
	if err := c.Client.Create(t.Context(), review); err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}
