// Package bindings finds the permissions that a service account was given, by its bindings. It
// finds them by subject: a name or a label does not show to whom a binding grants a role.
package bindings

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Binding is a ClusterRoleBinding or a RoleBinding.
type Binding struct {
	// Object has its kind set.
	Object client.Object
	Role   rbacv1.RoleRef
	// Account are the subjects that are the account itself, as a ServiceAccount or a User.
	Account []rbacv1.Subject
	// Others are all other subjects. One of them can be the group of the namespace's accounts.
	Others []rbacv1.Subject
}

// Of returns the bindings whose subjects include the service account, or the group of all
// accounts of its namespace. Groups of all namespaces are ignored: Kubernetes itself binds them.
// The client must have the types of rbac.authorization.k8s.io/v1.
func Of(ctx context.Context, c client.Reader, namespace, account string) ([]Binding, error) {
	var ofCluster rbacv1.ClusterRoleBindingList
	if err := c.List(ctx, &ofCluster); err != nil {
		return nil, fmt.Errorf("list ClusterRoleBindings: %w", err)
	}
	var ofNamespaces rbacv1.RoleBindingList
	if err := c.List(ctx, &ofNamespaces); err != nil {
		return nil, fmt.Errorf("list RoleBindings: %w", err)
	}
	var found []Binding
	add := func(o client.Object, role rbacv1.RoleRef, subjects []rbacv1.Subject) {
		b := Binding{Object: o, Role: role}
		granted := false
		for _, s := range subjects {
			if isAccount(s, o.GetNamespace(), namespace, account) {
				b.Account, granted = append(b.Account, s), true
				continue
			}
			granted = granted || isGroup(s, namespace)
			b.Others = append(b.Others, s)
		}
		if granted {
			found = append(found, b)
		}
	}
	for i := range ofCluster.Items {
		b := &ofCluster.Items[i]
		b.SetGroupVersionKind(kind("ClusterRoleBinding"))
		add(b, b.RoleRef, b.Subjects)
	}
	for i := range ofNamespaces.Items {
		b := &ofNamespaces.Items[i]
		b.SetGroupVersionKind(kind("RoleBinding"))
		add(b, b.RoleRef, b.Subjects)
	}
	return found, nil
}

func kind(name string) schema.GroupVersionKind { return rbacv1.SchemeGroupVersion.WithKind(name) }

// isAccount reports whether a subject of a binding is the account. A RoleBinding can omit the
// namespace of an account if both are in the same one.
func isAccount(s rbacv1.Subject, bindingNamespace, namespace, account string) bool {
	switch s.Kind {
	case rbacv1.ServiceAccountKind:
		in := s.Namespace
		if in == "" {
			in = bindingNamespace
		}
		return in == namespace && s.Name == account
	case rbacv1.UserKind:
		return s.Name == "system:serviceaccount:"+namespace+":"+account
	}
	return false
}

func isGroup(s rbacv1.Subject, namespace string) bool {
	return s.Kind == rbacv1.GroupKind && s.Name == "system:serviceaccounts:"+namespace
}

// Rules returns the rules of the role that a binding grants. It returns none if the role does not
// exist.
func (b Binding) Rules(ctx context.Context, c client.Reader) ([]rbacv1.PolicyRule, error) {
	key := client.ObjectKey{Name: b.Role.Name}
	if b.Role.Kind == "ClusterRole" {
		var role rbacv1.ClusterRole
		err := c.Get(ctx, key, &role)
		return role.Rules, client.IgnoreNotFound(err)
	}
	key.Namespace = b.Object.GetNamespace()
	var role rbacv1.Role
	err := c.Get(ctx, key, &role)
	return role.Rules, client.IgnoreNotFound(err)
}
