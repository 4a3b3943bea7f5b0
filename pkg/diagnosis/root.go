package diagnosis

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Root is why the objects that a cause blames are as they are.
type Root struct {
	// Message is a clause, such as `ExternalSecret "db", which creates it, has a problem: ...`. Advice says what
	// to do about it, and can be empty. It replaces the advice of the cause.
	Message, Advice string
}

// minRoot is the smallest part of a root's message that still helps, in bytes.
const minRoot = 80

// SetRoot sets the root of a cause, cut so that the sentence keeps its limit. The root is no part of the
// [Cause.Identity], because it can change while the failure is the same.
func (c *Cause) SetRoot(r Root) {
	left := maxMessage - len(c.Message) - len(": ")
	if left < minRoot {
		return
	}
	c.Root = &Root{Message: line(r.Message, left), Advice: line(r.Advice, maxAdvice)}
}

// withRoot returns the cause with the texts of its root, if it has one.
func (c *Cause) withRoot() *Cause {
	if c.Root == nil {
		return c
	}
	all := *c
	all.Message, all.Advice, all.Root = joined(c.Message, c.Root.Message), c.Root.Advice, nil
	return &all
}

// ShareClaim reports whether two different pods of a namespace mount the same claim.
func ShareClaim(a, b *corev1.Pod) bool {
	return a.UID != b.UID && a.Namespace == b.Namespace &&
		slices.ContainsFunc(ClaimsOf(a), func(claim string) bool { return slices.Contains(ClaimsOf(b), claim) })
}
