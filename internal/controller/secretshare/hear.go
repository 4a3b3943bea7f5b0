package secretshare

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/internal/kube"
)

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
		b.note(s.NamespacedName, copyIn(s.Annotations, s.UID, s.Version))
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
