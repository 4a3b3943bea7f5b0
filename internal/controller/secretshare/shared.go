package secretshare

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// sharedCopy describes a wanted copy of another rule that wants the same copy. The zero value means
// that there is none.
type sharedCopy struct {
	// owner is the name of the rule that writes the copy.
	owner string
	// written means that the copy is up to date.
	written bool
	// left is the UID in the annotations of the copy, if its rule leaves it to the plan.
	left string
}

// sharedAt describes the copy with this name for a plan that wants it.
func (r *rules) sharedAt(p *plan, name types.NamespacedName) sharedCopy {
	c, exists := r.copies.byName[name]
	owner := r.ownerOf(c)
	if !exists || owner == nil || owner.key == p.key {
		return sharedCopy{}
	}
	if owner.WantsLike(p.Rule, name, p.Wanted[name.Name].SourceUID) {
		return sharedCopy{owner: owner.Rule.Name, written: c.content != "" && c.content == owner.Wanted[name.Name].Content}
	}
	switch heir := r.heirOf(owner, name, c); {
	case heir == nil:
		return sharedCopy{}
	case heir.key == p.key:
		return sharedCopy{left: c.Rule}
	case heir.WantsLike(p.Rule, name, c.SourceUID):
		return sharedCopy{owner: heir.Rule.Name}
	}
	return sharedCopy{}
}

// heirOf returns the oldest plan that takes over a copy, because the plan of its rule does not keep it. It is
// nil if there is none.
func (r *rules) heirOf(owner *plan, name types.NamespacedName, c copyState) *plan {
	if owner.Keeps(name, c.Copied) || owner.Rule.Protects(name.Namespace) {
		return nil
	}
	var heir *plan
	for p := range r.wanting(name.Name) {
		if p != owner && p.WantsLike(owner.Rule, name, c.SourceUID) && (heir == nil || p.IsOlder(&heir.Plan)) {
			heir = p
		}
	}
	return heir
}

// isWritten reports whether a wanted copy is up to date, also if it belongs to another rule.
func (r *rules) isWritten(p *plan, name types.NamespacedName) bool {
	return r.copies.byName[name].content == p.Wanted[name.Name].Content || r.sharedAt(p, name).written
}

// maxRemovalWait is how long a copy that its rule does not want waits at most for a rule that may want
// it. Such a rule can fail to decide this, or to write the copy.
const maxRemovalWait = 30 * time.Second
