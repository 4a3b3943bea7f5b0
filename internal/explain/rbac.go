package explain

import (
	"fmt"
	"regexp"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// denial matches how the API server refuses a request of a ServiceAccount:
// apiserver/pkg/endpoints/handlers/responsewriters/errors.go.
var denial = regexp.MustCompile(`User "system:serviceaccount:([a-z0-9-]+):([a-z0-9.-]+)" cannot (\w+) resource "([\w./-]+)" in API group "([\w.-]*)"(?: in the namespace "([a-z0-9-]+)")?`)

// request is a request that was refused.
type request struct {
	accountNamespace, account string
	verb, resource, group     string
	namespace                 string // of the objects, empty for the whole cluster
}

// denied adds to the cause why a ServiceAccount may not do what the message or the log says. It leads nowhere.
func (q *inquiry) denied() []reference {
	x := &q.explanation
	if x.Cause == nil {
		return nil
	}
	m := denial.FindStringSubmatch(q.allText())
	if m == nil {
		m = x.Log.lastMatch(denial)
	}
	if m == nil {
		return nil
	}
	r := request{m[1], m[2], m[3], m[4], m[5], m[6]}
	if why, advice := q.whyDenied(r); why != "" {
		x.Cause.add(why, advice)
	}
	return nil
}

// binding is what RoleBindings and ClusterRoleBindings have in common.
type binding struct {
	kind, name, namespace string
	role                  rbacv1.RoleRef
	subjects              []rbacv1.Subject
}

// String returns the kind and the quoted name.
func (b *binding) String() string { return fmt.Sprintf("%s %q", b.kind, b.name) }

// whyDenied returns why the bindings do not allow a request, and what to do. It is empty if they allow it, or if they
// cannot be read.
func (q *inquiry) whyDenied(r request) (why, advice string) {
	bindings, complete := q.bindings(r.namespace)
	own := fmt.Sprintf("ServiceAccount %q of namespace %q", r.account, r.accountNamespace)
	request := fmt.Sprintf("%s %s", r.verb, r.resource)
	for i := range bindings {
		b := &bindings[i]
		if !slices.ContainsFunc(b.subjects, r.isSubject) {
			continue
		}
		rules, err := q.rulesOf(b)
		isOwn := slices.ContainsFunc(b.subjects, r.isAccount)
		switch {
		case err != nil && !apierrors.IsNotFound(err):
			q.unread("roles", "get them", err)
			return "", ""
		case slices.ContainsFunc(rules, r.isAllowedBy):
			return "", ""
		case !isOwn: // a group such as all users, to which no one should add rules
		case why != "":
			return fmt.Sprintf("none of the roles of %s allows to %s", own, request), "add a rule to one of its roles, or bind another one"
		case err != nil:
			why = fmt.Sprintf("%s binds %s to %s %q, which does not exist", b, own, b.role.Kind, b.role.Name)
			advice = fmt.Sprintf("create %s %q, or correct the binding", b.role.Kind, b.role.Name)
		default:
			why = fmt.Sprintf("%s %q, which %s binds %s to, does not allow to %s", b.role.Kind, b.role.Name, b, own, request)
			advice = "add a rule to the role"
		}
	}
	if why != "" {
		return why, advice
	}
	if why, advice = q.misnamed(r, bindings, own); why != "" || !complete {
		return why, advice
	}
	return fmt.Sprintf("no binding allows %s to %s", own, request), "create a Role with this rule, and a RoleBinding"
}

// misnamed returns a RoleBinding that would allow the request if it did not name another namespace. Every namespace
// has an account with the name default.
func (q *inquiry) misnamed(r request, bindings []binding, own string) (why, advice string) {
	for i := range bindings {
		b := &bindings[i]
		at := slices.IndexFunc(b.subjects, func(s rbacv1.Subject) bool {
			return s.Kind == rbacv1.ServiceAccountKind && s.Name == r.account && s.Namespace != r.accountNamespace
		})
		if at < 0 || b.namespace != r.namespace || b.namespace == "" || r.account == "default" {
			continue
		}
		if rules, err := q.rulesOf(b); err == nil && slices.ContainsFunc(rules, r.isAllowedBy) {
			return fmt.Sprintf("%s names ServiceAccount %q of namespace %q, not %s", b, r.account, b.subjects[at].Namespace, own),
				"correct the namespace of the subject"
		}
	}
	return "", ""
}

// isAccount reports whether a subject is the ServiceAccount itself.
func (r *request) isAccount(s rbacv1.Subject) bool {
	if s.Kind == rbacv1.ServiceAccountKind {
		return s.Name == r.account && s.Namespace == r.accountNamespace
	}
	return s.Kind == rbacv1.UserKind && s.Name == "system:serviceaccount:"+r.accountNamespace+":"+r.account
}

// isSubject reports whether a subject is the ServiceAccount, or a group that it is in.
func (r *request) isSubject(s rbacv1.Subject) bool {
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:" + r.accountNamespace, "system:authenticated"}
	return r.isAccount(s) || s.Kind == rbacv1.GroupKind && slices.Contains(groups, s.Name)
}

// isAllowedBy reports whether a rule may allow the request.
func (r *request) isAllowedBy(rule rbacv1.PolicyRule) bool {
	return includes(rule.Verbs, r.verb) && includes(rule.APIGroups, r.group) && includes(rule.Resources, r.resource)
}

// includes reports whether a list of a rule has a value, or all values.
func includes(values []string, value string) bool {
	return slices.Contains(values, value) || slices.Contains(values, "*")
}

// bindings returns the bindings that can allow requests in a namespace, and whether all could be read.
func (q *inquiry) bindings(namespace string) (all []binding, complete bool) {
	complete = true
	if namespace != "" {
		var list rbacv1.RoleBindingList
		complete = q.list("rolebindings.rbac.authorization.k8s.io", &list, func() {
			for i := range list.Items {
				b := &list.Items[i]
				all = append(all, binding{"RoleBinding", b.Name, b.Namespace, b.RoleRef, b.Subjects})
			}
		}, client.InNamespace(namespace))
	}
	var list rbacv1.ClusterRoleBindingList
	ofCluster := q.list("clusterrolebindings.rbac.authorization.k8s.io", &list, func() {
		for i := range list.Items {
			b := &list.Items[i]
			all = append(all, binding{"ClusterRoleBinding", b.Name, "", b.RoleRef, b.Subjects})
		}
	})
	return all, complete && ofCluster
}

// rulesOf returns the rules of the role that a binding refers to.
func (q *inquiry) rulesOf(b *binding) ([]rbacv1.PolicyRule, error) {
	if b.role.Kind == "Role" {
		role := &rbacv1.Role{}
		err := q.objects.Get(q.ctx, client.ObjectKey{Namespace: b.namespace, Name: b.role.Name}, role)
		return role.Rules, err
	}
	role := &rbacv1.ClusterRole{}
	err := q.objects.Get(q.ctx, client.ObjectKey{Name: b.role.Name}, role)
	return role.Rules, err
}
