package explain

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// labelled returns the pods with a label of the object's operator that names the object, and that do not
// run: cnpg.io/cluster, strimzi.io/cluster and the like.
func (q *inquiry) labelled() []reference {
	if q.namespace == "" {
		return nil
	}
	u := q.custom()
	group := u.GroupVersionKind().Group
	var all []reference
	for _, o := range q.listOf(podKind) {
		p, ok := o.(*corev1.Pod)
		if !ok || podIsReady(p) || p.Status.Phase == corev1.PodSucceeded || len(all) >= maxReferences {
			continue
		}
		for key, value := range p.Labels {
			if value == u.GetName() && isOfGroup(key, group) {
				all = append(all, newReference(podKind, q.namespace, p.Name, ", which belongs to it,"))
				break
			}
		}
	}
	failing := q.failingPods()
	rank := func(r reference) string {
		if failing[r.name] {
			return "" // before all names
		}
		return r.name
	}
	slices.SortFunc(all, func(a, b reference) int { return strings.Compare(rank(a), rank(b)) })
	return all
}

// isOfGroup reports whether the prefix of a label belongs to an API group. They have the same domain, such as
// cnpg.io and postgresql.cnpg.io, or the same first part, such as leaderworkerset.
func isOfGroup(label, group string) bool {
	prefix, _, found := strings.Cut(label, "/")
	if !found {
		return false
	}
	first, _, _ := strings.Cut(group, ".")
	ofLabel, _, _ := strings.Cut(prefix, ".")
	return first == ofLabel || domainOf(prefix) == domainOf(group) && domainOf(group) != "k8s.io"
}

// domainOf returns the last two parts of a name.
func domainOf(name string) string {
	parts := strings.Split(name, ".")
	return strings.Join(parts[max(0, len(parts)-2):], ".")
}
