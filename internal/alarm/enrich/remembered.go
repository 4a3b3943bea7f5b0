package enrich

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

const (
	// rememberTTL is how long an object is known after it was read, if it is gone.
	rememberTTL = time.Minute
	// maxRemembered limits the objects that are known, in bytes.
	maxRemembered = 8 << 20
	// maxNamespaceRemembered limits those of one namespace, and the cluster-scoped ones, in bytes.
	maxNamespaceRemembered = 1 << 20
	// objectSize is the memory of an object without its metadata, in bytes.
	objectSize = 1 << 10
)

// remembered keeps the objects that were read, without their causes, until rememberTTL. A namespace
// that uses all of its bytes gets no more. If all bytes are used, the oldest objects are forgotten.
// It is safe for concurrent use.
type remembered struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	objects *simplelru.LRU[cacheKey, rememberedObject] // the oldest first
	bytes   int
	// bytesOf are the bytes of each namespace.
	bytesOf map[string]int
}

type rememberedObject struct {
	alarm.Object
	at   time.Time
	size int
}

func newRemembered(clk clock.PassiveClock) *remembered {
	r := &remembered{clock: clk, bytesOf: map[string]int{}}
	r.objects, _ = simplelru.NewLRU(maxRemembered/objectSize, r.forgotten) // fails only for a size of 0
	return r
}

// get returns an object that was read within rememberTTL.
func (r *remembered) get(key cacheKey) (alarm.Object, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, ok := r.objects.Peek(key)
	if !ok || r.clock.Since(found.at) > rememberTTL {
		return alarm.Object{}, false
	}
	return found.Object, true
}

// add remembers an object, which replaces an older one of the key.
func (r *remembered) add(key cacheKey, object alarm.Object) {
	object.Cause = "" // it was that of another Event
	size := objectSize + sizeOf(object.Metadata.Labels) + sizeOf(object.Metadata.Annotations)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.objects.Remove(key)
	for r.oldestIsOver() {
		r.objects.RemoveOldest()
	}
	if r.bytesOf[key.Namespace]+size > maxNamespaceRemembered {
		return
	}
	for r.bytes+size > maxRemembered {
		r.objects.RemoveOldest()
	}
	r.bytes += size
	r.bytesOf[key.Namespace] += size
	r.objects.Add(key, rememberedObject{object, r.clock.Now(), size})
}

func (r *remembered) oldestIsOver() bool {
	_, oldest, ok := r.objects.GetOldest()
	return ok && r.clock.Since(oldest.at) > rememberTTL
}

// forgotten is called for each object that is removed. The caller holds r.mu.
func (r *remembered) forgotten(key cacheKey, object rememberedObject) {
	r.bytes -= object.size
	if r.bytesOf[key.Namespace] -= object.size; r.bytesOf[key.Namespace] == 0 {
		delete(r.bytesOf, key.Namespace)
	}
}

func sizeOf(m map[string]string) (size int) {
	for key, value := range m {
		size += len(key) + len(value)
	}
	return size
}

// cacheKey identifies a cached object. The cause of a Pod can be in the Event. For Pods with a
// problem, reason is therefore that of the Event with a hash of its note and container. For
// controllers it is ofPods, withoutPods or empty. named is the name of a resource that alarms name,
// empty for a kind that is read for every alarm.
type cacheKey struct {
	alarm.Reference
	reason, named string
}

// pause returns the key for which reads pause after a failure: the namespace. A resource that
// alarms name has a key of its own, because its API can fail alone.
func (k *cacheKey) pause() string {
	if k.named == "" {
		return k.Namespace
	}
	return k.Namespace + "/" + k.named
}

// identity returns the key under which an object is remembered, whatever it was read for.
func (k *cacheKey) identity() cacheKey { return cacheKey{Reference: k.Reference, named: k.named} }
