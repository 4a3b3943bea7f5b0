package permissions

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// atOnce limits concurrent reviews, because the caches are filled at the same time.
	atOnce = 4
	// reviewTimeout limits one review.
	reviewTimeout = 10 * time.Second
)

// Reviewer asks the API server for a permission of the caller. client-go's
// SelfSubjectAccessReviewInterface implements it.
type Reviewer interface {
	Create(context.Context, *authorizationv1.SelfSubjectAccessReview, metav1.CreateOptions) (*authorizationv1.SelfSubjectAccessReview, error)
}

// result is the answer for a permission.
type result int

const (
	unanswered result = iota
	granted
	refused
)

// ask checks each permission. It stops when a review fails, because the next ones would
// probably fail too. The remaining results are unanswered.
func (c *Checker) ask(ctx context.Context, permissions []Permission) ([]result, error) {
	results := make([]result, len(permissions))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, p := range permissions {
		group.Go(func() (err error) {
			results[i], err = c.review(ctx, p)
			return err
		})
	}
	return results, group.Wait()
}

func (c *Checker) review(ctx context.Context, p Permission) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	review, err := c.reviewer.Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: p.Namespace, Verb: p.Verb, Group: p.Group, Resource: p.Resource, Subresource: p.Subresource, Name: p.Name,
		}},
	}, metav1.CreateOptions{})
	switch {
	case err != nil:
		return unanswered, fmt.Errorf("ask whether the operator may %s %s: %w", p.Verb, p.object(), err)
	case review.Status.Allowed:
		return granted, nil
	default:
		return refused, nil
	}
}
