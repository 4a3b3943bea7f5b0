package secretshare

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/share"
)

// Item is what is done at a time: the copies of a rule in a namespace.
type Item struct {
	Rule      kube.Key
	Namespace string
}

// copyOf is what is known of a copy.
type copyOf struct {
	rule    string // its UID
	uid     types.UID
	version string
	// content is what of its plan it holds in that version; empty if that is not
	// known.
	content string
	// bare says that others have put nothing on it in that version.
	bare bool
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

// writing of a copy is under way.
type writing struct {
	writers int
	// told is the version that was last heard of since it began, gone that there was
	// none; nil that nothing was heard.
	told *string
}

// gone is the version of a Secret that there is not.
const gone = ""

// reading of a rule's sources is under way.
type reading struct {
	namespace string
	// overtaken says that something was heard of a Secret there since it began.
	overtaken bool
}

// told is what was heard of a Secret of a source's namespace.
type told struct {
	name    string
	version string // or gone
	labels  labels.Set
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
	if e.plan != nil && e.plan.digest == p.digest {
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
	return true
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

// sourcesOf returns the sources of a rule as they were read, unless they may have
// changed since, or the rule has.
func (b *book) sourcesOf(key kube.Key, uid types.UID, generation int64) (sources, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.rules[key]
	if !ok || e.stale || e.plan.generation != generation || e.plan.rule.UID != string(uid) {
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

// copiesIn returns the copies of a rule in a namespace.
func (b *book) copiesIn(ruleUID, namespace string) map[types.NamespacedName]copyOf {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := map[types.NamespacedName]copyOf{}
	for name := range b.byRule[ruleUID][namespace] {
		found[name] = b.copies[name]
	}
	return found
}

// countCopies returns how many copies of a rule there are; false if that is not
// known yet, or about to change.
func (b *book) countCopies(key kube.Key, ruleUID string) (int, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, names := range b.byRule[ruleUID] {
		n += len(names)
	}
	return n, b.synced && b.busy[key] == 0
}

// copyAt returns what is known of the copy of that name.
func (b *book) copyAt(name types.NamespacedName) (copyOf, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, ok := b.copies[name]
	return c, ok
}

// write notes that a copy is read and written from now on, until the function that
// it returns is called.
func (b *book) write(name types.NamespacedName) (end func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.written[name] == nil {
		b.written[name] = &writing{}
	}
	b.written[name].writers++
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.written[name].writers--; b.written[name].writers == 0 {
			delete(b.written, name)
		}
	}
}

// wrote notes a copy as it was just written or found; unless more was heard of it
// meanwhile, for which it is looked at again.
func (b *book) wrote(name types.NamespacedName, c copyOf) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w := b.written[name]; w == nil || w.told == nil || *w.told == versionOf(c.uid, c.version) {
		b.note(name, c)
	}
}

// removed notes that there is no copy of that name.
func (b *book) removed(name types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop(name)
}

// note and drop keep copies and byRule alike. b.mu is held.
func (b *book) note(name types.NamespacedName, c copyOf) {
	b.drop(name)
	b.copies[name] = c
	if b.byRule[c.rule] == nil {
		b.byRule[c.rule] = map[string]map[types.NamespacedName]struct{}{}
	}
	put(b.byRule[c.rule], name.Namespace, name)
}

func (b *book) drop(name types.NamespacedName) {
	c, ok := b.copies[name]
	if !ok {
		return
	}
	delete(b.copies, name)
	take(b.byRule[c.rule], name.Namespace, name)
	if len(b.byRule[c.rule]) == 0 {
		delete(b.byRule, c.rule)
	}
}

var _ kube.SecretListener = (*book)(nil)

// Seen implements kube.SecretListener.
func (b *book) Seen(_ context.Context, s kube.SecretMeta) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.heard(s.NamespacedName, versionOf(s.UID, s.Version), s.Labels)
	before, wasCopy := b.copies[s.NamespacedName]
	if wasCopy && before.uid == s.UID && before.version == s.Version {
		return // as we wrote it
	}
	if rule := share.RuleOf(s.Annotations); rule != "" {
		b.note(s.NamespacedName, copyOf{rule: rule, uid: s.UID, version: s.Version})
		b.carryOutFor(rule, s.Namespace)
	} else {
		b.drop(s.NamespacedName)
	}
	if wasCopy {
		b.carryOutFor(before.rule, s.Namespace)
	}
	b.carryOutNamed(s.NamespacedName)
}

// Gone implements kube.SecretListener.
func (b *book) Gone(_ context.Context, name types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gone(name)
}

func (b *book) gone(name types.NamespacedName) {
	if c, ok := b.copies[name]; ok {
		b.drop(name)
		b.carryOutFor(c.rule, name.Namespace)
	}
	b.carryOutNamed(name)
	b.heard(name, gone, nil)
}

// Listed implements kube.SecretListener.
func (b *book) Listed(_ context.Context, exists func(types.NamespacedName) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range slices.Collect(maps.Keys(b.copies)) {
		if !exists(name) {
			b.gone(name)
		}
	}
	b.synced = true
	for key, e := range b.rules {
		b.makeStale(key, e) // a source may have gone unseen
		b.carryOutAll(e)
	}
	for _, r := range b.reading {
		r.overtaken = true
	}
}

// heard has rules reconciled of which the Secret may be a source, or was.
func (b *book) heard(name types.NamespacedName, version string, set labels.Set) {
	if w, ok := b.written[name]; ok {
		w.told = &version
	}
	t := told{name: name.Name, version: version, labels: set}
	for key := range b.sharing[name.Namespace] {
		if e := b.rules[key]; e.plan.isNews(t) {
			b.makeStale(key, e)
		}
	}
	for _, r := range b.reading {
		if r.namespace == name.Namespace {
			r.overtaken = true
		}
	}
}

func (b *book) makeStale(key kube.Key, e *entry) {
	e.stale = true
	b.lookAgain(key)
}

// carryOutFor has a rule's copies in a namespace looked at.
func (b *book) carryOutFor(ruleUID, namespace string) {
	if key, ok := b.keys[ruleUID]; ok && b.synced {
		b.carryOut(Item{key, namespace})
	}
}

// carryOutNamed has the rules look at a namespace that want a Secret of that name
// there.
func (b *book) carryOutNamed(name types.NamespacedName) {
	for key := range b.namedBy[name.Name] {
		if _, ok := b.rules[key].plan.targets[name.Namespace]; ok && b.synced {
			b.carryOut(Item{key, name.Namespace})
		}
	}
}

// versionOf tells one state of a Secret from all others.
func versionOf(uid types.UID, version string) string { return string(uid) + "/" + version }
