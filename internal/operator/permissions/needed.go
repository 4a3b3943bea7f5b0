package permissions

import (
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bongsu-io/bongsu/config"
	"github.com/bongsu-io/bongsu/internal/operator/feature"
)

// Permission is one verb on one resource.
type Permission struct {
	// Role says which role should hold it, for example "ClusterRole bongsu".
	Role string
	// Namespace is where it is needed; empty is everywhere.
	Namespace string

	Verb, Group, Resource, Subresource string
	// Name is the one object that it is needed for; empty is any.
	Name string
}

// Needed returns the rights that the generated roles hold: those of every replica, and of
// the capabilities that were chosen. Those of a Role are needed in the operator's
// namespace, which need not be the one that the manifests name.
func Needed(namespace string, chosen []feature.Feature) ([]Permission, error) {
	manifests, err := config.RBAC(chosen)
	if err != nil {
		return nil, err
	}
	var rights []Permission
	for _, role := range config.Roles(chosen) {
		held, err := rightsIn(manifests, role, namespace)
		if err != nil {
			return nil, err
		}
		rights = append(rights, held...)
	}
	return rights, nil
}

// rightsIn returns what the roles of this name hold.
func rightsIn(manifests []*unstructured.Unstructured, name, namespace string) ([]Permission, error) {
	var rights []Permission
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
		role := &rbacv1.Role{} // in which a ClusterRole's rules are the same
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, role); err != nil {
			return nil, fmt.Errorf("%s: %w", like.Role, err)
		}
		for _, rule := range role.Rules {
			if len(rule.NonResourceURLs) > 0 {
				return nil, fmt.Errorf("%s: it is not known how to check nonResourceURLs", like.Role)
			}
			rights = append(rights, like.of(rule)...)
		}
	}
	if len(rights) == 0 {
		return nil, fmt.Errorf("no role %s is among the manifests", name)
	}
	return rights, nil
}

// of returns what a rule allows, one by one, in the role and the namespace of r.
func (r Permission) of(rule rbacv1.PolicyRule) []Permission {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var rights []Permission
	for _, group := range rule.APIGroups {
		for _, path := range rule.Resources {
			for _, verb := range rule.Verbs {
				for _, name := range names {
					right := r
					right.Group, right.Verb, right.Name = group, verb, name
					right.Resource, right.Subresource, _ = strings.Cut(path, "/")
					rights = append(rights, right)
				}
			}
		}
	}
	return rights
}

// path is the resource as a role names it.
func (r Permission) path() string {
	if r.Subresource == "" {
		return r.Resource
	}
	return r.Resource + "/" + r.Subresource
}
