package share

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
)

// Rules of the same kind can want the same copy. For example, a rule gets another name: the new rule
// exists before the old one is deleted. One of them owns the copy. The others count it as theirs, and
// the oldest of them takes it over when its owner no longer wants it. The content of Secrets decides
// nothing here, because tenants could find out whether a guessed value is right.

// WantsLike reports whether the plan wants this copy, and whether another rule would make the same
// copy of the source. A SecretShare makes the same copy only as another one in its namespace.
func (p *Plan) WantsLike(other *Rule, name types.NamespacedName, source types.UID) bool {
	t, isTarget := p.Targets[name.Namespace]
	want, isWanted := p.Wanted[name.Name]
	return isTarget && isWanted && t.Allows(name.Name) && want.SourceUID == source && p.Rule.copiesLike(other)
}

// copiesLike reports whether two rules make the same copy of a source, apart from its marks.
func (r *Rule) copiesLike(other *Rule) bool {
	isKnown := r.IsOfCluster() || r.NamespaceUID != ""
	return isKnown && r.IsOfCluster() == other.IsOfCluster() && r.Namespace == other.Namespace && r.NamespaceUID == other.NamespaceUID &&
		equality.Semantic.DeepEqual(r.Spec.Keys, other.Spec.Keys) &&
		equality.Semantic.DeepEqual(r.Spec.CopyLabels, other.Spec.CopyLabels) &&
		equality.Semantic.DeepEqual(r.Spec.CopyAnnotations, other.Spec.CopyAnnotations)
}

// IsOlder reports whether the rule of a plan is older than that of another plan.
func (p *Plan) IsOlder(other *Plan) bool {
	if !p.Since.Equal(other.Since) {
		return p.Since.Before(other.Since)
	}
	return p.Rule.UID < other.Rule.UID
}
