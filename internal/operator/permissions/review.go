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
	// atOnce bounds the reviews in flight: the caches are being filled meanwhile.
	atOnce = 4
	// patience is how long one review may take.
	patience = 10 * time.Second
)

// Reviewer asks the API server what its caller may do; client-go's
// SelfSubjectAccessReviewInterface is one.
type Reviewer interface {
	Create(context.Context, *authorizationv1.SelfSubjectAccessReview, metav1.CreateOptions) (*authorizationv1.SelfSubjectAccessReview, error)
}

// verdict is what became of asking for a right.
type verdict int

const (
	unanswered verdict = iota
	granted
	refused
)

// ask asks for each right. The first review that fails ends it, for the next would
// most likely fail as well: what was not answered until then stays so.
func (c *Checker) ask(ctx context.Context, rights []Permission) ([]verdict, error) {
	verdicts := make([]verdict, len(rights))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, right := range rights {
		group.Go(func() (err error) {
			verdicts[i], err = c.review(ctx, right)
			return err
		})
	}
	return verdicts, group.Wait()
}

func (c *Checker) review(ctx context.Context, r Permission) (verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	review, err := c.reviewer.Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: r.Namespace, Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Name: r.Name,
		}},
	}, metav1.CreateOptions{})
	switch {
	case err != nil:
		return unanswered, fmt.Errorf("ask whether the operator may %s %s: %w", r.Verb, r.object(), err)
	case review.Status.Allowed:
		return granted, nil
	default:
		return refused, nil
	}
}
