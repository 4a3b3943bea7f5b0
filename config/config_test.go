package config_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/config"
	"github.com/bongsu-io/bongsu/internal/feature"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

// The guides say that users need only the role edit in their namespace.
func TestTheRolesEditAndViewIncludeAllNamespacedKinds(t *testing.T) {
	objects, err := config.Objects(feature.All())
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	roles := map[string]*rbacv1.ClusterRole{}
	for _, o := range objects {
		if scope, _, _ := unstructured.NestedString(o.Object, "spec", "scope"); scope == "Namespaced" {
			plural, _, _ := unstructured.NestedString(o.Object, "spec", "names", "plural")
			want = append(want, plural)
			if isScaled(o) {
				want = append(want, plural+"/scale")
			}
		}
		if o.GetKind() == "ClusterRole" {
			role := &rbacv1.ClusterRole{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, role); err != nil {
				t.Fatal(err)
			}
			roles[role.Name] = role
		}
	}
	slices.Sort(want)
	for name, aggregated := range map[string]string{"bongsu-edit": "edit", "bongsu-view": "view"} {
		role := roles[name]
		if role == nil || role.Labels["rbac.authorization.k8s.io/aggregate-to-"+aggregated] != "true" {
			t.Errorf("ClusterRole %s does not exist, or is not aggregated to %s", name, aggregated)
			continue
		}
		var got []string
		for _, rule := range role.Rules {
			got = append(got, rule.Resources...)
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("namespaced kinds (-) and kinds of %s (+):\n%s", name, diff)
		}
	}
}

// `bongsu uninstall` finds the objects of an installation by their labels, also if they were
// applied with kubectl.
func TestAllManifestsHaveTheLabelsOfAnInstallation(t *testing.T) {
	objects, err := config.Objects(feature.All())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if labels := o.GetLabels(); labels["app.kubernetes.io/name"] != "bongsu" || labels["app.kubernetes.io/part-of"] != "bongsu" {
			t.Errorf("%s %s has the labels %v", o.GetKind(), o.GetName(), labels)
		}
	}
}

// Argo CD would delete all objects of the kinds together with the CRDs.
func TestArgoCDDoesNotDeleteTheCRDs(t *testing.T) {
	objects, err := config.Objects(feature.All())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		got := o.GetAnnotations()["argocd.argoproj.io/sync-options"]
		if o.GetKind() == "CustomResourceDefinition" && got != "Prune=false,Delete=false" {
			t.Errorf("%s has the sync options %q", o.GetName(), got)
		}
	}
}

// isScaled reports whether a kind has the subresource scale.
func isScaled(crd *unstructured.Unstructured) bool {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	return slices.ContainsFunc(versions, func(v any) bool {
		_, found, _ := unstructured.NestedMap(v.(map[string]any), "subresources", "scale")
		return found
	})
}

var (
	reading = []string{"get", "list", "watch"}
	writing = []string{"create", "update", "patch", "delete", "deletecollection"}
)

// Cluster-scoped kinds affect all namespaces, so that the built-in roles must not include
// them, even if a ClusterRoleBinding grants the role everywhere.
func TestBuiltInRolesIncludeOurNamespacedKindsOnly(t *testing.T) {
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
		// The rules of each of our roles are added at another time.
		g.Eventually(func() bool {
			return !slices.ContainsFunc(verbs, func(verb string) bool {
				return !may(here, namespace, "jupyters", verb) || !may(everywhere, namespace, "jupyters", verb)
			})
		}).WithTimeout(3*time.Minute).Should(BeTrue(), "the roles are aggregated, and both bindings in force")
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

// expectRefused creates an object as a user, and expects a refusal.
func expectRefused(g *WithT, c *cluster.Cluster, user string, o client.Object) {
	config, err := c.ClientConfigFor(user)
	g.Expect(err).NotTo(HaveOccurred())
	cl, err := cluster.ClientFor(config)
	g.Expect(err).NotTo(HaveOccurred())
	err = cl.Create(context.Background(), o)
	g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", user, err)
}

// bind grants a built-in role to a new user, in a namespace or, if it is empty, everywhere.
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
