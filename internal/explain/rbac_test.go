package explain

import (
	"fmt"
	"strings"
	"testing"
)

// everyone is what all clusters bind to all users: kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy.
const everyone = `
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: system:basic-user, uid: basic}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: system:basic-user}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: system:authenticated}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: system:basic-user, uid: basic-role}
rules: [{apiGroups: [authorization.k8s.io], resources: [selfsubjectaccessreviews], verbs: [create]}]`

func boundTo(name, account, namespace, role string) string {
	return fmt.Sprintf(`
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: %s, namespace: shop, uid: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: %[4]s}
subjects: [{kind: ServiceAccount, name: %[2]s, namespace: %[3]s}]`, name, account, namespace, role)
}

func roleFor(name, resource string) string {
	return fmt.Sprintf(`
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: %s, namespace: shop, uid: %[1]s}
rules: [{apiGroups: [""], resources: [%s], verbs: [get, list]}]`, name, resource)
}

// The reason of a denial follows from the bindings and roles. Rules that allow the request by now are no reason.
func TestWhyAServiceAccountMayNotDoSomething(t *testing.T) {
	for name, tc := range map[string]struct{ objects, want string }{
		"no binding":             {"", `no binding allows ServiceAccount "web" of namespace "shop" to list configmaps`},
		"a role without a rule":  {boundTo("reader", "web", "shop", "reader") + roleFor("reader", "pods"), `Role "reader", which RoleBinding "reader" binds ServiceAccount "web" of namespace "shop" to, does not allow to list configmaps`},
		"two roles without it":   {boundTo("a", "web", "shop", "reader") + boundTo("b", "web", "shop", "other") + roleFor("reader", "pods") + roleFor("other", "leases"), `none of the roles of ServiceAccount "web"`},
		"a role that is missing": {boundTo("reader", "web", "shop", "reader"), `RoleBinding "reader" binds ServiceAccount "web" of namespace "shop" to Role "reader", which does not exist`},
		"another namespace":      {boundTo("reader", "web", "staging", "reader") + roleFor("reader", "configmaps"), `RoleBinding "reader" names ServiceAccount "web" of namespace "staging", not`},
		"of another use":         {boundTo("reader", "web", "staging", "reader") + roleFor("reader", "pods"), `no binding allows`},
		"allowed by now":         {boundTo("reader", "web", "shop", "reader") + roleFor("reader", "configmaps"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := fakeCluster(t, strings.TrimPrefix(everyone+tc.objects, "\n---\n"))
			q := &inquiry{ctx: t.Context(), Explainer: e.Explainer}
			why, advice := q.whyDenied(request{"shop", "web", "list", "configmaps", "", "shop"})
			if !strings.HasPrefix(why, tc.want) || (why == "") != (tc.want == "") || (advice == "") != (tc.want == "") {
				t.Errorf("%s: %s\nwant: %s", why, advice, tc.want)
			}
			if strings.Contains(why, "basic-user") {
				t.Error("no one should add a rule for all users")
			}
		})
	}
}

// Without the permission to read all bindings, it is not known that none allows the request.
func TestADenialIsNotExplainedByBindingsThatCannotBeRead(t *testing.T) {
	e := fakeCluster(t, strings.TrimPrefix(everyone, "\n---\n"), "ClusterRoleBinding")
	q := &inquiry{ctx: t.Context(), Explainer: e.Explainer}
	if why, _ := q.whyDenied(request{"shop", "web", "list", "configmaps", "", "shop"}); why != "" || len(q.explanation.NotChecked) == 0 {
		t.Errorf("%q, not checked: %v", why, q.explanation.NotChecked)
	}
}
