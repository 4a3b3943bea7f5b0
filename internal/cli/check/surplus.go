package check

import (
	"context"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bongsu-io/bongsu/config"
	"github.com/bongsu-io/bongsu/internal/cli/bindings"
	"github.com/bongsu-io/bongsu/internal/cli/install"
	"github.com/bongsu-io/bongsu/internal/cli/preflight"
	"github.com/bongsu-io/bongsu/internal/feature"
)

// surplus reports permissions of the operator's account that its features do not need, and roles
// of other features. They remain, for example, if manifests with fewer features are applied with
// kubectl. If nothing is installed, every binding of the account is surplus.
func (c *Checker) surplus(ctx context.Context, w *workload, installed bool) preflight.Result {
	const check = "surplus permissions"
	needed := &neededRules{namespace: c.namespace}
	if installed {
		chosen, err := w.features()
		if err == nil {
			needed, err = newNeededRules(c.namespace, chosen, w.shareNamespaces())
		}
		if err != nil {
			return preflight.Unknown(check, err)
		}
	}
	all, err := bindings.Of(ctx, c.client, c.namespace, w.account())
	if err != nil {
		return preflight.Unknown(check, err)
	}
	var surplus []preflight.Grant
	for _, b := range all {
		if needed.aggregates(b.Role) {
			continue // administrators add to this role by a label
		}
		rules, err := b.Rules(ctx, c.client)
		if err != nil {
			return preflight.Unknown(check, err)
		}
		if verbs := needed.without(b.Object.GetNamespace(), rules); len(verbs) > 0 {
			surplus = append(surplus, preflight.Grant{Binding: install.Describe(b.Object), Permissions: verbs})
		}
	}
	unused, err := c.unusedRoles(ctx, needed)
	if err != nil {
		return preflight.Unknown(check, err)
	}
	return preflight.Surplus(c.namespace+"/"+w.account(), surplus, unused)
}

// unusedRoles returns the roles of features that are not needed, but exist.
func (c *Checker) unusedRoles(ctx context.Context, needed *neededRules) ([]string, error) {
	all, err := config.RBAC(feature.All())
	if err != nil {
		return nil, err
	}
	var unused []string
	for _, o := range all {
		if !strings.HasSuffix(o.GetKind(), "Role") || slices.ContainsFunc(needed.manifests, sameRole(o)) {
			continue
		}
		if o.GetNamespace() != "" {
			o.SetNamespace(c.namespace)
		}
		_, err := c.get(ctx, o)
		switch {
		case err == nil:
			unused = append(unused, install.Describe(o))
		case !isAbsent(err):
			return nil, err
		}
	}
	return unused, nil
}

func sameRole(o *unstructured.Unstructured) func(*unstructured.Unstructured) bool {
	return func(other *unstructured.Unstructured) bool {
		return other.GetKind() == o.GetKind() && other.GetName() == o.GetName()
	}
}

// neededRules are the roles of an installation with some features.
type neededRules struct {
	namespace string
	manifests []*unstructured.Unstructured
	// everywhere and inNamespace are permissions in all namespaces and in the operator's.
	everywhere, inNamespace map[string]bool
	// inShares are the permissions in the namespaces of shared Secrets, if these are not all.
	inShares map[string]bool
	shares   []string
	// receivers allows roles in namespaces to read the Secrets of receivers: docs/install.md.
	receivers bool
}

func newNeededRules(namespace string, chosen []feature.Feature, shares []string) (*neededRules, error) {
	manifests, err := config.RBAC(chosen)
	if err != nil {
		return nil, err
	}
	n := &neededRules{
		namespace: namespace, manifests: manifests, everywhere: map[string]bool{}, inNamespace: map[string]bool{},
		inShares: map[string]bool{}, shares: shares, receivers: slices.Contains(chosen, feature.Alarm),
	}
	for _, o := range manifests {
		into := n.everywhere
		switch {
		case !slices.Contains(config.Roles(chosen), o.GetName()):
			continue // a role of users
		case o.GetKind() == "Role":
			into = n.inNamespace
		case o.GetKind() != "ClusterRole":
			continue
		case o.GetName() == config.ShareSecretsRole && len(shares) > 0:
			into = n.inShares
		}
		var role rbacv1.Role // a ClusterRole has the same rules
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
			return nil, err
		}
		for _, p := range permissionsOf(role.Rules) {
			into[p.key()] = true
		}
	}
	return n, nil
}

// aggregates reports whether a role of the installation consists of the rules of others.
func (n *neededRules) aggregates(role rbacv1.RoleRef) bool {
	return slices.ContainsFunc(n.manifests, func(o *unstructured.Unstructured) bool {
		_, found := o.Object["aggregationRule"]
		return found && o.GetKind() == role.Kind && o.GetName() == role.Name
	})
}

// without returns the permissions in rules that are not needed, each in the form "create
// pods/exec". The namespace is that of the binding, and empty for all.
func (n *neededRules) without(namespace string, rules []rbacv1.PolicyRule) []string {
	var surplus []string
	for _, p := range permissionsOf(rules) {
		unnamed := p
		unnamed.name = ""
		isNeeded := func(in map[string]bool) bool { return in[p.key()] || in[unnamed.key()] }
		ofReceiver := n.receivers && namespace != "" && p.verb == "get" && p.group == "" && p.resource == "secrets"
		ofShare := isNeeded(n.inShares) && slices.Contains(n.shares, namespace)
		if ofShare || isNeeded(n.everywhere) || namespace == n.namespace && isNeeded(n.inNamespace) || ofReceiver {
			continue
		}
		if text := p.String(); !slices.Contains(surplus, text) {
			surplus = append(surplus, text)
		}
	}
	return surplus
}

// permission is one verb on one resource, or on a path that is no resource.
type permission struct{ verb, group, resource, name string }

func (p permission) key() string {
	return strings.Join([]string{p.verb, p.group, p.resource, p.name}, " ")
}

// String returns a text such as "create pods/exec".
func (p permission) String() string {
	if p.group == "" {
		return p.verb + " " + p.resource
	}
	return p.verb + " " + p.resource + "." + p.group
}

func permissionsOf(rules []rbacv1.PolicyRule) []permission {
	var all []permission
	for _, rule := range rules {
		for _, verb := range rule.Verbs {
			all = append(all, permissionsWith(verb, rule)...)
		}
	}
	return all
}

// permissionsWith returns the permissions of a rule with a verb.
func permissionsWith(verb string, rule rbacv1.PolicyRule) []permission {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var all []permission
	for _, path := range rule.NonResourceURLs {
		all = append(all, permission{verb: verb, resource: path})
	}
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, name := range names {
				all = append(all, permission{verb, group, resource, name})
			}
		}
	}
	return all
}
