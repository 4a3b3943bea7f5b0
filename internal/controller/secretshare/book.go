package secretshare

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bongsu-io/bongsu/internal/kube"
)

// Item is what is done at a time: the copies of a rule in a namespace.
type Item struct {
	Rule      kube.Key
	Namespace string
}

// book knows the plans of all rules and all copies in the cluster.
type book struct {
	mu     sync.Mutex
	synced bool
	rules  map[kube.Key]*entry
	keys   map[string]kube.Key // of rules, by UID
	// reading are the rules whose sources are being read, busy how many items of a
	// rule are being carried out.
	reading map[kube.Key]*reading
	busy    map[kube.Key]int
	// written are the copies that are being written.
	written map[types.NamespacedName]*writing
	copies  map[types.NamespacedName]copyOf
	// byRule finds the copies of a rule, by its UID and their namespace; namedBy the rules that want a
	// copy of a name, sharing those whose sources are in a namespace.
	byRule  map[string]map[string]map[types.NamespacedName]struct{}
	namedBy map[string]map[kube.Key]struct{}
	sharing map[string]map[kube.Key]struct{}

	// listeners have the rules of a kind reconciled, carryOut an item.
	listeners map[string]func(kube.Key)
	carryOut  func(Item)
}

// entry is what is known of a rule.
type entry struct {
	plan    *plan
	results map[string]result // by namespace
	// stale says that a source may have changed since the plan was made.
	stale bool
}

func newBook() *book {
	return &book{
		rules: map[kube.Key]*entry{}, keys: map[string]kube.Key{}, copies: map[types.NamespacedName]copyOf{},
		reading: map[kube.Key]*reading{}, busy: map[kube.Key]int{}, written: map[types.NamespacedName]*writing{},
		byRule: map[string]map[string]map[types.NamespacedName]struct{}{}, namedBy: map[string]map[kube.Key]struct{}{},
		sharing:   map[string]map[kube.Key]struct{}{},
		listeners: map[string]func(kube.Key){}, carryOut: func(Item) {},
	}
}

// listen has a function called for each rule of a kind that is to be reconciled.
func (b *book) listen(kind string, lookAgain func(kube.Key)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listeners[kind] = lookAgain
}

// obey has a function called for each item that is to be carried out.
func (b *book) obey(carryOut func(Item)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.carryOut = carryOut
	for _, e := range b.rules {
		if b.synced {
			b.carryOutAll(e)
		}
	}
}

// lookAgain has a rule reconciled. b.mu is held.
func (b *book) lookAgain(key kube.Key) {
	if listener, ok := b.listeners[key.Kind]; ok {
		listener(key)
	}
}

// put sets the plan of a rule and has carried out what of it is not. A plan that is
// the same as the former one changes nothing: what failed is tried again in its own
// time.
func (b *book) put(p *plan) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.rules[p.key]
	if !ok {
		e = &entry{results: map[string]result{}}
		b.rules[p.key] = e
	}
	if r, read := b.reading[p.key]; read {
		e.stale = false
		delete(b.reading, p.key)
		if r.overtaken {
			b.makeStale(p.key, e)
		}
	}
	if e.plan != nil && e.plan.equals(p) {
		return
	}
	b.unindex(e.plan)
	e.plan = p
	b.index(p)
	if b.synced {
		b.carryOutAll(e)
	}
}

// carryOutAll has every namespace looked at that is not as planned. b.mu is held.
func (b *book) carryOutAll(e *entry) {
	for namespace := range b.concerned(e) {
		if !b.asPlanned(e, namespace) {
			if r := e.results[namespace]; r.well() {
				e.results[namespace] = result{} // that was by a former plan
			}
			b.carryOut(Item{e.plan.key, namespace})
		}
	}
}

// concerned are the namespaces that have copies of the rule or should, or where
// something was amiss.
func (b *book) concerned(e *entry) map[string]struct{} {
	namespaces := map[string]struct{}{}
	for namespace := range e.plan.targets {
		namespaces[namespace] = struct{}{}
	}
	for namespace := range e.results {
		namespaces[namespace] = struct{}{}
	}
	for namespace := range b.byRule[e.plan.rule.UID] {
		namespaces[namespace] = struct{}{}
	}
	return namespaces
}

// asPlanned tells whether a namespace has just what it should, as far as is known
// without asking. b.mu is held.
func (b *book) asPlanned(e *entry, namespace string) bool {
	r, ok := e.results[namespace]
	if !ok || !r.done || !r.well() {
		return false
	}
	names, denied := e.plan.wanted(namespace)
	if r.synced != len(names) || len(denied) > 0 {
		return false
	}
	for _, name := range names {
		if b.copies[types.NamespacedName{Namespace: namespace, Name: name}].content != e.plan.wants[name].content {
			return false
		}
	}
	return len(b.unwanted(e.plan, namespace)) == 0
}

// forget drops a rule that is gone.
func (b *book) forget(key kube.Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.reading, key)
	e, ok := b.rules[key]
	if !ok {
		return
	}
	b.unindex(e.plan)
	delete(b.rules, key)
}

// index and unindex keep what finds a rule like its plan. b.mu is held.
func (b *book) index(p *plan) {
	b.keys[p.rule.UID] = p.key
	put(b.sharing, p.rule.Namespace, p.key)
	for name := range p.wants {
		put(b.namedBy, name, p.key)
	}
}

func (b *book) unindex(p *plan) {
	if p == nil {
		return
	}
	delete(b.keys, p.rule.UID)
	take(b.sharing, p.rule.Namespace, p.key)
	for name := range p.wants {
		take(b.namedBy, name, p.key)
	}
}

// put and take keep sets by a name, none of them empty.
func put[K comparable](sets map[string]map[K]struct{}, name string, key K) {
	if sets[name] == nil {
		sets[name] = map[K]struct{}{}
	}
	sets[name][key] = struct{}{}
}

func take[K comparable](sets map[string]map[K]struct{}, name string, key K) {
	delete(sets[name], key)
	if len(sets[name]) == 0 {
		delete(sets, name)
	}
}
