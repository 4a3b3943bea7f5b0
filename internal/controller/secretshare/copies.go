package secretshare

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// copyOf is what is known of a copy.
type copyOf struct {
	rule string // its UID
	// source is NAMESPACE/NAME of its source, as its annotation says.
	source    string
	sourceUID types.UID

	uid     types.UID
	version string
	// content is what of its plan it holds in that version; empty if that is not
	// known.
	content string
	// bare says that others have put nothing on it in that version.
	bare bool
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

// copyIn returns a copy with these marks.
func copyIn(annotations map[string]string, uid types.UID, version string) copyOf {
	return copyOf{
		rule: share.RuleOf(annotations), source: annotations[share.AnnotationSource],
		sourceUID: types.UID(annotations[share.AnnotationSourceUID]), uid: uid, version: version,
	}
}

// unwantedIn returns the copies in a namespace that the plan does not keep there.
func (b *book) unwantedIn(p *plan, namespace string) map[types.NamespacedName]copyOf {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.unwanted(p, namespace)
}

// unwanted is unwantedIn with b.mu held.
func (b *book) unwanted(p *plan, namespace string) map[types.NamespacedName]copyOf {
	found := map[types.NamespacedName]copyOf{}
	for name := range b.byRule[p.rule.UID][namespace] {
		if c := b.copies[name]; !p.keeps(name, c) {
			found[name] = c
		}
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
