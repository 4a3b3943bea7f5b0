package appservice

import (
	"context"
	"errors"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reviews answers SelfSubjectAccessReviews, and counts them.
type reviews struct {
	client.Writer
	allowed map[string]bool
	err     error
	asked   int
}

func (r *reviews) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	review := o.(*authorizationv1.SelfSubjectAccessReview)
	r.asked++
	review.Status.Allowed = r.allowed[review.Spec.ResourceAttributes.Namespace]
	return r.err
}

// Each reconcile asks, and a tenant can cause many.
func TestAnswersAboutTheRightToRunCommandsAreKeptForAWhile(t *testing.T) {
	for name, tc := range map[string]struct {
		reviews reviews
		allowed bool
		lasts   time.Duration
		asked   int
	}{
		"granted": {reviews{allowed: map[string]bool{"shop": true}}, true, grantKept, 2},
		"refused": {reviews{allowed: map[string]bool{"other": true}}, false, askAgain, 1},
		"unknown": {reviews{err: errors.New("down")}, true, askAgain, 1},
	} {
		t.Run(name, func(t *testing.T) {
			clk := clocktesting.NewFakePassiveClock(time.Unix(1_800_000_000, 0))
			grants := newExecGrants(&tc.reviews, clk)
			end := clk.Now().Add(tc.lasts)
			for clk.Now().Before(end) {
				if allowed, lasts := grants.mayExec(t.Context(), "shop"); allowed != tc.allowed || lasts != end.Sub(clk.Now()) {
					t.Errorf("allowed is %t for %s, want %t for %s", allowed, lasts, tc.allowed, end.Sub(clk.Now()))
				}
				clk.SetTime(clk.Now().Add(tc.lasts / 3))
			}
			if tc.reviews.asked != tc.asked {
				t.Errorf("asked %d times, want %d", tc.reviews.asked, tc.asked)
			}
			if grants.mayExec(t.Context(), "shop"); tc.reviews.asked != 2*tc.asked {
				t.Error("the answer is kept for too long")
			}
		})
	}
}
