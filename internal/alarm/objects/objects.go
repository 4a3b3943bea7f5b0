// Package objects watches the resources that alarms name, and yields the changes of their
// objects as occurrences. It has no informer cache.
//
// # Baselines
//
// For each object, the store contains a baseline: the fields that alarms name (their shape), as
// they were last seen. The fields of an Alarm are in the shape of its namespace only. The
// baseline of an object that no alarm needs is empty. Memory contains the UID and the digest of each baseline only, about 60
// bytes. An object whose digest is unchanged has not changed. Otherwise, the difference between
// the baseline and the object is a change. The handler commits changes, baselines and the
// position in one transaction.
//
// # Positions
//
// A watch resumes at the position of its stream, which is a resourceVersion. The
// position can have expired, or the API server was restored from an older copy. The source then
// lists the objects and compares them with their baselines. Several changes of one object in between are one
// change then. The baseline decides what changed, never the position.
//
// A list in pages whose position expires continues at a newer one. Its pages then show
// different times, so the source lists again afterwards.
//
// # Starts
//
//   - Without a stored stream, the first list is the baseline, without changes. The same applies
//     if objects are served in another version than the stored one.
//   - With a complete baseline, the watch resumes. If alarms need other fields, the source lists
//     first. It compares only fields that are in both shapes. While the source runs, lists take at
//     most a tenth of the time.
//   - With a position but no complete baseline, another replica read up to there. The baseline is
//     a list as of the position. If the API server no longer has it, changes are lost: the first
//     batch reports that.
//
// # Time of a change
//
// It is the time in managedFields of the write that changed the object. A tenant can write these in
// an object. The time is therefore limited: not after now, and not before the last time at which the
// stream was current. If no write is found, it is the time at which the source noticed the change.
// For a deletion, it is the deletionTimestamp, else the time at which the source noticed it.
package objects

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/apiwatch"
	"github.com/bongsu-io/bongsu/internal/alarm/fields"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// New returns a source for the API server of cfg.
func New(cfg *rest.Config, store Store, clk clock.Clock, log logr.Logger) (*Source, error) {
	c, err := newCatalog(cfg, clk)
	if err != nil {
		return nil, err
	}
	r, err := newReads(cfg)
	if err != nil {
		return nil, err
	}
	return &Source{
		cfg: cfg, store: store, clock: clk, log: log, catalog: c, reads: r, missing: missingTime,
		changed:  make(chan struct{}, 1),
		statuses: map[string]Status{}, kept: map[string]*shapes{},
		pauses: map[string]time.Time{},
	}, nil
}

// SetNeeds replaces what alarms need. It starts and stops watches. If alarms need other fields of
// a resource, its objects are listed again, soon. The first call must contain the needs of every alarm:
// what is stored of other resources is removed.
func (s *Source) SetNeeds(needs Needs) {
	s.mu.Lock()
	s.known, s.needs = true, maps.Clone(needs)
	s.mu.Unlock()
	notify(s.changed)
}

// Run watches what alarms need, and calls handle with one batch after another until ctx ends.
// It waits for the first SetNeeds. It retries every failure. When it returns, it leaves no
// goroutine and no connection.
func (s *Source) Run(ctx context.Context, handle Handler) error {
	running := map[string]*watcher{}
	var reviews sync.WaitGroup
	reviews.Go(func() { s.followReads(ctx) })
	defer func() {
		reviews.Wait()
		for _, w := range running {
			w.stop()
		}
	}()
	for {
		retry := s.reconcile(ctx, running, handle)
		select {
		case <-ctx.Done():
			return nil
		case <-s.changed:
			alarm.Sleep(ctx, s.clock, collectTime)
		case <-retry:
		}
	}
}

// reconcile starts and stops watches. It returns a channel that asks for a retry, or nil. A watch
// that no alarm needs goes on for a while. Tenants who delete and create alarms then do not cause
// a list each time.
func (s *Source) reconcile(ctx context.Context, running map[string]*watcher, handle Handler) <-chan time.Time {
	chosen, ok := s.choose()
	if !ok {
		return nil
	}
	next := s.stopUnneeded(chosen, running)
	err := s.drop(ctx, chosen, running)
	for _, name := range slices.Sorted(maps.Keys(chosen)) {
		c := chosen[name]
		if w := running[name]; w != nil && w.resource == c.resource {
			w.endAt = time.Time{}
			w.reshape(c.shapes)
			continue
		} else if w != nil { // the version that alarms ask for has changed
			w.stop()
			delete(running, name)
		}
		w, startErr := s.start(ctx, c, handle)
		if startErr != nil {
			err = errors.Join(err, startErr)
			continue
		}
		running[name] = w
	}
	if err != nil && ctx.Err() == nil {
		s.log.Error(err, "Watches of changes could not be updated; retrying")
		next = alarm.Earlier(next, s.clock.Now().Add(apiwatch.Backoff.Cap))
	}
	if next.IsZero() {
		return nil
	}
	return s.clock.After(next.Sub(s.clock.Now()))
}

// stopUnneeded stops the watches that no alarm has needed for a while, or whose place others
// need. It returns when the next one ends, zero if none does.
func (s *Source) stopUnneeded(chosen map[string]choice, running map[string]*watcher) (next time.Time) {
	now, places := s.clock.Now(), maxResources-len(chosen)
	for _, name := range slices.Sorted(maps.Keys(running)) {
		w := running[name]
		if _, needed := chosen[name]; needed {
			continue
		}
		if w.endAt.IsZero() {
			w.endAt = now.Add(linger)
		}
		if places > 0 && now.Before(w.endAt) {
			places--
			next = alarm.Earlier(next, w.endAt)
			continue
		}
		w.stop()
		delete(running, name)
		s.forget(name)
	}
	return next
}

// choose returns the resources to watch by stream. ok is false before the first SetNeeds. It does
// not hold s.mu during the work, because Status waits for it. Only Run calls it.
func (s *Source) choose() (chosen map[string]choice, ok bool) {
	s.mu.Lock()
	known, needs := s.known, s.needs
	s.mu.Unlock()
	if !known {
		return nil, false
	}
	chosen, refused := choose(needs, s.chosen)
	s.chosen = chosen
	s.mu.Lock()
	before := s.refused
	s.refused = refused
	s.mu.Unlock()
	if !maps.Equal(before, refused) {
		s.notifyObservers(func(r alarm.Resource, _ kube.Key, _ fields.Shape) bool { return before[r] != refused[r] })
	}
	return chosen, true
}

// drop removes what is stored of resources that no alarm needs.
func (s *Source) drop(ctx context.Context, chosen map[string]choice, running map[string]*watcher) error {
	stored, err := s.store.All(ctx)
	if err != nil {
		return err
	}
	for name := range stored {
		if _, needed := chosen[name]; !needed && running[name] == nil {
			err = errors.Join(err, s.store.Drop(ctx, name))
		}
	}
	return err
}
