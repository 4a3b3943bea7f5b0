package secretshare

import (
	"iter"
	"unique"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
)

// copies are all copies in the cluster. Their methods do not lock: the store does.
type copies struct {
	// listed is set after the first list of all Secrets.
	listed bool
	byName map[types.NamespacedName]copyState
	// byRule indexes the copies by UID of the rule, then by namespace.
	byRule map[string]map[string]map[types.NamespacedName]struct{}
	// owners counts the copies by identity of their rule, then by its UID. Only one rule of an
	// identity exists. The others are its predecessors.
	owners map[identity]map[string]int
	// writes are the copies that are being written.
	writes map[types.NamespacedName]*pendingWrite
}

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

// newCopyState returns the state of a Secret that has the annotations of a copy.
func newCopyState(annotations map[string]string, uid types.UID, version string) copyState {
	return copyState{
		Copied: share.CopiedOf(annotations), identity: unique.Make(share.IdentityOf(annotations)), uid: uid, version: version,
	}
}

// set adds or replaces a copy.
func (c *copies) set(name types.NamespacedName, state copyState) {
	c.drop(name)
	c.byName[name] = state
	c.count(state, 1)
	if c.byRule[state.Rule] == nil {
		c.byRule[state.Rule] = map[string]map[types.NamespacedName]struct{}{}
	}
	insert(c.byRule[state.Rule], name.Namespace, name)
}

// drop removes a copy.
func (c *copies) drop(name types.NamespacedName) {
	state, ok := c.byName[name]
	if !ok {
		return
	}
	delete(c.byName, name)
	c.count(state, -1)
	discard(c.byRule[state.Rule], name.Namespace, name)
	if len(c.byRule[state.Rule]) == 0 {
		delete(c.byRule, state.Rule)
	}
}

// count adds to the number of copies of a rule.
func (c *copies) count(state copyState, n int) {
	if state.identity == noIdentity {
		return
	}
	uids := c.owners[state.identity]
	if uids == nil {
		uids = map[string]int{}
		c.owners[state.identity] = uids
	}
	if uids[state.Rule] += n; uids[state.Rule] == 0 {
		delete(uids, state.Rule)
	}
	if len(uids) == 0 {
		delete(c.owners, state.identity)
	}
}

// ownersOf returns the UIDs of a rule and of its predecessors that still have copies.
func (c *copies) ownersOf(rule *share.Rule) []string {
	uids := []string{rule.UID}
	if id := identityOf(rule); id != noIdentity {
		for uid := range c.owners[id] {
			if uid != rule.UID {
				uids = append(uids, uid)
			}
		}
	}
	return uids
}

// namespacesWith returns the namespaces with copies of a rule or of its predecessors.
func (c *copies) namespacesWith(rule *share.Rule) map[string]struct{} {
	namespaces := map[string]struct{}{}
	for _, uid := range c.ownersOf(rule) {
		for namespace := range c.byRule[uid] {
			namespaces[namespace] = struct{}{}
		}
	}
	return namespaces
}

// in returns the copies of a rule and of its predecessors in a namespace. Do not change copies
// meanwhile.
func (c *copies) in(rule *share.Rule, namespace string) iter.Seq2[types.NamespacedName, copyState] {
	return func(yield func(types.NamespacedName, copyState) bool) {
		id := identityOf(rule)
		for _, uid := range c.ownersOf(rule) {
			for name := range c.byRule[uid][namespace] {
				state := c.byName[name]
				if isOurs := uid == rule.UID || state.identity == id; isOurs && !yield(name, state) {
					return
				}
			}
		}
	}
}

// of returns the copies of a rule.
func (c *copies) of(rule *share.Rule) iter.Seq2[types.NamespacedName, copyState] {
	return func(yield func(types.NamespacedName, copyState) bool) {
		for _, names := range c.byRule[rule.UID] {
			for name := range names {
				if !yield(name, c.byName[name]) {
					return
				}
			}
		}
	}
}

// unwanted returns the copies of the rule in a namespace that the plan does not keep. Copies of
// its predecessors are among them, because no other rule ever removes them. In a
// protected namespace there are none, because the operator cannot remove them.
func (c *copies) unwanted(p *plan, namespace string) map[types.NamespacedName]copyState {
	if p.Rule.Protects(namespace) {
		return nil
	}
	found := map[types.NamespacedName]copyState{}
	for name, state := range c.in(p.Rule, namespace) {
		if !p.Keeps(name, state.Copied) {
			found[name] = state
		}
	}
	return found
}

// insert adds a key to the set of a name.
func insert[K comparable](sets map[string]map[K]struct{}, name string, key K) {
	if sets[name] == nil {
		sets[name] = map[K]struct{}{}
	}
	sets[name][key] = struct{}{}
}

// discard removes a key from the set of a name, and removes an empty set.
func discard[K comparable](sets map[string]map[K]struct{}, name string, key K) {
	delete(sets[name], key)
	if len(sets[name]) == 0 {
		delete(sets, name)
	}
}
