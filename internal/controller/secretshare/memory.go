package secretshare

import (
	"errors"
	"fmt"
	"time"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/budget"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// Limits of the memory for plans and copies, in bytes.
const (
	// maxNamespaceMemory is for the SecretShares of one namespace.
	maxNamespaceMemory = 8 << 20
	// maxShareMemory is for all SecretShares.
	maxShareMemory = 64 << 20
	// maxClusterShareMemory is for all ClusterSecretShares.
	maxClusterShareMemory = 128 << 20
)

// retryRefused is the delay until the Secrets of a refused rule are counted again. No watch
// enqueues the rule when some of them are deleted.
const retryRefused = 5 * time.Minute

// errOverBudget means that a rule selects so many Secrets that not all of them are read.
var errOverBudget = errors.New("the rule selects too many Secrets")

// maxSources returns how many Secrets a rule of a kind can select.
func maxSources(kind string) int {
	if kind == v1alpha1.KindClusterSecretShare {
		return maxClusterShareMemory / share.SourceSize
	}
	return maxNamespaceMemory / share.SourceSize
}

func newBudget(kind string) *budget.Budget[kube.Key] {
	if kind == v1alpha1.KindClusterSecretShare {
		return budget.New[kube.Key](maxClusterShareMemory, maxClusterShareMemory)
	}
	return budget.New[kube.Key](maxNamespaceMemory, maxShareMemory)
}

// claim decides whether a plan may be used. The result contains the reason if not. unread is
// the error of reading the sources. If their number is unknown, the former decision counts.
func (r *Reconciler) claim(p *plan, object Object, unread error) readiness {
	bytes := p.Size()
	switch {
	case errors.Is(unread, errOverBudget):
		bytes = int64(maxSources(r.kind)+1) * share.SourceSize
	case unread != nil:
		return r.refusal(r.budget.Decision(p.key))
	}
	decision, others := r.budget.Set(p.key, budget.Claim{
		Namespace: p.key.Namespace, CreatedAt: object.GetCreationTimestamp().Time, UID: p.Rule.UID, Bytes: bytes,
	})
	r.update(others)
	return r.refusal(decision)
}

// refusal returns the reason why a rule may not use the memory that it needs.
func (r *Reconciler) refusal(decision budget.Decision) readiness {
	if decision == budget.Admitted {
		return readiness{}
	}
	which, limit, more := fmt.Sprintf("this %s and the older ones", r.kind), maxClusterShareMemory, ""
	switch {
	case r.kind == v1alpha1.KindClusterSecretShare:
	case decision == budget.OverNamespace:
		which, limit = which+" of the namespace", maxNamespaceMemory
	default:
		which, limit = fmt.Sprintf("the %ss of all namespaces", r.kind), maxShareMemory
		more = ", and those of this namespace more than an equal part"
	}
	return readiness{retry: retryRefused, Problem: share.Problem{Reason: v1alpha1.ReasonOverBudget, Message: fmt.Sprintf(
		"%s would need more than %d MiB of memory%s, so the copies stay as they are: select fewer Secrets or namespaces", which, limit>>20, more)}}
}

// forget removes the plan of a rule, and gives its memory to others.
func (r *Reconciler) forget(key kube.Key) {
	r.store.forget(key)
	r.update(r.budget.Delete(key))
}

// update handles rules that became admitted or refused, because others have changed.
func (r *Reconciler) update(keys []kube.Key) {
	for _, key := range keys {
		if r.budget.Decision(key) != budget.Admitted {
			r.store.refuse(key)
		}
		r.store.enqueue(key)
	}
}
