package health_test

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bongsu-io/bongsu/internal/controller/appservice/health"
)

// byBudget is an error as the API server creates it.
func byBudget(err *apierrors.StatusError, text string) error {
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: text}}
	return fmt.Errorf("evict: %w", err)
}

func tooMany(seconds int) *apierrors.StatusError {
	return apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", seconds)
}

func forbidden() *apierrors.StatusError {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "poddisruptionbudget"}, "web", errors.New("pdb disruptions allowed is negative"))
}

func TestARefusalNamesTheBudget(t *testing.T) {
	for what, tc := range map[string]struct {
		err  error
		want string // empty if no budget refused
	}{
		"too few healthy pods": {byBudget(tooMany(0), "The disruption budget web needs 2 healthy pods and has 2 currently"),
			"PodDisruptionBudget web does not allow the eviction of the unhealthy Pod a: it needs 2 healthy pods and has 2 currently: " +
				"raise spec.size, or change spec.disruptionBudget; the operator evicts the pod as soon as that is allowed"},
		"a budget of others": {byBudget(tooMany(0), "The disruption budget all.of-them needs 9 healthy pods and has 2 currently"),
			"PodDisruptionBudget all.of-them does not allow the eviction of the unhealthy Pod a: it needs 9 healthy pods and has 2 currently: " +
				"run more pods, or change the budget; the operator evicts the pod as soon as that is allowed"},
		"a new budget": {byBudget(tooMany(10), "The disruption budget web is still being processed by the server."),
			"PodDisruptionBudget web does not allow the eviction of the unhealthy Pod a: it is still being processed by the server: " +
				"check the status of the budget; the operator evicts the pod as soon as that is allowed"},
		"too many evictions": {byBudget(forbidden(), "The disruption budget web does not allow evicting pods currently: pdb disruptions allowed is negative"),
			"PodDisruptionBudget web does not allow the eviction of the unhealthy Pod a: it does not allow evicting pods currently: " +
				"pdb disruptions allowed is negative: check the status of the budget; the operator evicts the pod as soon as that is allowed"},
		"an unknown text": {byBudget(tooMany(0), "Budget \"web\":\nno."),
			`a PodDisruptionBudget does not allow the eviction of the unhealthy Pod a: the API server says "Budget \"web\": no": ` +
				"check the status of the budget; the operator evicts the pod as soon as that is allowed"},
		"no text": {byBudget(tooMany(0), ""),
			`a PodDisruptionBudget does not allow the eviction of the unhealthy Pod a: the API server says "": ` +
				"check the status of the budget; the operator evicts the pod as soon as that is allowed"},
		"too many requests of all clients": {err: apierrors.NewTooManyRequestsError("too many requests")},
		"a missing permission":             {err: forbidden()},
		"no answer":                        {err: io.ErrUnexpectedEOF},
		"no error":                         {},
	} {
		t.Run(what, func(t *testing.T) {
			r := health.RefusalFrom(tc.err)
			got := ""
			if !r.IsZero() {
				got = r.Message("a", "web")
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestARefusalNamesSeveralBudgets(t *testing.T) {
	got := health.Refusal{Budgets: []string{"all", "web"}}.Message("a", "web")
	want := "the unhealthy Pod a cannot be evicted, because the PodDisruptionBudgets all, web select it, and Kubernetes supports only one: " +
		"change or delete all but one; the operator evicts the pod as soon as that is allowed"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Only a request that had no effect does not count as a restart.
func TestARejectedRequestHadNoEffect(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for what, tc := range map[string]struct {
		err  error
		want bool
	}{
		"a budget":              {byBudget(tooMany(0), "The disruption budget web needs 2 healthy pods and has 2 currently"), true},
		"too many requests":     {apierrors.NewTooManyRequestsError("too many requests"), true},
		"a missing permission":  {forbidden(), true},
		"the pod is gone":       {apierrors.NewNotFound(pods, "a"), true},
		"another pod":           {apierrors.NewConflict(pods, "a", errors.New("the UID differs")), true},
		"a timeout":             {apierrors.NewTimeoutError("it may have been evicted", 10), false},
		"an error of a webhook": {apierrors.NewInternalError(errors.New("failed calling webhook")), false},
		"no answer":             {io.ErrUnexpectedEOF, false},
	} {
		if got := health.IsRejected(tc.err); got != tc.want {
			t.Errorf("%s: %v, want %v", what, got, tc.want)
		}
	}
}

func TestRefusedEvictionsAreRetriedLessAndLessOften(t *testing.T) {
	refused := byBudget(tooMany(0), "The disruption budget web needs 2 healthy pods and has 2 currently")
	for _, tc := range []struct {
		err      error
		refusals int
		want     time.Duration
	}{
		{refused, 1, 5 * time.Second},
		{refused, 2, 10 * time.Second},
		{refused, 3, 20 * time.Second},
		{refused, 4, 30 * time.Second},
		{refused, 1 << 40, 30 * time.Second},
		{byBudget(tooMany(10), "The disruption budget web is still being processed by the server."), 1, 10 * time.Second},
		{byBudget(tooMany(60), "The disruption budget web is still being processed by the server."), 9, time.Minute},
	} {
		if got := health.RetryAfter(tc.err, tc.refusals); got != tc.want {
			t.Errorf("refusal %d is retried after %v, want %v", tc.refusals, got, tc.want)
		}
	}
}
