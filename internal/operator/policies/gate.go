// Package policies checks that the admission policies of this version are in force. An object
// makes the operator use its permissions for the author of the object. Only the policies check
// whether the author has these permissions. Without them the operator does nothing for tenants.
package policies

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/bongsu-io/bongsu/internal/operator/policies/specs"
)

// The operator works for tenants only with its policies. The permissions to read them are
// listed in rbac.go of package operator.

// Grace is how long a problem lasts before it is reported on objects, and before alarms that
// are in force are stopped. An upgrade replaces the policies before the operator. It must not
// put a Warning on every object, nor lose the Events until the new version leads.
const Grace = 90 * time.Second

// State is the result of a check. The zero State means that the operator can work.
type State struct {
	// Blocked means that the operator must do nothing for tenants.
	Blocked bool
	// Message says for users what is wrong and what to do. It is empty before the end of
	// Grace.
	Message string
}

// InGrace reports whether Grace has not ended. Objects that were accepted before then stay as
// they are, because the policies were in force when they were written.
func (s State) InGrace() bool { return s.Blocked && s.Message == "" }

// Gate reports whether the operator can work for tenants. A nil Gate is open.
type Gate struct {
	expected specs.Expected
	cache    cache.Cache
	clock    clock.WithDelayedExecution
	log      logr.Logger
	synced   []toolscache.InformerSynced

	mu      sync.Mutex
	checked bool
	problem string
	since   time.Time
	// notify enqueue the objects of the controllers.
	notify []func()
}

// NewGate returns a Gate that reads the policies from a cache. It registers a watch of them.
func NewGate(ctx context.Context, expected specs.Expected, c cache.Cache, clk clock.WithDelayedExecution, log logr.Logger) (*Gate, error) {
	g := &Gate{expected: expected, cache: c, clock: clk, log: log}
	for _, kind := range []client.Object{&admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}} {
		informer, err := c.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, err
		}
		g.synced = append(g.synced, informer.HasSynced)
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
			AddFunc:    func(o any, isInInitialList bool) { g.changed(o, isInInitialList) },
			UpdateFunc: func(_, o any) { g.changed(o, false) },
			DeleteFunc: func(o any) { g.changed(o, false) },
		})
		if err != nil {
			return nil, err
		}
	}
	return g, nil
}

// changed handles a change of any policy or binding.
func (g *Gate) changed(o any, isInInitialList bool) {
	if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	if object, err := meta.Accessor(o); err == nil && !g.expected.Contains(object.GetName()) {
		return
	}
	g.mu.Lock()
	g.checked = false
	g.mu.Unlock()
	if !isInInitialList {
		g.notifyAll()
	}
}

func (g *Gate) notifyAll() {
	g.mu.Lock()
	notify := slices.Clone(g.notify)
	g.mu.Unlock()
	for _, f := range notify {
		f()
	}
}

// Check returns whether the operator can work for tenants. It waits until the policies were
// read for the first time. An error means that they could not be read: retry.
func (g *Gate) Check(ctx context.Context) (State, error) {
	if g == nil {
		return State{}, nil
	}
	problem, since, err := g.current(ctx)
	switch {
	case err != nil || problem == "":
		return State{}, err
	case g.clock.Since(since) < Grace:
		return State{Blocked: true}, nil
	}
	return State{
		Blocked: true,
		Message: problem + ", so the operator does nothing for this object: ask an administrator to install the policies of the operator's version",
	}, nil
}

// Await waits while the gate is closed, until the end of Grace. After an upgrade, a new leader
// thus waits for the policies instead of reading Events without the Alarms of tenants.
func (g *Gate) Await(ctx context.Context) error {
	for {
		state, err := g.Check(ctx)
		if err != nil || !state.InGrace() {
			return err
		}
		select {
		case <-g.clock.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// current returns what is wrong with the policies, and since when.
func (g *Gate) current(ctx context.Context) (string, time.Time, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.checked {
		return g.problem, g.since, nil
	}
	var policies admissionv1.ValidatingAdmissionPolicyList
	if err := g.cache.List(ctx, &policies, client.UnsafeDisableDeepCopy); err != nil {
		return "", time.Time{}, err
	}
	var bindings admissionv1.ValidatingAdmissionPolicyBindingList
	if err := g.cache.List(ctx, &bindings, client.UnsafeDisableDeepCopy); err != nil {
		return "", time.Time{}, err
	}
	was := g.problem
	g.problem, g.checked = g.expected.Compare(policies.Items, bindings.Items), true
	switch {
	case g.problem == "" && was != "":
		g.log.Info("The admission policies are in force again")
	case g.problem != "" && was == "":
		g.since = g.clock.Now()
		g.clock.AfterFunc(Grace, g.notifyAll)
		g.log.Error(nil, "The operator does nothing for tenants: "+g.problem)
	}
	return g.problem, g.since, nil
}

// Healthy returns an error that names the problem. It is a check of readiness, not of
// liveness: a restart installs no policy.
func (g *Gate) Healthy(r *http.Request) error {
	if slices.ContainsFunc(g.synced, func(synced toolscache.InformerSynced) bool { return !synced() }) {
		return errors.New("the admission policies could not be read yet")
	}
	problem, _, err := g.current(r.Context())
	if err != nil || problem == "" {
		return err
	}
	return fmt.Errorf("%s: install the admission policies of the operator's version", problem)
}

// Source enqueues all objects of a list when the state may have changed.
func (g *Gate) Source(reader client.Reader, newList func() client.ObjectList) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		if g == nil {
			return nil
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.notify = append(g.notify, func() { enqueueAll(ctx, reader, newList(), queue) })
		return nil
	})
}

func enqueueAll(ctx context.Context, reader client.Reader, list client.ObjectList, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	if err := reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return // only if the cache was stopped
	}
	_ = meta.EachListItem(list, func(o runtime.Object) error {
		queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o.(client.Object))})
		return nil
	})
}
