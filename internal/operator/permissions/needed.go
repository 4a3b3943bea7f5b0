package permissions

import (
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bongsu-io/bongsu/config"
	"github.com/bongsu-io/bongsu/internal/feature"
)

// Permission is one verb on one resource.
type Permission struct {
	// Role is the role that must contain it, for example "ClusterRole bongsu".
	Role string
	// Namespace is the namespace in which it is needed. Empty means all.
	Namespace string

	Verb, Group, Resource, Subresource string
	// Name is the object for which it is needed. Empty means all.
	Name string
}

// Needed returns the permissions in the generated roles: those of every replica, and those
// of the chosen features. Permissions of a Role are needed in the operator's namespace,
// which can differ from the one in the manifests.
func Needed(namespace string, chosen []feature.Feature) ([]Permission, error) {
	manifests, err := config.RBAC(chosen)
	if err != nil {
		return nil, err
	}
	var permissions []Permission
	for _, role := range config.Roles(chosen) {
		held, err := permissionsIn(manifests, role, namespace)
		if err != nil {
			return nil, err
		}
		permissions = append(permissions, held...)
	}
	return permissions, nil
}

// OnlyIn replaces the permissions of a role in all namespaces by the same in some.
func OnlyIn(namespaces []string, role string, all []Permission) []Permission {
	var permissions []Permission
	for _, p := range all {
		if p.Role != "ClusterRole "+role {
			permissions = append(permissions, p)
			continue
		}
		for _, namespace := range namespaces {
			p.Namespace = namespace
			permissions = append(permissions, p)
		}
	}
	return permissions
}

// permissionsIn returns the permissions in the roles with this name.
func permissionsIn(manifests []*unstructured.Unstructured, name, namespace string) ([]Permission, error) {
	var permissions []Permission
	for _, o := range manifests {
		if o.GetName() != name {
			continue
		}
		like := Permission{Role: o.GetKind() + " " + o.GetName()}
		switch o.GetKind() {
		case "ClusterRole":
		case "Role":
			like.Namespace = namespace
		default:
			continue
		}
		role := &rbacv1.Role{} // a ClusterRole has the same rules
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, role); err != nil {
			return nil, fmt.Errorf("%s: %w", like.Role, err)
		}
		for _, rule := range role.Rules {
			if len(rule.NonResourceURLs) > 0 {
				return nil, fmt.Errorf("%s: nonResourceURLs cannot be checked", like.Role)
			}
			permissions = append(permissions, like.of(rule)...)
		}
	}
	if len(permissions) == 0 {
		return nil, fmt.Errorf("the manifests contain no role %s", name)
	}
	return permissions, nil
}

// of returns the permissions of a rule, in the role and the namespace of r.
func (r Permission) of(rule rbacv1.PolicyRule) []Permission {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var permissions []Permission
	for _, group := range rule.APIGroups {
		for _, path := range rule.Resources {
			for _, verb := range rule.Verbs {
				for _, name := range names {
					permission := r
					permission.Group, permission.Verb, permission.Name = group, verb, name
					permission.Resource, permission.Subresource, _ = strings.Cut(path, "/")
					permissions = append(permissions, permission)
				}
			}
		}
	}
	return permissions
}

// path returns the resource as in a role.
func (r Permission) path() string {
	if r.Subresource == "" {
		return r.Resource
	}
	return r.Resource + "/" + r.Subresource
}
