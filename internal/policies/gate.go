// Package policies checks that the admission policies of this version are in force. An object
// makes the operator use its permissions for the author of the object. Only the policies check
// whether the author has these permissions. Without them the operator does nothing for tenants.
// When they are back, it does nothing for objects that were written without them.
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
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/policies/specs"
)

// The operator works for tenants only with its policies. The permissions to read them are
// listed in rbac.go of package operator.

// Grace is how long a problem lasts before it is reported on objects, and before alarms that
// are in force are stopped. An upgrade replaces the policies before the operator. It must not
// put a Warning on every object, nor lose the Events until the new version leads.
const Grace = 90 * time.Second

// State is the result of a check. The zero State means that the operator can work.
type State struct {
	// Blocked means that the operator must do nothing for tenants, or for the object.
	Blocked bool
	// Reason is [v1alpha1.ReasonPolicyMissing] or [v1alpha1.ReasonUnchecked] if Blocked.
	Reason string
	// Message says for users what is wrong and what to do. It is empty before the end of
	// Grace.
	Message string
}

// InGrace reports whether Grace has not ended. Objects that were accepted before then stay as
// they are, because the policies were in force when they were written.
func (s State) InGrace() bool { return s.Blocked && s.Message == "" }

// Gate reports whether the operator can work for tenants. A nil Gate is open.
type Gate struct {
	Dependencies

	synced []toolscache.InformerSynced

	mu      sync.Mutex
	checked bool
	problem string
	since   time.Time
	// backAt is when the policies were in force again; zero if they are not, or always were.
	backAt time.Time
	// unchecked are the generations of the objects that reviews have found, by UID.
	unchecked map[types.UID]int64
	// reviewed: the objects that were written without the policies are known.
	reviewed bool
	// notify enqueue the objects of the controllers.
	notify []func()
}

// Dependencies of a Gate. All are required.
type Dependencies struct {
	Expected specs.Expected
	Cache    cache.Cache
	// Live reads from the API server, and Client writes.
	Live   client.Reader
	Client client.Client
	// Record is the name of the ConfigMap with the UIDs of the policies and their bindings. One with
	// another UID was missing for a while, possibly while no operator ran.
	Record client.ObjectKey
	// Lists are of the kinds that the operator's role allows to list, and whose status it can write.
	Lists []func() client.ObjectList
	Clock clock.WithDelayedExecution
	Log   logr.Logger
}

// NewGate returns a Gate that reads the policies from a cache. It registers a watch of them.
func NewGate(ctx context.Context, d Dependencies) (*Gate, error) {
	g := &Gate{Dependencies: d}
	c := d.Cache
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
	if object, err := meta.Accessor(o); err == nil && !g.Expected.Contains(object.GetName()) {
		return
	}
	if !isInInitialList {
		g.recheck()
		return
	}
	g.mu.Lock()
	g.checked = false
	g.mu.Unlock()
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
	case g.Clock.Since(since) < Grace:
		return State{Blocked: true, Reason: v1alpha1.ReasonPolicyMissing}, nil
	}
	return State{
		Blocked: true, Reason: v1alpha1.ReasonPolicyMissing,
		Message: problem + ", so the operator does nothing for this object: ask an administrator to install the policies of the operator's version",
	}, nil
}

// Await waits while the gate is closed, until the end of Grace. After an upgrade, a new leader
// thus waits for the policies instead of reading Events without the Alarms of tenants. It also
// waits while the API server does not answer.
func (g *Gate) Await(ctx context.Context) error {
	for {
		state, err := g.Check(ctx)
		switch {
		case err == nil && !state.InGrace():
			return nil
		case err != nil:
			g.Log.Error(err, "The admission policies could not be checked; it is retried")
		}
		select {
		case <-g.Clock.After(time.Second):
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
	if err := g.Cache.List(ctx, &policies, client.UnsafeDisableDeepCopy); err != nil {
		return "", time.Time{}, err
	}
	var bindings admissionv1.ValidatingAdmissionPolicyBindingList
	if err := g.Cache.List(ctx, &bindings, client.UnsafeDisableDeepCopy); err != nil {
		return "", time.Time{}, err
	}
	problem, was := g.Expected.Compare(policies.Items, bindings.Items), g.problem
	if problem != "" {
		g.problem, g.checked, g.reviewed, g.backAt = problem, true, false, time.Time{}
		if was == "" {
			g.since = g.Clock.Now()
			g.Clock.AfterFunc(Grace, g.notifyAll)
			g.Log.Error(nil, "The operator does nothing for tenants: "+problem)
		}
		return g.problem, g.since, nil
	}
	if was != "" && g.isSettling() {
		g.checked = true
		return g.problem, g.since, nil
	}
	if err := g.review(ctx, policies.Items, bindings.Items); err != nil {
		return "", time.Time{}, err
	}
	if g.problem, g.checked = "", true; was != "" {
		g.Log.Info("The admission policies are in force again")
	}
	return "", time.Time{}, nil
}

// settle is how long the API servers may need to enforce a policy that is back.
const settle = 5 * time.Second

// isSettling reports whether the policies are back, but possibly not enforced yet. The caller holds
// the mutex.
func (g *Gate) isSettling() bool {
	if g.backAt.IsZero() {
		g.backAt = g.Clock.Now()
		g.Clock.AfterFunc(settle, g.recheck)
	}
	return g.Clock.Since(g.backAt) < settle
}

// recheck compares the policies again.
func (g *Gate) recheck() {
	g.mu.Lock()
	g.checked = false
	g.mu.Unlock()
	g.notifyAll()
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
