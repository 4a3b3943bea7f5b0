package secretshare

import (
	"cmp"
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// rules are the plans of all rules and the results of their syncs. Their methods do not lock: the store does.
type rules struct {
	copies *copies
	byKey  map[kube.Key]*ruleState
	byUID  map[string]kube.Key
	// byIdentity are the rules that have a plan.
	byIdentity map[identity]kube.Key
	// byCopy indexes the rules by the names of their wanted copies.
	byCopy map[string]map[kube.Key]struct{}
	// bySource indexes the rules by the namespace of their sources.
	bySource map[string]map[kube.Key]struct{}
	// decided are the rules whose present spec the store knows, also those without a plan.
	decided map[kube.Key]decision
	// refused are the rules that exceed the limits of memory. They have no plan.
	refused map[kube.Key]struct{}
	// reading are the rules whose sources are being read.
	reading map[kube.Key]*sourceRead
	// inProgress counts the running syncs of a rule.
	inProgress map[kube.Key]int
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
	// gone is since when the rule has not existed. It is zero if it exists.
	gone time.Time
}

// lateWrites is how long the plan of a rule that does not exist stays, and maxGone is the number of such plans.
const (
	lateWrites = 10 * time.Minute
	maxGone    = 1_000
)

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

// decision identifies the spec of a rule for which the store has a plan, or needs none.
type decision struct {
	uid        types.UID
	generation int64
}

func decisionOf(rule client.Object) decision {
	return decision{rule.GetUID(), rule.GetGeneration()}
}

// index adds a plan to the indexes.
func (r *rules) index(p *plan) {
	r.byUID[p.Rule.UID] = p.key
	r.byIdentity[identityOf(p.Rule)] = p.key
	insert(r.bySource, p.Rule.Namespace, p.key)
	for name := range p.Wanted {
		insert(r.byCopy, name, p.key)
	}
}

// unindex removes a plan from the indexes. p is nil if there is none.
func (r *rules) unindex(p *plan) {
	if p == nil {
		return
	}
	delete(r.byUID, p.Rule.UID)
	delete(r.byIdentity, identityOf(p.Rule))
	discard(r.bySource, p.Rule.Namespace, p.key)
	for name := range p.Wanted {
		discard(r.byCopy, name, p.key)
	}
}

// forget removes the plan and the results of a rule, and returns the plan. It is nil if there is none.
func (r *rules) forget(key kube.Key) *plan {
	delete(r.refused, key)
	delete(r.reading, key)
	delete(r.decided, key)
	state, ok := r.byKey[key]
	if !ok {
		return nil
	}
	r.unindex(state.plan)
	delete(r.byKey, key)
	return state.plan
}

// gone returns the number of plans of rules that do not exist.
func (r *rules) gone() (n int) {
	for _, state := range r.byKey {
		if !state.gone.IsZero() {
			n++
		}
	}
	return n
}

// wanting returns the plans that want a copy with this name in some namespace.
func (r *rules) wanting(copyName string) iter.Seq[*plan] {
	return func(yield func(*plan) bool) {
		for key := range r.byCopy[copyName] {
			if !yield(r.byKey[key].plan) {
				return
			}
		}
	}
}

// ownerOf returns the plan of the rule of a copy, or of its successor. It is nil if there is none.
func (r *rules) ownerOf(c copyState) *plan {
	key, ok := r.byUID[c.Rule]
	if !ok && c.identity != noIdentity {
		key, ok = r.byIdentity[c.identity]
	}
	if !ok {
		return nil
	}
	return r.byKey[key].plan
}

// addRemovals adds the copies that the plan of a rule removes, by cause. It does not add those that
// another rule takes over, or that the plan before also removed. before is nil if there was none.
// Before the first list of all Secrets it adds none.
func (r *rules) addRemovals(state *ruleState, before *share.Plan) {
	p := state.plan
	if !r.copies.listed {
		return
	}
	for namespace := range r.copies.namespacesWith(p.Rule) {
		if _, terminating := p.Terminating[namespace]; terminating || p.Rule.Protects(namespace) {
			continue
		}
		for name, c := range r.copies.in(p.Rule, namespace) {
			if p.Keeps(name, c.Copied) || before != nil && !before.Keeps(name, c.Copied) || r.heirOf(p, name, c) != nil {
				continue
			}
			state.removals[p.WhyRemoved(before, name, c.Copied)]++
		}
	}
}

// namespacesOf returns the namespaces that have copies of a rule or of its predecessors, should have
// copies, or have a result.
func (r *rules) namespacesOf(state *ruleState) map[string]struct{} {
	namespaces := r.copies.namespacesWith(state.plan.Rule)
	for namespace := range state.plan.Targets {
		namespaces[namespace] = struct{}{}
	}
	for namespace := range state.results {
		namespaces[namespace] = struct{}{}
	}
	return namespaces
}

// inSync reports whether a namespace has exactly the wanted copies, as far as the store knows.
func (r *rules) inSync(state *ruleState, namespace string) bool {
	names, denied := state.plan.CopiesIn(namespace)
	result, ok := state.results[namespace]
	if !ok && len(names)+len(denied) == 0 {
		return len(r.copies.unwanted(state.plan, namespace)) == 0 // there is nothing to do
	}
	if !result.done || !result.ok() || result.synced != len(names) || len(denied) > 0 {
		return false
	}
	for _, name := range names {
		if !r.isWritten(state.plan, types.NamespacedName{Namespace: namespace, Name: name}) {
			return false
		}
	}
	return len(r.copies.unwanted(state.plan, namespace)) == 0
}

// problemOf returns the problem of a wanted copy, or an empty one if the copy is up to date.
func (r *rules) problemOf(state *ruleState, result syncResult, name types.NamespacedName) share.Problem {
	if r.isWritten(state.plan, name) {
		return share.Problem{}
	}
	return cmp.Or(result.problems[name.Name], share.Problem{Reason: v1alpha1.ReasonCopying, Message: "the copy is being written"})
}

// sum adds up a number of the results of all syncs.
func (r *rules) sum(value func(syncResult) int) int {
	n := 0
	for _, state := range r.byKey {
		for _, result := range state.results {
			n += value(result)
		}
	}
	return n
}
