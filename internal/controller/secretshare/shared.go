package secretshare

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/kube"
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
func (s *store) sharedAt(p *plan, name types.NamespacedName) sharedCopy {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sharedAtLocked(p, name)
}

// sharedAtLocked is sharedAt for callers that hold s.mu.
func (s *store) sharedAtLocked(p *plan, name types.NamespacedName) sharedCopy {
	c, exists := s.copies[name]
	owner := s.ownerOf(c)
	if !exists || owner == nil || owner.key == p.key {
		return sharedCopy{}
	}
	if owner.WantsLike(p.Rule, name, p.Wanted[name.Name].SourceUID) {
		return sharedCopy{owner: owner.Rule.Name, written: c.content != "" && c.content == owner.Wanted[name.Name].Content}
	}
	switch heir := s.heirOf(owner, name, c); {
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
// nil if there is none. The caller holds s.mu.
func (s *store) heirOf(owner *plan, name types.NamespacedName, c copyState) *plan {
	if owner.Keeps(name, c.Copied) || owner.Rule.Protects(name.Namespace) {
		return nil
	}
	var heir *plan
	for key := range s.rulesByCopy[name.Name] {
		p := s.rules[key].plan
		if p != owner && p.WantsLike(owner.Rule, name, c.SourceUID) && (heir == nil || p.IsOlder(&heir.Plan)) {
			heir = p
		}
	}
	return heir
}

// leave reports whether another rule takes over a copy that a plan does not keep, and enqueues it.
func (s *store) leave(p *plan, name types.NamespacedName, c copyState) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	heir := s.heirOf(p, name, c)
	if heir != nil {
		s.syncQueue(workItem{heir.key, name.Namespace})
	}
	return heir != nil
}

// enqueueSharers enqueues a copy for the other rules that want one with its name. The caller holds s.mu.
func (s *store) enqueueSharers(name types.NamespacedName, c copyState) {
	for key := range s.rulesByCopy[name.Name] {
		p := s.rules[key].plan
		if _, ok := p.Targets[name.Namespace]; ok && p.Rule.UID != c.Rule && s.synced {
			s.syncQueue(workItem{key, name.Namespace})
		}
	}
}

// enqueueSharersOf enqueues the copies of a plan for the other rules that want copies with their
// names. p is nil if there is no plan. The caller holds s.mu.
func (s *store) enqueueSharersOf(p *plan) {
	if p == nil || !s.synced {
		return
	}
	for copyName := range p.Wanted {
		for key := range s.rulesByCopy[copyName] {
			if key == p.key {
				continue
			}
			for namespace := range s.rules[key].plan.Targets {
				if s.copies[types.NamespacedName{Namespace: namespace, Name: copyName}].Rule == p.Rule.UID {
					s.syncQueue(workItem{key, namespace})
				}
			}
		}
	}
}

// isWritten reports whether a wanted copy is up to date, also if it belongs to another rule. The
// caller holds s.mu.
func (s *store) isWritten(p *plan, name types.NamespacedName) bool {
	return s.copies[name].content == p.Wanted[name.Name].Content || s.sharedAtLocked(p, name).written
}

// maxRemovalWait is how long a copy that its rule does not want waits at most for a rule that may want
// it. Such a rule can fail to decide this, or to write the copy.
const maxRemovalWait = 30 * time.Second

// decision identifies the spec of a rule for which the store has a plan, or needs none.
type decision struct {
	uid        types.UID
	generation int64
}

// setDecided records that the store has the plan for the present spec of a rule, or needs none.
func (s *store) setDecided(key kube.Key, rule client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.decided[key] = decision{rule.GetUID(), rule.GetGeneration()}
}

// isDecided reports whether setDecided was called for each of these rules. Those that are being deleted
// do not count.
func (s *store) isDecided(kind string, rules []client.Object) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rule := range rules {
		key := kube.Key{Kind: kind, Namespace: rule.GetNamespace(), Name: rule.GetName()}
		if rule.GetDeletionTimestamp().IsZero() && s.decided[key] != (decision{rule.GetUID(), rule.GetGeneration()}) {
			return false
		}
	}
	return true
}

// unwantedSince returns since when a namespace has copies that their rule does not want, as far as
// the last sync knows. It is zero if there were none.
func (s *store) unwantedSince(item workItem) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state, ok := s.rules[item.Rule]; ok {
		return state.results[item.Namespace].unwantedSince
	}
	return time.Time{}
}
