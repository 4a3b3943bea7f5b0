package secretshare

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bongsu-io/bongsu/internal/kube"
)

// queue decides what is enqueued after a change of rules and copies. Before the first list of all
// Secrets it enqueues no work item. Its methods do not lock: the store does.
type queue struct {
	copies *copies
	rules  *rules
	// enqueueRule enqueues a rule, by kind. enqueueItem enqueues a work item.
	enqueueRule map[string]func(kube.Key)
	enqueueItem func(workItem)
}

// workItem is one unit of work of the syncer: the copies of a rule in a namespace.
type workItem struct {
	Rule      kube.Key
	Namespace string
}

// rule enqueues a rule.
func (q *queue) rule(key kube.Key) {
	if enqueue, ok := q.enqueueRule[key.Kind]; ok {
		enqueue(key)
	}
}

// stale enqueues a rule and marks that its sources must be read again.
func (q *queue) stale(key kube.Key, state *ruleState) {
	state.stale = true
	q.rule(key)
}

// item enqueues the copies of a rule in a namespace.
func (q *queue) item(key kube.Key, namespace string) {
	if q.copies.listed {
		q.enqueueItem(workItem{key, namespace})
	}
}

// outOfSync enqueues all namespaces of a rule that are not in sync.
func (q *queue) outOfSync(state *ruleState) {
	if !q.copies.listed {
		return
	}
	for namespace := range q.rules.namespacesOf(state) {
		if !q.rules.inSync(state, namespace) {
			if r := state.results[namespace]; r.ok() {
				state.results[namespace] = syncResult{unwantedSince: r.unwantedSince} // the others belong to a former plan
			}
			q.item(state.plan.key, namespace)
		}
	}
}

// owner enqueues the copies in a namespace for the rule of a copy, or for its successor.
func (q *queue) owner(c copyState, namespace string) {
	if owner := q.rules.ownerOf(c); owner != nil {
		q.item(owner.key, namespace)
	}
}

// wanting enqueues the namespace of a Secret for the rules that want a copy with its name there. It
// leaves out the rule with the UID except.
func (q *queue) wanting(name types.NamespacedName, except string) {
	for p := range q.rules.wanting(name.Name) {
		if _, ok := p.Targets[name.Namespace]; ok && p.Rule.UID != except {
			q.item(p.key, name.Namespace)
		}
	}
}

// sharers enqueues the copies of a plan for the other rules that want copies with their names. p is
// nil if there is no plan.
func (q *queue) sharers(p *plan) {
	if p == nil {
		return
	}
	for copyName := range p.Wanted {
		for other := range q.rules.wanting(copyName) {
			if other.key == p.key {
				continue
			}
			for namespace := range other.Targets {
				if q.copies.byName[types.NamespacedName{Namespace: namespace, Name: copyName}].Rule == p.Rule.UID {
					q.item(other.key, namespace)
				}
			}
		}
	}
}

// observed records a version of a Secret. It enqueues the rules that have the Secret as a source or may
// select it.
func (q *queue) observed(name types.NamespacedName, version string, set labels.Set) {
	if w, ok := q.copies.writes[name]; ok {
		w.observed = &version
	}
	for key := range q.rules.bySource[name.Namespace] {
		if state := q.rules.byKey[key]; state.plan.IsAffectedBy(name.Name, version, set) {
			q.stale(key, state)
		}
	}
	for _, r := range q.rules.reading {
		if r.namespace == name.Namespace {
			r.outdated = true
		}
	}
}

// deleted records that a Secret does not exist.
func (q *queue) deleted(name types.NamespacedName) {
	if c, ok := q.copies.byName[name]; ok {
		q.copies.drop(name)
		q.owner(c, name.Namespace)
	}
	q.wanting(name, "")
	q.observed(name, absent, nil)
}

// absent is the version of a Secret that does not exist.
const absent = ""
