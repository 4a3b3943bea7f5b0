package share

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/glob"
)

// IsFrom reports whether a grant names the namespace in spec.from.
func IsFrom(g *v1alpha1.SecretShareGrant, namespace string) bool {
	return slices.Contains(g.Spec.From, v1alpha1.SecretShareGrantFrom{Namespace: namespace})
}

// RecordedFor returns the recorded identity of a namespace in spec.from.
func RecordedFor(g *v1alpha1.SecretShareGrant, namespace string) (v1alpha1.NamespaceIdentity, bool) {
	for _, recorded := range g.Status.From {
		if recorded.Namespace == namespace {
			return recorded, true
		}
	}
	return v1alpha1.NamespaceIdentity{}, false
}

// Allows reports whether a grant allows copies with this name.
func Allows(grant *v1alpha1.SecretShareGrant, name string) bool {
	return len(grant.Spec.To) == 0 || slices.ContainsFunc(grant.Spec.To, func(to v1alpha1.SecretShareGrantTo) bool {
		return glob.MatchAny([]glob.Pattern{glob.Pattern(to.Name)}, name)
	})
}

// Granted is a copy that concerns a grant.
type Granted struct {
	v1alpha1.GrantedCopy
	// Problem is zero if the copy is up to date.
	Problem Problem
	// Denied means that no grant of the namespace allows the name.
	Denied bool
}

// HeldProblem returns the reason why a SecretShare does not update an existing copy. It
// does not quote the status of the SecretShare, which can name other namespaces.
func HeldProblem(rule *v1alpha1.SecretShare) Problem {
	name := rule.Namespace + "/" + rule.Name
	if rule.Spec.Suspend {
		return Problem{v1alpha1.ReasonSuspended, fmt.Sprintf("SecretShare %s is suspended: ask its owner to set spec.suspend to false", name)}
	}
	reason := v1alpha1.ReasonCopying
	if c := meta.FindStatusCondition(rule.Status.Conditions, v1alpha1.ConditionReady); c != nil && c.Status == metav1.ConditionFalse {
		reason = c.Reason
	}
	return Problem{reason, fmt.Sprintf("SecretShare %s cannot update the copy: ask its owner to check its status", name)}
}
