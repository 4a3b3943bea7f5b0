package health

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// Refusal is why disruption budgets do not allow the eviction of a pod. The zero Refusal means
// that they do.
type Refusal struct {
	// Budgets are the names of the PodDisruptionBudgets, in order. There is none if the text of
	// the API server does not name it.
	Budgets []string
	// text is what the API server writes about the only budget.
	text string
}

// IsZero reports whether the budgets allow the eviction.
func (r Refusal) IsZero() bool { return len(r.Budgets) == 0 && r.text == "" }

// budgetPrefix begins the text of each refusal. The name of the budget follows. All texts are in
// k8s.io/kubernetes/pkg/registry/core/pod/storage/eviction.go.
const budgetPrefix = "The disruption budget "

// RefusalFrom returns the refusal that an error contains. Too many requests without a budget as
// their cause are none.
func RefusalFrom(err error) Refusal {
	cause, refused := apierrors.StatusCause(err, policyv1.DisruptionBudgetCause)
	if !refused {
		return Refusal{}
	}
	text := strings.TrimSuffix(plaintext.Line(cause.Message), ".")
	if rest, ok := strings.CutPrefix(text, budgetPrefix); ok {
		if name, rest, ok := strings.Cut(rest, " "); ok {
			return Refusal{Budgets: []string{name}, text: "it " + rest}
		}
	}
	return Refusal{text: fmt.Sprintf("the API server says %q", text)}
}

// MayHaveSeveralBudgets reports whether an eviction failed as for a pod that several budgets
// select. This error has only a text for users, so the budgets must be listed to be sure.
func MayHaveSeveralBudgets(err error) bool { return codeOf(err) == http.StatusInternalServerError }

// IsRejected reports whether the API server rejected a request, so that it had no effect.
// Without an answer, and after other errors, it may have had one.
func IsRejected(err error) bool {
	code := codeOf(err)
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError
}

// codeOf returns the HTTP status of an error of the API server; 0 for another error.
func codeOf(err error) int32 {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return status.Status().Code
	}
	return 0
}

// maxRefusal is the limit of a text of the API server in a message, in bytes.
const maxRefusal = 512

// Message describes the refusal for a pod, and what to do. own is the name of the app's own
// budget.
func (r Refusal) Message(pod, own string) string {
	const evicted = "the operator evicts the pod as soon as that is allowed"
	if len(r.Budgets) > 1 {
		return fmt.Sprintf("the unhealthy Pod %s cannot be evicted, because the PodDisruptionBudgets %s select it, and Kubernetes supports only one: "+
			"change or delete all but one; %s", pod, Names(r.Budgets), evicted)
	}
	subject, advice := "a PodDisruptionBudget", "check the status of the budget"
	if len(r.Budgets) == 1 {
		subject = "PodDisruptionBudget " + r.Budgets[0]
		switch {
		case !strings.HasPrefix(r.text, "it needs "): // for example, its controller has not processed it
		case r.Budgets[0] == own:
			advice = "raise spec.size, or change spec.disruptionBudget"
		default:
			advice = "run more pods, or change the budget"
		}
	}
	return fmt.Sprintf("%s does not allow the eviction of the unhealthy Pod %s: %s: %s; %s",
		subject, pod, plaintext.Cut(r.text, maxRefusal), advice, evicted)
}

const (
	// minRetry and maxRetry limit how long the operator waits after a refused eviction.
	minRetry = 5 * time.Second
	maxRetry = 30 * time.Second
)

// RetryAfter returns when to repeat an eviction that was refused that many times in a row. It
// waits at least as long as the API server asks.
func RetryAfter(err error, refusals int) time.Duration {
	asked, _ := apierrors.SuggestsClientDelay(err)
	// The shift is limited, because the number is not.
	return max(min(minRetry<<min(refusals-1, 8), maxRetry), time.Duration(asked)*time.Second)
}
