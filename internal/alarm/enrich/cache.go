package enrich

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/expiring"
	"github.com/bongsu-io/bongsu/internal/explain"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// Enricher reads objects. It is safe for concurrent use.
type Enricher struct {
	cluster string
	nodes   Nodes
	live    client.Reader
	// named reads the resources that alarms name. It can be nil.
	named Resources
	// roots can be nil.
	roots   *explain.Roots
	objects *expiring.Cache[cacheKey, alarm.Object]
	// summary contains at most one summary of all Nodes.
	summary *expiring.Cache[struct{}, *diagnosis.Nodes]
	// unread and paused are the objects, and the keys of cacheKey.pause, whose last read failed.
	unread *expiring.Cache[alarm.Reference, alarm.Unread]
	paused *expiring.Cache[string, alarm.Unread]
	// gone are the objects that were deleted. remembered are those that were read.
	gone       *expiring.Cache[alarm.Reference, struct{}]
	remembered *remembered
	// podsUnread are the namespaces whose pods could not be read.
	podsUnread *expiring.Cache[string, struct{}]
	podsTurn   *semaphore.Weighted
	reads      singleflight.Group
	timeout    time.Duration
	clock      clock.PassiveClock
}

// read returns the result of an earlier read that is still valid, or reads the object and keeps the
// result. An object is read once for all who need it at the same time.
func (e *Enricher) read(ctx context.Context, wanted cacheKey, get func(key *cacheKey) (alarm.Object, error)) (alarm.Object, error) {
	object, err := e.readNow(ctx, wanted, get)
	if isGone(wanted.Reference, err) {
		if last, ok := e.remembered.get(wanted.identity()); ok {
			return last, nil
		}
	}
	return object, err
}

// readNow is read for an object that exists.
func (e *Enricher) readNow(ctx context.Context, wanted cacheKey, get func(key *cacheKey) (alarm.Object, error)) (alarm.Object, error) {
	if object, _, ok, err := e.recall(ctx, wanted); ok {
		return object, err
	}
	object, err, _ := e.reads.Do(fmt.Sprintf("%q", wanted), func() (any, error) {
		object, key, ok, err := e.recall(ctx, wanted) // the read of another one can have ended
		if ok {
			return object, err
		}
		object, err = get(&key)
		e.keep(key, object, err)
		return object, err
	})
	return object.(alarm.Object), err
}

// recall returns the result of an earlier read that is still valid. Otherwise ok is false, and key
// is that of the object to read.
func (e *Enricher) recall(ctx context.Context, wanted cacheKey) (object alarm.Object, key cacheKey, ok bool, err error) {
	if object, key, ok = e.cached(wanted); ok {
		return object, key, true, nil
	}
	if _, gone := e.gone.Get(key.Reference); gone {
		return alarm.Object{}, key, true, errNoObject
	}
	if unread := e.recentlyUnread(ctx, &key); unread != "" {
		return alarm.Object{}, key, true, unreadError(unread)
	}
	return alarm.Object{}, key, false, nil
}

// keep keeps the result of a read for a while.
func (e *Enricher) keep(key cacheKey, object alarm.Object, err error) {
	switch unread := Classify(err); {
	case unread != "":
		e.unread.Add(key.Reference, unread)
		if unread != forbidden { // that depends on the kind
			e.paused.Add(key.pause(), unread)
		}
	case isGone(key.Reference, err):
		e.gone.Add(key.Reference, struct{}{})
	case err == nil && (key.Kind != "Node" || key.named != ""):
		e.objects.Add(key, object)
		e.remembered.add(key.identity(), object)
	}
}

// cached returns the cached object of a key, or the key of the object to read. While the pods of
// its namespace are not read, that is the key without them.
func (e *Enricher) cached(key cacheKey) (alarm.Object, cacheKey, bool) {
	object, ok := e.objects.Get(key)
	if ok || key.reason != ofPods {
		return object, key, ok
	}
	if _, unread := e.podsUnread.Get(key.Namespace); unread {
		key.reason = withoutPods
		object, ok = e.objects.Get(key)
	}
	return object, key, ok
}

// recentlyUnread returns why the object must not be read now, or an empty Unread.
func (e *Enricher) recentlyUnread(ctx context.Context, key *cacheKey) alarm.Unread {
	if ctx.Err() != nil {
		return noAnswer
	}
	if unread, ok := e.unread.Get(key.Reference); ok {
		return unread
	}
	unread, _ := e.paused.Get(key.pause())
	return unread
}

// Resources reads the objects of resources that alarms name.
type Resources interface {
	// Lookup returns how a resource is served, zero if its objects cannot be read. unread says why
	// that is unknown. It makes no request.
	Lookup(r alarm.Resource) (served alarm.Served, unread alarm.Unread)
	// Get reads the metadata of an object, in the version of the resource.
	Get(ctx context.Context, r alarm.Resource, namespace, name string) (*metav1.PartialObjectMetadata, error)
}

// read reads the object of a reference. It returns errNoObject if another object has its
// name.
func read(ctx context.Context, from client.Reader, ref alarm.Reference, object client.Object) error {
	if err := from.Get(ctx, objectKey(ref), object); err != nil {
		return err
	}
	if !isSame(ref, object) {
		return errNoObject
	}
	return nil
}
