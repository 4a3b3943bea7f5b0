package check

import (
	"context"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bongsu-io/bongsu/internal/cli/preflight"
	"github.com/bongsu-io/bongsu/internal/operator/permissions"
)

func kindIs(kind string) func(metav1.APIResource) bool {
	return func(r metav1.APIResource) bool { return r.Kind == kind }
}

// caller asks whether the caller may create and change what an installation consists of.
// Of roles, that takes escalate, or all that they hold.
func (c *Checker) caller(ctx context.Context, objects []*unstructured.Unstructured, installed bool) preflight.Finding {
	const check = "your rights"
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
			missing = append(missing, words(a))
		}
		return err
	}
	for _, o := range objects {
		resource := strings.ToLower(o.GetKind()) + "s" // as for all of ours
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

// words is such as "create roles in bongsu-system".
func words(a authorizationv1.ResourceAttributes) string {
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

// operatorRights asks for the operator's account what the operator asks for itself when
// it starts.
func (c *Checker) operatorRights(ctx context.Context, w *workload) preflight.Finding {
	const check = "operator's rights"
	chosen, err := w.capabilities()
	if err != nil {
		return preflight.Unknown(check, err)
	}
	required, err := permissions.Needed(c.namespace, chosen)
	if err != nil {
		return preflight.Unknown(check, err)
	}
	account := "system:serviceaccount:" + c.namespace + ":" + w.account()
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
			missing = append(missing, words(a))
		}
	}
	return preflight.Permissions(account, missing)
}
