package audit

import (
	"slices"

	"github.com/bongsu-io/bongsu/internal/operator/permissions"
)

// Unused returns the rights that none of the requests made use of. What was forbidden,
// or refused before it was looked at, is no use of a right. Where the API server asks for
// a second right to the same request, as it does for create on pods/exec, the log knows
// only of the first.
func Unused(held []permissions.Permission, requests []Request) []permissions.Permission {
	type use struct{ verb, group, resource, subresource, namespace string }
	used := map[use]bool{}
	for _, r := range requests {
		if r.Forbidden {
			continue
		}
		of := use{r.Verb, r.Group, r.Resource, r.Subresource, ""}
		used[of] = true
		of.namespace = r.Namespace
		used[of] = true
	}
	return slices.DeleteFunc(slices.Clone(held), func(r permissions.Permission) bool {
		return used[use{r.Verb, r.Group, r.Resource, r.Subresource, r.Namespace}]
	})
}

// Denied returns the requests that were refused for want of a right.
func Denied(requests []Request) []Request {
	return slices.DeleteFunc(slices.Clone(requests), func(r Request) bool { return !r.Forbidden })
}
