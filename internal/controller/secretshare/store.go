package secretshare

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// workItem is one unit of work of the syncer: the copies of a rule in a namespace.
type workItem struct {
	Rule      kube.Key
	Namespace string
}

// store contains the plans of all rules and all copies in the cluster. It is safe for
// concurrent use.
type store struct {
	mu sync.Mutex
	// synced is set after the first list of all Secrets.
	synced   bool
	rules    map[kube.Key]*ruleState
	ruleKeys map[string]kube.Key // by UID of the rule
	// decided are the rules whose present spec the store knows, also those without a plan.
	decided map[kube.Key]decision
	// refused are the rules that exceed the limits of memory. They have no plan.
	refused map[kube.Key]struct{}
	// reading are the rules whose sources are being read.
	reading map[kube.Key]*sourceRead
	// inProgress counts the running syncs of a rule.
	inProgress map[kube.Key]int
	// writes are the copies that are being written.
	writes map[types.NamespacedName]*pendingWrite
	copies map[types.NamespacedName]copyState
	// copiesByRule indexes copies by UID of the rule, then by namespace.
	copiesByRule map[string]map[string]map[types.NamespacedName]struct{}
	// owners counts the copies by identity of their rule, then by its UID. Only one rule of an
	// identity exists. The others are its predecessors.
	owners map[identity]map[string]int
	// rulesByIdentity are the rules that have a plan.
	rulesByIdentity map[identity]kube.Key
	// rulesByCopy indexes the rules by the names of their wanted copies.
	rulesByCopy map[string]map[kube.Key]struct{}
	// rulesBySource indexes the rules by the namespace of their sources.
	rulesBySource map[string]map[kube.Key]struct{}

	// ruleQueues enqueue a rule, by kind. syncQueue enqueues a work item.
	ruleQueues map[string]func(kube.Key)
	syncQueue  func(workItem)
}

// ruleState is the plan of a rule and the results of its syncs.
type ruleState struct {
	plan    *plan
	results map[string]syncResult // by namespace
	// stale means that a source may have changed since the plan was made.
	stale bool
	// removals count the copies that are being removed and that no Event has announced yet, by
	// cause.
	removals map[string]int
}

// syncResult is the state of a rule's copies in one namespace.
type syncResult struct {
	synced, conflicted, failed int
	// reason and message describe the first problem.
	reason, message string
	// problems are the problems of single copies, by their names.
	problems map[string]share.Problem
	// attempts counts the consecutive failures.
	attempts int
	// done means that a sync has applied the plan, as far as possible.
	done bool
	// shared counts the copies that belong to other rules, by their names.
	shared map[string]int
	// unwantedSince is when a sync first found copies that the rule does not want. It is zero if there
	// are none.
	unwantedSince time.Time
}

// ok reports whether there is no problem.
func (r *syncResult) ok() bool { return r.conflicted+r.failed == 0 }

// addProblem adds the problem of a copy. The first one describes the namespace.
func (r *syncResult) addProblem(name, reason, message string) {
	message = plaintext.Cut(message, share.MaxMessage)
	if r.reason == "" {
		r.reason, r.message = reason, message
	}
	if r.problems == nil {
		r.problems = map[string]share.Problem{}
	}
	r.problems[name] = share.Problem{Reason: reason, Message: message}
}

// sourceRead is a running read of a rule's sources.
type sourceRead struct {
	namespace string
	// outdated means that a Secret in the namespace has changed since the read began.
	outdated bool
}

func newStore() *store {
	return &store{
		rules: map[kube.Key]*ruleState{}, ruleKeys: map[string]kube.Key{}, copies: map[types.NamespacedName]copyState{},
		decided: map[kube.Key]decision{}, refused: map[kube.Key]struct{}{}, reading: map[kube.Key]*sourceRead{}, inProgress: map[kube.Key]int{}, writes: map[types.NamespacedName]*pendingWrite{},
		copiesByRule: map[string]map[string]map[types.NamespacedName]struct{}{}, rulesByCopy: map[string]map[kube.Key]struct{}{},
		rulesBySource: map[string]map[kube.Key]struct{}{},
		owners:        map[identity]map[string]int{}, rulesByIdentity: map[identity]kube.Key{},
		ruleQueues: map[string]func(kube.Key){}, syncQueue: func(workItem) {},
	}
}

// setRuleQueue sets the function that enqueues rules of a kind.
func (s *store) setRuleQueue(kind string, enqueue func(kube.Key)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ruleQueues[kind] = enqueue
}

// setSyncQueue sets the function that enqueues work items.
func (s *store) setSyncQueue(enqueue func(workItem)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.syncQueue = enqueue
	for _, state := range s.rules {
		if s.synced {
			s.enqueueOutOfSync(state)
		}
	}
}

// enqueueRule enqueues a rule. The caller holds s.mu.
func (s *store) enqueueRule(key kube.Key) {
	if enqueue, ok := s.ruleQueues[key.Kind]; ok {
		enqueue(key)
	}
}

// setPlan sets the plan of a rule and enqueues the namespaces that are out of sync. A
// plan that equals the present one changes nothing: it does not shorten the backoff of
// failed syncs.
func (s *store) setPlan(p *plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.refused, p.key)
	state, ok := s.rules[p.key]
	if !ok {
		state = &ruleState{results: map[string]syncResult{}}
		s.rules[p.key] = state
	}
	if r, ok := s.reading[p.key]; ok {
		state.stale = false
		delete(s.reading, p.key)
		if r.outdated {
			s.markStale(p.key, state)
		}
	}
	if state.plan != nil && state.plan.Equal(&p.Plan) {
		return
	}
	before := state.plan
	s.unindex(before)
	state.plan = p
	s.index(p)
	var former *share.Plan
	if before != nil && before.Rule.UID == p.Rule.UID {
		former = &before.Plan
	}
	s.addRemovals(state, former)
	if s.synced {
		s.enqueueOutOfSync(state)
	}
	s.enqueueSharersOf(before)
	s.enqueueSharersOf(p)
}

// planOf returns the plan of a rule. It returns false if there is none, or before the
// first list of all Secrets.
func (s *store) planOf(key kube.Key) (*plan, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, ok := s.rules[key]
	if !ok || !s.synced {
		return nil, false
	}
	return state.plan, true
}

// lastPlan returns the plan that a rule with this UID has, or nil. listed is false before the first
// list of all Secrets.
func (s *store) lastPlan(key kube.Key, uid string) (last *share.Plan, listed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state, ok := s.rules[key]; ok && state.plan.Rule.UID == uid {
		return &state.plan.Plan, s.synced
	}
	return nil, s.synced
}

// namespaceOf returns the UID of a SecretShare's namespace, or none if the present plan does
// not contain it.
func (s *store) namespaceOf(key kube.Key, uid types.UID) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state, ok := s.rules[key]; ok && state.plan.Rule.UID == string(uid) {
		return state.plan.Rule.NamespaceUID
	}
	return ""
}

// resultsOf returns the results of a rule's syncs, by namespace.
func (s *store) resultsOf(key kube.Key) map[string]syncResult {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state, ok := s.rules[key]; ok {
		return maps.Clone(state.results)
	}
	return nil
}

// addRemovals adds the copies that the plan of a rule removes, by cause. It does not add those that
// another rule takes over, or that the plan before also removed. before is nil if there was none. The
// caller holds s.mu.
func (s *store) addRemovals(state *ruleState, before *share.Plan) {
	p := state.plan
	if !s.synced {
		return // the first list of all Secrets calls it again
	}
	for namespace := range s.namespacesWith(p.Rule) {
		if _, terminating := p.Terminating[namespace]; terminating || p.Rule.Protects(namespace) {
			continue
		}
		for name, c := range s.copiesIn(p.Rule, namespace) {
			if p.Keeps(name, c.Copied) || before != nil && !before.Keeps(name, c.Copied) || s.heirOf(p, name, c) != nil {
				continue
			}
			state.countRemoval(p.WhyRemoved(before, name, c.Copied))
		}
	}
}

func (r *ruleState) countRemoval(cause string) {
	if r.removals == nil {
		r.removals = map[string]int{}
	}
	r.removals[cause]++
}

// takeRemovals returns the number of copies that were not announced yet, by cause.
func (s *store) takeRemovals(key kube.Key) map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, ok := s.rules[key]
	if !ok {
		return nil
	}
	removals := state.removals
	state.removals = nil
	return removals
}

// enqueue enqueues a rule.
func (s *store) enqueue(key kube.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enqueueRule(key)
}

// refuse is forget for a rule that exceeds the limits of memory.
func (s *store) refuse(key kube.Key) {
	s.forget(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[key] = struct{}{}
}

// forget removes the plan and the results of a rule, but not its copies.
func (s *store) forget(key kube.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.refused, key)
	delete(s.reading, key)
	delete(s.decided, key)
	state, ok := s.rules[key]
	if !ok {
		return
	}
	s.unindex(state.plan)
	delete(s.rules, key)
	s.enqueueSharersOf(state.plan)
}

// cachedSources returns the sources of the last plan of the same rule. It returns false if
// the sources or the rule may have changed since.
func (s *store) cachedSources(p *plan) (share.Sources, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, ok := s.rules[p.key]
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
	if state, ok := s.rules[p.key]; ok && state.plan == p {
		s.markStale(p.key, state)
	}
}

// beginRead starts a read of a rule's sources. The next call of setPlan ends it. If a
// Secret changes in between, the rule is enqueued again.
func (s *store) beginRead(key kube.Key, rule *share.Rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading[key] = &sourceRead{namespace: rule.Namespace}
}

// beginSync returns the plan to apply, like planOf. Call endSync when it is applied.
func (s *store) beginSync(item workItem) (*plan, bool) {
	p, ok := s.planOf(item.Rule)
	if ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.inProgress[item.Rule]++
	}
	return p, ok
}

// endSync stores the result of a sync and returns the number of consecutive failures. If
// the plan has changed during the sync, it enqueues the work item again instead.
func (s *store) endSync(item workItem, p *plan, r syncResult) (attempts int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inProgress[item.Rule]--; s.inProgress[item.Rule] == 0 {
		delete(s.inProgress, item.Rule)
	}
	state, ok := s.rules[item.Rule]
	if !ok {
		return 0
	}
	if state.plan != p {
		// The sync may have written what the new plan does not want. The store did not know
		// this when the new plan was set.
		s.syncQueue(item)
		s.enqueueRule(item.Rule)
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
	s.enqueueRule(item.Rule)
	return r.attempts
}

// markStale enqueues a rule and marks that its sources must be read again. The caller
// holds s.mu.
func (s *store) markStale(key kube.Key, state *ruleState) {
	state.stale = true
	s.enqueueRule(key)
}

// enqueueOutOfSync enqueues all namespaces of a rule that are not in sync. The caller
// holds s.mu.
func (s *store) enqueueOutOfSync(state *ruleState) {
	for namespace := range s.namespacesOf(state) {
		if !s.inSync(state, namespace) {
			if r := state.results[namespace]; r.ok() {
				state.results[namespace] = syncResult{unwantedSince: r.unwantedSince} // the others belong to a former plan
			}
			s.syncQueue(workItem{state.plan.key, namespace})
		}
	}
}

// namespacesOf returns the namespaces that have copies of a rule or of its predecessors, should have
// copies, or have a result.
func (s *store) namespacesOf(state *ruleState) map[string]struct{} {
	namespaces := s.namespacesWith(state.plan.Rule)
	for namespace := range state.plan.Targets {
		namespaces[namespace] = struct{}{}
	}
	for namespace := range state.results {
		namespaces[namespace] = struct{}{}
	}
	return namespaces
}

// inSync reports whether a namespace has exactly the wanted copies, as far as the store
// knows. The caller holds s.mu.
func (s *store) inSync(state *ruleState, namespace string) bool {
	names, denied := state.plan.CopiesIn(namespace)
	r, ok := state.results[namespace]
	if !ok && len(names)+len(denied) == 0 {
		return len(s.unwantedCopiesLocked(state.plan, namespace)) == 0 // there is nothing to do
	}
	if !r.done || !r.ok() {
		return false
	}
	if r.synced != len(names) || len(denied) > 0 {
		return false
	}
	for _, name := range names {
		if !s.isWritten(state.plan, types.NamespacedName{Namespace: namespace, Name: name}) {
			return false
		}
	}
	return len(s.unwantedCopiesLocked(state.plan, namespace)) == 0
}

// index adds a plan to the indexes. The caller holds s.mu.
func (s *store) index(p *plan) {
	s.ruleKeys[p.Rule.UID] = p.key
	s.rulesByIdentity[identityOf(p.Rule)] = p.key
	insert(s.rulesBySource, p.Rule.Namespace, p.key)
	for name := range p.Wanted {
		insert(s.rulesByCopy, name, p.key)
	}
}

// unindex removes a plan from the indexes. The caller holds s.mu.
func (s *store) unindex(p *plan) {
	if p == nil {
		return
	}
	delete(s.ruleKeys, p.Rule.UID)
	delete(s.rulesByIdentity, identityOf(p.Rule))
	discard(s.rulesBySource, p.Rule.Namespace, p.key)
	for name := range p.Wanted {
		discard(s.rulesByCopy, name, p.key)
	}
}

// copiesFor returns the copies of a SecretShare in the namespace of a grant: those that it
// wants, and those that it holds. It returns false if their state is unknown.
func (s *store) copiesFor(grant *v1alpha1.SecretShareGrant, key kube.Key, rule *v1alpha1.SecretShare) ([]share.Granted, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.synced {
		return nil, false
	}
	existing := s.copiesByRule[string(rule.UID)][grant.Namespace]
	held := share.HeldProblem(rule)
	var copies []share.Granted
	add := func(name string, c share.Granted) {
		c.Name, c.SecretShare = name, rule.Namespace+"/"+rule.Name
		copies = append(copies, c)
	}
	if _, refused := s.refused[key]; refused || rule.Spec.Suspend {
		for name := range existing {
			add(name.Name, share.Granted{Problem: held})
		}
		return copies, true
	}
	state, ok := s.rules[key]
	if !ok || state.plan.Grants[grant.UID].Generation != grant.Generation {
		return nil, false
	}
	names, denied := state.plan.CopiesIn(grant.Namespace)
	result := state.results[grant.Namespace]
	if !result.done && len(names)+len(denied) > 0 {
		return nil, false
	}
	for _, name := range names {
		add(name, share.Granted{Problem: s.problemOf(state, result, types.NamespacedName{Namespace: grant.Namespace, Name: name})})
	}
	for _, name := range denied {
		add(name, share.Granted{Problem: result.problems[name], Denied: true})
	}
	for name := range existing {
		if !slices.Contains(names, name.Name) && state.plan.Keeps(name, s.copies[name].Copied) {
			add(name.Name, share.Granted{Problem: held})
		}
	}
	return copies, true
}

// exceedsNames reports whether the plan of a SecretShare leaves out names of a grant, because
// they are too many.
func (s *store) exceedsNames(key kube.Key, grant types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, ok := s.rules[key]
	return ok && state.plan.Grants[grant].Exceeds
}

// problemOf returns the problem of a wanted copy, or an empty one if the copy is up to
// date. The caller holds s.mu.
func (s *store) problemOf(state *ruleState, result syncResult, name types.NamespacedName) share.Problem {
	if s.isWritten(state.plan, name) {
		return share.Problem{}
	}
	return cmp.Or(result.problems[name.Name], share.Problem{Reason: v1alpha1.ReasonCopying, Message: "the copy is being written"})
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
