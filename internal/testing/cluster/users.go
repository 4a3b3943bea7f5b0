package cluster

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Namespace creates a namespace of the test's own, with labels if any are given.
func (c *Cluster) Namespace(t testing.TB, labels map[string]string) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-", Labels: labels}}
	if err := c.Client.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	return ns.Name
}

// Rule allows verbs on a resource of an API group.
func Rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

var users atomic.Int64

// User returns the configuration of a new user who may do what the rules say: in a
// namespace, or everywhere if that is empty.
func (c *Cluster) User(t testing.TB, namespace string, rules ...rbacv1.PolicyRule) *rest.Config {
	t.Helper()
	name := fmt.Sprintf("user-%d", users.Add(1))
	meta := metav1.ObjectMeta{Name: name, Namespace: namespace}
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}}
	var role, binding client.Object = &rbacv1.Role{ObjectMeta: meta, Rules: rules}, &rbacv1.RoleBinding{
		ObjectMeta: meta, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
	}
	if namespace == "" {
		role, binding = &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, &rbacv1.ClusterRoleBinding{
			ObjectMeta: meta, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		}
	}
	for _, o := range []client.Object{role, binding} {
		if err := c.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	c.awaitRights(t, name, namespace, rules)
	config, err := c.ClientConfigFor(name)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// awaitRights returns when the API server has heard of what a user may do.
func (c *Cluster) awaitRights(t testing.TB, user, namespace string, rules []rbacv1.PolicyRule) {
	t.Helper()
	for _, rule := range rules {
		for _, verb := range rule.Verbs {
			attributes := &authorizationv1.ResourceAttributes{
				Namespace: namespace, Verb: verb, Group: rule.APIGroups[0], Resource: rule.Resources[0],
			}
			if len(rule.ResourceNames) > 0 {
				attributes.Name = rule.ResourceNames[0]
			}
			if err := c.awaitAllowed(t.Context(), user, attributes); err != nil {
				t.Fatalf("%s is not allowed to %s %s: %v", user, verb, rule.Resources[0], err)
			}
		}
	}
}

func (c *Cluster) awaitAllowed(ctx context.Context, user string, attributes *authorizationv1.ResourceAttributes) error {
	return wait.PollUntilContextTimeout(ctx, polling, eventually, true, func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: attributes},
		}
		err := c.Client.Create(ctx, review)
		return review.Status.Allowed, err
	})
}
