package secretshare

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// store contains the plans of all rules and all copies in the cluster. It is safe for
// concurrent use: each of its methods locks it. The methods of its parts do not.
type store struct {
	mu     sync.Mutex
	copies copies
	rules  rules
	queue  queue
}

func newStore() *store {
	s := &store{
		copies: copies{
			byName: map[types.NamespacedName]copyState{}, byRule: map[string]map[string]map[types.NamespacedName]struct{}{},
			owners: map[identity]map[string]int{}, writes: map[types.NamespacedName]*pendingWrite{},
		},
		rules: rules{
			byKey: map[kube.Key]*ruleState{}, byUID: map[string]kube.Key{}, byIdentity: map[identity]kube.Key{},
			byCopy: map[string]map[kube.Key]struct{}{}, bySource: map[string]map[kube.Key]struct{}{},
			decided: map[kube.Key]decision{}, refused: map[kube.Key]struct{}{}, reading: map[kube.Key]*sourceRead{}, inProgress: map[kube.Key]int{},
		},
		queue: queue{enqueueRule: map[string]func(kube.Key){}, enqueueItem: func(workItem) {}},
	}
	s.rules.copies, s.queue.copies, s.queue.rules = &s.copies, &s.copies, &s.rules
	return s
}

// setRuleQueue sets the function that enqueues rules of a kind.
func (s *store) setRuleQueue(kind string, enqueue func(kube.Key)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue.enqueueRule[kind] = enqueue
}

// setSyncQueue sets the function that enqueues work items.
func (s *store) setSyncQueue(enqueue func(workItem)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue.enqueueItem = enqueue
	for _, state := range s.rules.byKey {
		s.queue.outOfSync(state)
	}
}

// enqueue enqueues a rule.
func (s *store) enqueue(key kube.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue.rule(key)
}

var _ kube.SecretHandler = (*store)(nil)

// OnUpdate implements kube.SecretHandler.
func (s *store) OnUpdate(_ context.Context, secret kube.SecretMeta) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue.observed(secret.NamespacedName, share.VersionOf(secret.UID, secret.Version), secret.Labels)
	before, wasCopy := s.copies.byName[secret.NamespacedName]
	if wasCopy && before.uid == secret.UID && before.version == secret.Version {
		return // the operator wrote this version
	}
	if share.RuleOf(secret.Annotations) != "" {
		c := newCopyState(secret.Annotations, secret.UID, secret.Version)
		c.held = secret.Held
		s.copies.set(secret.NamespacedName, c)
		s.queue.owner(c, secret.Namespace)
	} else {
		s.copies.drop(secret.NamespacedName)
	}
	if wasCopy {
		s.queue.owner(before, secret.Namespace)
	}
	s.queue.wanting(secret.NamespacedName, "")
}

// OnDelete implements kube.SecretHandler.
func (s *store) OnDelete(_ context.Context, name types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue.deleted(name)
}

// OnList implements kube.SecretHandler.
func (s *store) OnList(_ context.Context, exists func(types.NamespacedName) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Collect(maps.Keys(s.copies.byName)) {
		if !exists(name) {
			s.queue.deleted(name)
		}
	}
	first := !s.copies.listed
	s.copies.listed = true
	for key, state := range s.rules.byKey {
		if first {
			s.rules.addRemovals(state, nil)
		}
		s.queue.stale(key, state) // the watch may have missed the deletion of a source
		s.queue.outOfSync(state)
	}
	for _, r := range s.rules.reading {
		r.outdated = true
	}
}

// setPlan sets the plan of a rule and enqueues the namespaces that are out of sync. A
// plan that equals the present one changes nothing: it does not shorten the backoff of
// failed syncs.
func (s *store) setPlan(p *plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.rules.refused, p.key)
	state, ok := s.rules.byKey[p.key]
	if !ok {
		state = &ruleState{results: map[string]syncResult{}, removals: map[string]int{}}
		s.rules.byKey[p.key] = state
	}
	if r, ok := s.rules.reading[p.key]; ok {
		state.stale = false
		delete(s.rules.reading, p.key)
		if r.outdated {
			s.queue.stale(p.key, state)
		}
	}
	if state.plan != nil && state.plan.Equal(&p.Plan) {
		return
	}
	before := state.plan
	s.rules.unindex(before)
	state.plan, state.gone = p, time.Time{}
	s.rules.index(p)
	var former *share.Plan
	if before != nil && before.Rule.UID == p.Rule.UID {
		former = &before.Plan
	}
	s.rules.addRemovals(state, former)
	s.queue.outOfSync(state)
	s.queue.sharers(before)
	s.queue.sharers(p)
}

// planOf returns the plan of a rule. It returns false if there is none, or before the
// first list of all Secrets.
func (s *store) planOf(key kube.Key) (*plan, bool) {
	p, listed := s.lastPlan(key)
	return p, p != nil && listed
}

// lastPlan returns the plan of a rule, or nil. listed is false before the first list of all Secrets.
func (s *store) lastPlan(key kube.Key) (last *plan, listed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state, ok := s.rules.byKey[key]; ok {
		last = state.plan
	}
	return last, s.copies.listed
}

// refuse is forget for a rule that exceeds the limits of memory.
func (s *store) refuse(key kube.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue.sharers(s.rules.forget(key))
	s.rules.refused[key] = struct{}{}
}

// forget removes the plan and the results of a rule, but not its copies.
func (s *store) forget(key kube.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue.sharers(s.rules.forget(key))
}

// keepGone returns how long the plan of a rule that does not exist any more is still needed, 0 if it is not. The
// plan removes a copy that a former leader creates after the last copy was removed. The request for it can have been
// in flight when that leader was paused.
func (s *store) keepGone(key kube.Key, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, ok := s.rules.byKey[key]
	if !ok || !state.plan.Deleting {
		return 0
	}
	if state.gone.IsZero() && s.rules.gone() < maxGone {
		state.gone = now
	}
	return state.gone.Add(lateWrites).Sub(now)
}

// setDecided records that the store has the plan for the present spec of a rule, or needs none.
func (s *store) setDecided(key kube.Key, rule client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules.decided[key] = decisionOf(rule)
}

// isDecided reports whether setDecided was called for each of these rules. Those that are being deleted
// do not count.
func (s *store) isDecided(kind string, rules []client.Object) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rule := range rules {
		key := kube.Key{Kind: kind, Namespace: rule.GetNamespace(), Name: rule.GetName()}
		if rule.GetDeletionTimestamp().IsZero() && s.rules.decided[key] != decisionOf(rule) {
			return false
		}
	}
	return true
}

// beginRead starts a read of a rule's sources. The next call of setPlan ends it. If a
// Secret changes in between, the rule is enqueued again.
func (s *store) beginRead(key kube.Key, rule *share.Rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules.reading[key] = &sourceRead{namespace: rule.Namespace}
}

// cachedSources returns the sources of the last plan of the same rule. It returns false if
// the sources or the rule may have changed since.
func (s *store) cachedSources(p *plan) (share.Sources, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, ok := s.rules.byKey[p.key]
	if !ok || state.stale || state.plan.Unknown || state.plan.Skipped ||
		state.plan.Generation != p.Generation || state.plan.Rule.UID != p.Rule.UID {
		return share.Sources{}, false
	}
	return state.plan.Sources, true
}

// readAgain enqueues the rule of a plan whose sources have changed.
func (s *store) readAgain(p *plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state, ok := s.rules.byKey[p.key]; ok && state.plan == p {
		s.queue.stale(p.key, state)
	}
}

// beginSync returns the plan to apply, like planOf. Call endSync when it is applied.
func (s *store) beginSync(item workItem) (*plan, bool) {
	p, ok := s.planOf(item.Rule)
	if ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.rules.inProgress[item.Rule]++
	}
	return p, ok
}

// endSync stores the result of a sync and returns the number of consecutive failures. If
// the plan has changed during the sync, it enqueues the work item again instead.
func (s *store) endSync(item workItem, p *plan, r syncResult) (attempts int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rules.inProgress[item.Rule]--; s.rules.inProgress[item.Rule] == 0 {
		delete(s.rules.inProgress, item.Rule)
	}
	state, ok := s.rules.byKey[item.Rule]
	if !ok {
		return 0
	}
	if state.plan != p {
		// The sync may have written what the new plan does not want. The store did not know
		// this when the new plan was set.
		s.queue.item(item.Rule, item.Namespace)
		s.queue.rule(item.Rule)
		return 0
	}
	before := state.results[item.Namespace]
	if !r.ok() {
		r.attempts = before.attempts + 1
	}
	_, isTarget := p.Targets[item.Namespace]
	if r.ok() && !isTarget && r.unwantedSince.IsZero() {
		delete(state.results, item.Namespace)
	} else {
		state.results[item.Namespace] = r
	}
	s.queue.rule(item.Rule)
	return r.attempts
}

// resultsOf returns the results of a rule's syncs, by namespace.
func (s *store) resultsOf(key kube.Key) map[string]syncResult {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state, ok := s.rules.byKey[key]; ok {
		return maps.Clone(state.results)
	}
	return nil
}

// takeRemovals returns the number of copies that were not announced yet, by cause.
func (s *store) takeRemovals(key kube.Key) map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, ok := s.rules.byKey[key]
	if !ok {
		return nil
	}
	removals := state.removals
	state.removals = map[string]int{}
	return removals
}

// copyAt returns the state of the copy with this name.
func (s *store) copyAt(name types.NamespacedName) (copyState, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.copies.byName[name]
	return c, ok
}

// copiesOf returns what the copies of a rule say. It locks the store meanwhile.
func (s *store) copiesOf(rule *share.Rule) iter.Seq[share.Copied] {
	return func(yield func(share.Copied) bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, c := range s.copies.of(rule) {
			if !yield(c.Copied) {
				return
			}
		}
	}
}

// copiesFor returns the copies of a SecretShare in the namespace of a grant: those that it
// wants, and those that it holds. It returns false if their state is unknown.
func (s *store) copiesFor(grant *v1alpha1.SecretShareGrant, key kube.Key, rule *v1alpha1.SecretShare) ([]share.Granted, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.copies.listed {
		return nil, false
	}
	existing := s.copies.byRule[string(rule.UID)][grant.Namespace]
	held := share.HeldProblem(rule)
	var copies []share.Granted
	add := func(name string, c share.Granted) {
		c.Name, c.SecretShare = name, rule.Namespace+"/"+rule.Name
		copies = append(copies, c)
	}
	if _, refused := s.rules.refused[key]; refused || rule.Spec.Suspend {
		for name := range existing {
			add(name.Name, share.Granted{Problem: held})
		}
		return copies, true
	}
	state, ok := s.rules.byKey[key]
	if !ok || state.plan.Grants[grant.UID].Generation != grant.Generation {
		return nil, false
	}
	names, denied := state.plan.CopiesIn(grant.Namespace)
	result := state.results[grant.Namespace]
	if !result.done && len(names)+len(denied) > 0 {
		return nil, false
	}
	for _, name := range names {
		add(name, share.Granted{Problem: s.rules.problemOf(state, result, types.NamespacedName{Namespace: grant.Namespace, Name: name})})
	}
	for _, name := range denied {
		add(name, share.Granted{Problem: result.problems[name], Denied: true})
	}
	for name := range existing {
		if !slices.Contains(names, name.Name) && state.plan.Keeps(name, s.copies.byName[name].Copied) {
			add(name.Name, share.Granted{Problem: held})
		}
	}
	return copies, true
}

// unwantedCopies returns the copies in a namespace that a plan does not keep. since is when a sync
// first found some. It is zero if the last sync found none.
func (s *store) unwantedCopies(p *plan, namespace string) (unwanted map[types.NamespacedName]copyState, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state, ok := s.rules.byKey[p.key]; ok {
		since = state.results[namespace].unwantedSince
	}
	return s.copies.unwanted(p, namespace), since
}

// protectedCopies returns the protected namespaces with copies of a rule, sorted.
func (s *store) protectedCopies(rule *share.Rule) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []string
	for namespace := range s.copies.byRule[rule.UID] {
		if rule.Protects(namespace) {
			found = append(found, namespace)
		}
	}
	slices.Sort(found)
	return found
}

// countCopies returns how many copies of a rule and of its predecessors the operator can remove. It
// returns false before the first list of all Secrets, and while a sync of the rule runs.
func (s *store) countCopies(key kube.Key, rule *share.Rule) (int, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for namespace := range s.copies.namespacesWith(rule) {
		if rule.Protects(namespace) {
			continue
		}
		for range s.copies.in(rule, namespace) {
			n++
		}
	}
	return n, s.copies.listed && s.rules.inProgress[key] == 0
}

// countExpiring returns how many copies of a rule stay only until the end of the grace.
func (s *store) countExpiring(p *plan) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for name, c := range s.copies.of(p.Rule) {
		if p.Expires(name, c.Copied) {
			n++
		}
	}
	return n
}

// sharedAt describes the copy with this name for a plan that wants it.
func (s *store) sharedAt(p *plan, name types.NamespacedName) sharedCopy {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rules.sharedAt(p, name)
}

// leave reports whether another rule takes over a copy that a plan does not keep, and enqueues it.
func (s *store) leave(p *plan, name types.NamespacedName, c copyState) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	heir := s.rules.heirOf(p, name, c)
	if heir != nil {
		s.queue.item(heir.key, name.Namespace)
	}
	return heir != nil
}

// beginWrite records the versions of a copy that the watch delivers while the copy is
// read and written. Call end afterwards.
func (s *store) beginWrite(name types.NamespacedName) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.copies.writes[name] == nil {
		s.copies.writes[name] = &pendingWrite{}
	}
	s.copies.writes[name].writers++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.copies.writes[name].writers--; s.copies.writes[name].writers == 0 {
			delete(s.copies.writes, name)
		}
	}
}

// recordWrite stores the state of a copy that was just written or read. It ignores the
// state if the watch has delivered another version meanwhile, because the watch event has
// enqueued the copy already.
func (s *store) recordWrite(name types.NamespacedName, c copyState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.copies.writes[name]; w != nil && w.observed != nil && *w.observed != share.VersionOf(c.uid, c.version) {
		return
	}
	before := s.copies.byName[name]
	s.copies.set(name, c)
	if before.Rule != c.Rule {
		s.queue.owner(before, name.Namespace) // its rule left it to another one
	}
	if before.Rule != c.Rule || before.content != c.content {
		s.queue.wanting(name, c.Rule)
	}
}

// recordRemoval removes a copy that was deleted or released.
func (s *store) recordRemoval(name types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.copies.drop(name)
}

// count returns a number of the parts.
func (s *store) count(of func() int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return of()
}
