package secretshare

import (
	"context"
	"iter"
	"maps"
	"slices"
	"unique"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// copyState is what the store knows about a copy.
type copyState struct {
	share.Copied
	// identity is that of the rule, from the copy's annotations.
	identity identity

	uid     types.UID
	version string
	// content is the content of the [share.Wanted] that this version was written from. It
	// is empty if that is not known.
	content string
	// exact means that this version has no metadata of others; see [share.IsExact].
	exact bool
	// held are the finalizers of a copy that is being deleted.
	held []string
}

// identity is what a rule has in common with its predecessors. Equal ones share their memory. It is
// noIdentity if the copies of predecessors cannot be recognized.
type identity = unique.Handle[string]

var noIdentity = unique.Make("")

func identityOf(rule *share.Rule) identity { return unique.Make(rule.Identity()) }

// pendingWrite counts the running writes of a copy.
type pendingWrite struct {
	writers int
	// observed is the last version from the watch since the first of these writes began.
	// It is nil if there was none.
	observed *string
}

// absent is the version of a Secret that does not exist.
const absent = ""

// newCopyState returns the state of a Secret that has the annotations of a copy.
func newCopyState(annotations map[string]string, uid types.UID, version string) copyState {
	return copyState{
		Copied: share.CopiedOf(annotations), identity: unique.Make(share.IdentityOf(annotations)), uid: uid, version: version,
	}
}

var _ kube.SecretHandler = (*store)(nil)

// OnUpdate implements kube.SecretHandler.
func (s *store) OnUpdate(_ context.Context, secret kube.SecretMeta) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observe(secret.NamespacedName, share.VersionOf(secret.UID, secret.Version), secret.Labels)
	before, wasCopy := s.copies[secret.NamespacedName]
	if wasCopy && before.uid == secret.UID && before.version == secret.Version {
		return // the operator wrote this version
	}
	if share.RuleOf(secret.Annotations) != "" {
		c := newCopyState(secret.Annotations, secret.UID, secret.Version)
		c.held = secret.Held
		s.addCopy(secret.NamespacedName, c)
		s.enqueueCopiesOf(c, secret.Namespace)
	} else {
		s.dropCopy(secret.NamespacedName)
	}
	if wasCopy {
		s.enqueueCopiesOf(before, secret.Namespace)
	}
	s.enqueueWanted(secret.NamespacedName)
}

// OnDelete implements kube.SecretHandler.
func (s *store) OnDelete(_ context.Context, name types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handleDelete(name)
}

func (s *store) handleDelete(name types.NamespacedName) {
	if c, ok := s.copies[name]; ok {
		s.dropCopy(name)
		s.enqueueCopiesOf(c, name.Namespace)
	}
	s.enqueueWanted(name)
	s.observe(name, absent, nil)
}

// OnList implements kube.SecretHandler.
func (s *store) OnList(_ context.Context, exists func(types.NamespacedName) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Collect(maps.Keys(s.copies)) {
		if !exists(name) {
			s.handleDelete(name)
		}
	}
	first := !s.synced
	s.synced = true
	for key, state := range s.rules {
		if first {
			s.addRemovals(state, nil)
		}
		s.markStale(key, state) // the watch may have missed the deletion of a source
		s.enqueueOutOfSync(state)
	}
	for _, r := range s.reading {
		r.outdated = true
	}
}

// observe records a version of a Secret. It enqueues the rules that have the Secret as
// a source or may select it. The caller holds s.mu.
func (s *store) observe(name types.NamespacedName, version string, set labels.Set) {
	if w, ok := s.writes[name]; ok {
		w.observed = &version
	}
	for key := range s.rulesBySource[name.Namespace] {
		if state := s.rules[key]; state.plan.IsAffectedBy(name.Name, version, set) {
			s.markStale(key, state)
		}
	}
	for _, r := range s.reading {
		if r.namespace == name.Namespace {
			r.outdated = true
		}
	}
}

// enqueueCopiesOf enqueues the copies in a namespace for the rule of a copy, or for its successor.
// The caller holds s.mu.
func (s *store) enqueueCopiesOf(c copyState, namespace string) {
	if owner := s.ownerOf(c); owner != nil && s.synced {
		s.syncQueue(workItem{owner.key, namespace})
	}
}

// ownerOf returns the plan of the rule of a copy, or of its successor. It is nil if there is none. The
// caller holds s.mu.
func (s *store) ownerOf(c copyState) *plan {
	key, ok := s.ruleKeys[c.Rule]
	if !ok && c.identity != noIdentity {
		key, ok = s.rulesByIdentity[c.identity]
	}
	if !ok {
		return nil
	}
	return s.rules[key].plan
}

// ownersOf returns the UIDs of a rule and of its predecessors that still have copies. The caller
// holds s.mu.
func (s *store) ownersOf(rule *share.Rule) []string {
	uids := []string{rule.UID}
	if id := identityOf(rule); id != noIdentity {
		for uid := range s.owners[id] {
			if uid != rule.UID {
				uids = append(uids, uid)
			}
		}
	}
	return uids
}

// namespacesWith returns the namespaces with copies of a rule or of its predecessors. The caller
// holds s.mu.
func (s *store) namespacesWith(rule *share.Rule) map[string]struct{} {
	namespaces := map[string]struct{}{}
	for _, uid := range s.ownersOf(rule) {
		for namespace := range s.copiesByRule[uid] {
			namespaces[namespace] = struct{}{}
		}
	}
	return namespaces
}

// copiesIn returns the copies of a rule and of its predecessors in a namespace. The caller holds
// s.mu, and does not change copies meanwhile.
func (s *store) copiesIn(rule *share.Rule, namespace string) iter.Seq2[types.NamespacedName, copyState] {
	return func(yield func(types.NamespacedName, copyState) bool) {
		id := identityOf(rule)
		for _, uid := range s.ownersOf(rule) {
			for name := range s.copiesByRule[uid][namespace] {
				c := s.copies[name]
				if isOurs := uid == rule.UID || c.identity == id; isOurs && !yield(name, c) {
					return
				}
			}
		}
	}
}

// copiesOf returns what the copies of a rule say. It locks the store meanwhile.
func (s *store) copiesOf(rule *share.Rule) iter.Seq[share.Copied] {
	return func(yield func(share.Copied) bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, names := range s.copiesByRule[rule.UID] {
			for name := range names {
				if !yield(s.copies[name].Copied) {
					return
				}
			}
		}
	}
}

// enqueueWanted enqueues the namespace of a Secret for all rules that want a copy with
// its name there. The caller holds s.mu.
func (s *store) enqueueWanted(name types.NamespacedName) {
	for key := range s.rulesByCopy[name.Name] {
		if _, ok := s.rules[key].plan.Targets[name.Namespace]; ok && s.synced {
			s.syncQueue(workItem{key, name.Namespace})
		}
	}
}

// unwantedCopies returns the copies of the rule in a namespace that the plan does not keep. Copies of
// its predecessors are among them, because no other rule ever removes them. In a
// protected namespace there are none, because the operator cannot remove them.
func (s *store) unwantedCopies(p *plan, namespace string) map[types.NamespacedName]copyState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unwantedCopiesLocked(p, namespace)
}

// unwantedCopiesLocked is unwantedCopies for callers that hold s.mu.
func (s *store) unwantedCopiesLocked(p *plan, namespace string) map[types.NamespacedName]copyState {
	if p.Rule.Protects(namespace) {
		return nil
	}
	found := map[types.NamespacedName]copyState{}
	for name, c := range s.copiesIn(p.Rule, namespace) {
		if !p.Keeps(name, c.Copied) {
			found[name] = c
		}
	}
	return found
}

// countCopies returns how many copies of a rule and of its predecessors the operator can remove. It
// returns false before the first list of all Secrets, and while a sync of the rule runs.
func (s *store) countCopies(key kube.Key, rule *share.Rule) (int, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for namespace := range s.namespacesWith(rule) {
		if rule.Protects(namespace) {
			continue
		}
		for range s.copiesIn(rule, namespace) {
			n++
		}
	}
	return n, s.synced && s.inProgress[key] == 0
}

// protectedCopies returns the protected namespaces with copies of a rule, sorted.
func (s *store) protectedCopies(rule *share.Rule) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []string
	for namespace := range s.copiesByRule[rule.UID] {
		if rule.Protects(namespace) {
			found = append(found, namespace)
		}
	}
	slices.Sort(found)
	return found
}

// countExpiring returns how many copies of a rule stay only until the end of the grace.
func (s *store) countExpiring(p *plan) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, names := range s.copiesByRule[p.Rule.UID] {
		for name := range names {
			if p.Expires(name, s.copies[name].Copied) {
				n++
			}
		}
	}
	return n
}

// copyAt returns the state of the copy with this name.
func (s *store) copyAt(name types.NamespacedName) (copyState, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.copies[name]
	return c, ok
}

// beginWrite records the versions of a copy that the watch delivers while the copy is
// read and written. Call end afterwards.
func (s *store) beginWrite(name types.NamespacedName) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writes[name] == nil {
		s.writes[name] = &pendingWrite{}
	}
	s.writes[name].writers++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.writes[name].writers--; s.writes[name].writers == 0 {
			delete(s.writes, name)
		}
	}
}

// recordWrite stores the state of a copy that was just written or read. It ignores the
// state if the watch has delivered another version meanwhile, because the watch event has
// enqueued the copy already.
func (s *store) recordWrite(name types.NamespacedName, c copyState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.writes[name]; w != nil && w.observed != nil && *w.observed != share.VersionOf(c.uid, c.version) {
		return
	}
	before := s.copies[name]
	s.addCopy(name, c)
	if before.Rule != c.Rule {
		s.enqueueCopiesOf(before, name.Namespace) // its rule left it to another one
	}
	if before.Rule != c.Rule || before.content != c.content {
		s.enqueueSharers(name, c)
	}
}

// recordRemoval removes a copy that was deleted or released.
func (s *store) recordRemoval(name types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropCopy(name)
}

// addCopy adds or replaces a copy. The caller holds s.mu.
func (s *store) addCopy(name types.NamespacedName, c copyState) {
	s.dropCopy(name)
	s.copies[name] = c
	s.countOwner(c, 1)
	if s.copiesByRule[c.Rule] == nil {
		s.copiesByRule[c.Rule] = map[string]map[types.NamespacedName]struct{}{}
	}
	insert(s.copiesByRule[c.Rule], name.Namespace, name)
}

// dropCopy removes a copy. The caller holds s.mu.
func (s *store) dropCopy(name types.NamespacedName) {
	c, ok := s.copies[name]
	if !ok {
		return
	}
	delete(s.copies, name)
	s.countOwner(c, -1)
	discard(s.copiesByRule[c.Rule], name.Namespace, name)
	if len(s.copiesByRule[c.Rule]) == 0 {
		delete(s.copiesByRule, c.Rule)
	}
}

// countOwner adds to the number of copies of a rule. The caller holds s.mu.
func (s *store) countOwner(c copyState, n int) {
	if c.identity == noIdentity {
		return
	}
	uids := s.owners[c.identity]
	if uids == nil {
		uids = map[string]int{}
		s.owners[c.identity] = uids
	}
	if uids[c.Rule] += n; uids[c.Rule] == 0 {
		delete(uids, c.Rule)
	}
	if len(uids) == 0 {
		delete(s.owners, c.identity)
	}
}
