package notify

import (
	"slices"
	"sync"
)

// Limits of the requests in flight to AlarmReceivers. Each holds a connection and a body.
const (
	// maxInFlight limits the requests of all namespaces. Beyond it, each namespace can
	// still make one.
	maxInFlight = 512
	// maxInNamespace limits those of one namespace. Its limit is also an eighth of the
	// free requests, so that none can take the requests of the others.
	maxInNamespace = 32
	freeShare      = 8
)

// inFlight counts the requests in flight to AlarmReceivers. Those that must wait are
// served in order within a namespace.
type inFlight struct {
	mu      sync.Mutex
	total   int
	used    map[string]int
	waiting map[string][]*place
}

// place is what one request takes.
type place struct {
	namespace string
	// granted is closed when the request can be made.
	granted chan struct{}
}

func newInFlight() *inFlight {
	return &inFlight{used: map[string]int{}, waiting: map[string][]*place{}}
}

// enter asks for a place, which the caller must leave. Without a namespace, it is granted
// at once.
func (f *inFlight) enter(namespace string) *place {
	p := &place{namespace: namespace, granted: make(chan struct{})}
	if namespace == "" {
		close(p.granted)
		return p
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting[namespace] = append(f.waiting[namespace], p)
	f.grant(namespace)
	return p
}

// leave gives a place back, whether it was granted or not.
func (f *inFlight) leave(p *place) {
	if p.namespace == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := slices.Index(f.waiting[p.namespace], p); i >= 0 {
		f.wait(p.namespace, slices.Delete(f.waiting[p.namespace], i, i+1))
		return
	}
	f.total--
	if f.used[p.namespace]--; f.used[p.namespace] == 0 {
		delete(f.used, p.namespace)
	}
	for namespace := range f.waiting {
		f.grant(namespace)
	}
}

// grant gives the places that are free to those of a namespace that wait. The caller holds
// f.mu.
func (f *inFlight) grant(namespace string) {
	waiting := f.waiting[namespace]
	for len(waiting) > 0 && f.used[namespace] < f.limit() {
		close(waiting[0].granted)
		waiting = waiting[1:]
		f.used[namespace]++
		f.total++
	}
	f.wait(namespace, waiting)
}

// limit returns the limit of each namespace at present.
func (f *inFlight) limit() int {
	return min(max((maxInFlight-f.total)/freeShare, 1), maxInNamespace)
}

func (f *inFlight) wait(namespace string, waiting []*place) {
	if len(waiting) == 0 {
		delete(f.waiting, namespace)
		return
	}
	f.waiting[namespace] = waiting
}
