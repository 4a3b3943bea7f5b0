package secretshare

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// sourcesOf returns the sources of a rule as they were read, unless they may have
// changed since, or the rule has.
func (b *book) sourcesOf(key kube.Key, uid types.UID, generation int64) (sources, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.rules[key]
	if !ok || e.stale || e.plan.unknown || e.plan.generation != generation || e.plan.rule.UID != string(uid) {
		return sources{}, false
	}
	return e.plan.sources, true
}

// read notes that the sources of a rule are read from now on: the plan that is put
// next is made of what they were then.
func (b *book) read(key kube.Key, rule *share.Rule) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading[key] = &reading{namespace: rule.Namespace}
}

// begin is planOf for what is carried out now, until settle.
func (b *book) begin(item Item) (*plan, bool) {
	p, ok := b.planOf(item.Rule)
	if ok {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.busy[item.Rule]++
	}
	return p, ok
}

// planOf returns the plan that is to be carried out; false if there is none, or if it
// is not known yet which copies there are.
func (b *book) planOf(key kube.Key) (*plan, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.rules[key]
	if !ok || !b.synced {
		return nil, false
	}
	return e.plan, true
}

// resultsOf returns what became of the plan so far, by namespace.
func (b *book) resultsOf(key kube.Key) map[string]result {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e, ok := b.rules[key]; ok {
		return maps.Clone(e.results)
	}
	return nil
}

// settle notes what became of an item, unless the plan has changed meanwhile: then
// it is carried out anew. It returns how often it was in vain in a row.
func (b *book) settle(item Item, p *plan, r result) (attempts int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.busy[item.Rule]--; b.busy[item.Rule] == 0 {
		delete(b.busy, item.Rule)
	}
	e, ok := b.rules[item.Rule]
	if !ok {
		return 0
	}
	if e.plan != p {
		// What the former plan has done may be amiss by this one, and was not known
		// when this one was put.
		b.carryOut(item)
		b.lookAgain(item.Rule)
		return 0
	}
	before := e.results[item.Namespace]
	if !r.well() {
		r.attempts = before.attempts + 1
	}
	_, isTarget := p.targets[item.Namespace]
	if r.well() && !isTarget {
		delete(e.results, item.Namespace)
	} else {
		e.results[item.Namespace] = r
	}
	b.lookAgain(item.Rule)
	return r.attempts
}
