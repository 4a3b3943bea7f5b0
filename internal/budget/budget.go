// Package budget divides limits of memory among objects. Within a namespace, older objects
// come first. Among the namespaces, those that use less come first, so that a few namespaces
// cannot use all memory.
package budget

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Claim is what an object needs.
type Claim struct {
	// Namespace of the object. It is always the same for a key.
	Namespace string
	// CreatedAt and UID define the order in the namespace: older objects come first.
	CreatedAt time.Time
	UID       string
	// Bytes is the memory that the object needs.
	Bytes int64
}

// Decision states whether an object may use the memory that it claims.
type Decision int

const (
	// Admitted means that the object may use the memory.
	Admitted Decision = iota
	// OverNamespace means that the object exceeds the limit of its namespace.
	OverNamespace
	// OverTotal means that the object exceeds the limit of all objects. Then its namespace
	// claims more than an equal part of it.
	OverTotal
)

// Budget admits objects as long as they fit. An object that does not fit is passed over:
// others after it that need less can still fit. The decisions depend only on the claims, and
// not on the order in which they are set. A Budget is safe for concurrent use.
type Budget[K comparable] struct {
	namespaceLimit, totalLimit int64

	mu     sync.Mutex
	claims map[K]*claim[K]
	// namespaces contains the claims of each namespace, the oldest first.
	namespaces map[string][]*claim[K]
	// fitting contains the claims that fit into the limits of their namespaces, ordered by
	// compareUse.
	fitting []*claim[K]
	// total are the bytes of the admitted objects, and admitted is their number.
	total    int64
	admitted int
}

type claim[K comparable] struct {
	Claim
	key K
	// used are the bytes of this object and the older ones of its namespace that fit there.
	used     int64
	decision Decision
}

// New returns a Budget with limits in bytes for each namespace and for all objects.
func New[K comparable](namespaceLimit, totalLimit int64) *Budget[K] {
	return &Budget[K]{
		namespaceLimit: namespaceLimit, totalLimit: totalLimit,
		claims: map[K]*claim[K]{}, namespaces: map[string][]*claim[K]{},
	}
}

// Set adds or replaces the claim of an object. It returns the decision, and the other
// objects whose decision has changed.
func (b *Budget[K]) Set(key K, c Claim) (Decision, []K) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if before, ok := b.claims[key]; ok && before.Claim == c {
		return before.decision, nil
	}
	b.remove(key)
	now := &claim[K]{Claim: c, key: key}
	own := b.namespaces[c.Namespace]
	at, _ := slices.BinarySearchFunc(own, now, compareAge)
	b.namespaces[c.Namespace] = slices.Insert(own, at, now)
	b.claims[key] = now
	changed := b.decide(c.Namespace, key)
	return now.decision, changed
}

// Delete removes the claim of an object. It returns the other objects whose decision has
// changed.
func (b *Budget[K]) Delete(key K) []K {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, ok := b.claims[key]
	if !ok {
		return nil
	}
	b.remove(key)
	return b.decide(c.Namespace, key)
}

// Decision returns the decision about an object. It is Admitted for an object without a
// claim.
func (b *Budget[K]) Decision(key K) Decision {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c, ok := b.claims[key]; ok {
		return c.decision
	}
	return Admitted
}

// Usage returns the bytes of the admitted objects, and the number of the others.
func (b *Budget[K]) Usage() (bytes int64, refused int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total, len(b.claims) - b.admitted
}

// remove removes a claim without a new decision about the others. The caller holds b.mu.
func (b *Budget[K]) remove(key K) {
	c, ok := b.claims[key]
	if !ok {
		return
	}
	delete(b.claims, key)
	own := b.namespaces[c.Namespace]
	at := slices.Index(own, c)
	if b.namespaces[c.Namespace] = slices.Delete(own, at, at+1); len(own) == 1 {
		delete(b.namespaces, c.Namespace)
	}
}

// decide decides about all objects after a change of the claims of a namespace. It returns
// those whose decision has changed, apart from key. The caller holds b.mu.
func (b *Budget[K]) decide(namespace string, key K) []K {
	var changed []K
	set := func(c *claim[K], d Decision) {
		if c.decision != d && c.key != key {
			changed = append(changed, c.key)
		}
		c.decision = d
	}
	others := slices.DeleteFunc(b.fitting, func(c *claim[K]) bool { return c.Namespace == namespace })
	var own []*claim[K]
	used := int64(0)
	for _, c := range b.namespaces[namespace] {
		if used+c.Bytes > b.namespaceLimit {
			set(c, OverNamespace)
			continue
		}
		used += c.Bytes
		c.used = used
		own = append(own, c)
	}
	b.fitting = merge(others, own)
	b.total, b.admitted = 0, 0
	for _, c := range b.fitting {
		if b.total+c.Bytes > b.totalLimit {
			set(c, OverTotal)
			continue
		}
		set(c, Admitted)
		b.total += c.Bytes
		b.admitted++
	}
	return changed
}

// merge merges two lists that are ordered by compareUse. It takes linear time: every change
// of a claim needs it.
func merge[K comparable](a, b []*claim[K]) []*claim[K] {
	merged := make([]*claim[K], 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		first := &a
		if compareUse(a[0], b[0]) > 0 {
			first = &b
		}
		merged = append(merged, (*first)[0])
		*first = (*first)[1:]
	}
	return append(append(merged, a...), b...)
}

// compareUse orders claims by the use of their namespaces. For an equal use, the older one
// comes first.
func compareUse[K comparable](a, b *claim[K]) int {
	return cmp.Or(cmp.Compare(a.used, b.used), compareAge(a, b))
}

func compareAge[K comparable](a, b *claim[K]) int {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.UID, b.UID))
}
