package check

import (
	"context"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bongsu-io/bongsu/config"
	"github.com/bongsu-io/bongsu/internal/cli/preflight"
	"github.com/bongsu-io/bongsu/internal/operator/permissions"
)

func kindIs(kind string) func(metav1.APIResource) bool {
	return func(r metav1.APIResource) bool { return r.Kind == kind }
}

// callerPermissions checks whether the user may create and change the objects of an
// installation. For roles it requires escalate and bind.
func (c *Checker) callerPermissions(ctx context.Context, objects []*unstructured.Unstructured, installed bool) preflight.Result {
	const check = "your permissions"
	asked := map[authorizationv1.ResourceAttributes]bool{}
	var missing []string
	ask := func(a authorizationv1.ResourceAttributes) error {
		if asked[a] {
			return nil
		}
		asked[a] = true
		review, err := c.authorization.SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &a},
		}, metav1.CreateOptions{})
		if err == nil && !review.Status.Allowed {
			missing = append(missing, describe(a))
		}
		return err
	}
	for _, o := range objects {
		resource := strings.ToLower(o.GetKind()) + "s" // valid for all kinds of the manifests
		if strings.HasSuffix(o.GetKind(), "Policy") {
			resource = strings.TrimSuffix(strings.ToLower(o.GetKind()), "y") + "ies"
		}
		a := authorizationv1.ResourceAttributes{Group: o.GroupVersionKind().Group, Resource: resource, Namespace: o.GetNamespace()}
		for _, verb := range verbsFor(o.GetKind()) {
			a.Verb = verb
			if err := ask(a); err != nil {
				return preflight.Unknown(check, err)
			}
		}
	}
	return preflight.Caller(missing, installed)
}

func verbsFor(kind string) []string {
	switch kind {
	case "ClusterRole", "Role":
		return []string{"create", "patch", "escalate", "bind"}
	default:
		return []string{"create", "patch"}
	}
}

// describe returns a text such as "create roles in bongsu-system".
func describe(a authorizationv1.ResourceAttributes) string {
	text := a.Verb + " " + a.Resource
	if a.Subresource != "" {
		text += "/" + a.Subresource
	}
	if a.Group != "" {
		text += "." + a.Group
	}
	if a.Namespace != "" {
		text += " in " + a.Namespace
	}
	return text
}

// operatorPermissions checks the permissions of the operator's service account. The
// operator checks the same permissions when it starts.
func (c *Checker) operatorPermissions(ctx context.Context, w *workload) preflight.Result {
	const check = "operator permissions"
	chosen, err := w.features()
	if err != nil {
		return preflight.Unknown(check, err)
	}
	required, err := permissions.Needed(c.namespace, chosen)
	if err != nil {
		return preflight.Unknown(check, err)
	}
	if namespaces := w.shareNamespaces(); len(namespaces) > 0 {
		required = permissions.OnlyIn(namespaces, config.ShareSecretsRole, required)
	}
	account := c.userName(w)
	var missing []string
	for _, r := range required {
		a := authorizationv1.ResourceAttributes{
			Namespace: r.Namespace, Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Name: r.Name,
		}
		review, err := c.authorization.SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User: account, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + c.namespace, "system:authenticated"},
				ResourceAttributes: &a,
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return preflight.Unknown(check, err)
		}
		if !review.Status.Allowed {
			missing = append(missing, describe(a))
		}
	}
	return preflight.Permissions(account, missing)
}
