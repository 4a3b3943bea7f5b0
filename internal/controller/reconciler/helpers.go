// Package reconciler has the parts that the controllers of Jupyter and AppService share:
// they create children, find out why these do not run, and report it. Package workload
// decides what the children look like.
package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/controller/status"
	"github.com/bongsu-io/bongsu/internal/eventcache"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/children"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
	"github.com/bongsu-io/bongsu/pkg/step"
)

// Concurrent is how many objects of a kind are reconciled at the same time. They wait
// for the API server most of the time.
const Concurrent = 16

const (
	// minRetry and maxRetry limit how often a request is repeated whose outcome no watch
	// shows, for example one that the API server refused.
	minRetry = 5 * time.Second
	maxRetry = 5 * time.Minute

	// collectFor is how long Events about an object are collected before it is reconciled.
	// Otherwise a flood of Events would occupy every worker with one object.
	collectFor = 300 * time.Millisecond
)

// Helpers creates and diagnoses the children of objects of one kind.
type Helpers struct {
	// Client reads from the caches, Live from the API server.
	Client client.Client
	Live   client.Reader
	Clock  clock.WithTicker

	Children   *children.Children
	Writer     *status.Writer
	EventCache *eventcache.Cache
	queue      chan event.GenericEvent
}

// New returns Helpers whose Events come from controller, for example
// "jupyter-controller".
func New(c client.Client, live client.Reader, clk clock.WithTicker, controller string) *Helpers {
	h := &Helpers{
		Client: c, Live: live, Clock: clk,
		Children: children.New(c, live, kube.ChildNames),
		Writer:   status.NewWriter(c, clk, controller),
		queue:    make(chan event.GenericEvent, 1024),
	}
	h.EventCache = eventcache.New(live, clk, h.Enqueue)
	return h
}

// Observe receives all Events: some explain why a child does not run.
func (h *Helpers) Observe(ctx context.Context, occurrences []alarm.Occurrence) {
	h.EventCache.Observe(ctx, occurrences)
}

// Enqueue causes a reconcile of an object for a change that no watch shows. It waits
// while the queue is full, until ctx ends.
func (h *Helpers) Enqueue(ctx context.Context, name types.NamespacedName) {
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	select {
	case h.queue <- event.GenericEvent{Object: object}:
	case <-ctx.Done():
	}
}

// Enqueued is the source of the objects that Enqueue names.
func (h *Helpers) Enqueued() source.Source {
	return source.Channel(h.queue, handler.Funcs{
		GenericFunc: func(_ context.Context, e event.GenericEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			queue.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.Object)}, collectFor)
		},
	})
}

// ByLabel enqueues the object that the label of a child names. Any user can set the
// label: it causes a reconcile and proves nothing.
func ByLabel(label string) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		name := o.GetLabels()[label]
		if name == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
	})
}

// Ensure creates or updates a child, and reads it into found. A refusal that the owner
// of the object must correct is a cause in f. It stops the steps if there is no such
// child.
func (h *Helpers) Ensure(ctx context.Context, f *Findings, wanted, found client.Object) (step.Result, error) {
	return h.Classify(f, wanted, found, h.Children.Ensure(ctx, wanted, found))
}

// Classify is Ensure for a child that was just written with that error.
func (h *Helpers) Classify(f *Findings, wanted, found client.Object, err error) (step.Result, error) {
	var conflict *children.ConflictError
	switch {
	case err == nil:
		return step.Result{}, nil
	case errors.As(err, &conflict):
		f.Add(f.Conflict(conflict))
		return step.Result{Stop: true, RequeueAfter: h.RetryAfter(f.Owner)}, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return step.Result{Stop: true}, nil
	}
	gvk, unknown := apiutil.GVKForObject(wanted, h.Client.Scheme())
	cause, refused := diagnosis.FromAPIError(diagnosis.Object{Kind: gvk.Kind, Name: wanted.GetName()}, err)
	if unknown != nil || !refused {
		return step.Result{}, errors.Join(err, unknown)
	}
	exists := found.GetUID() != ""
	if _, isClaim := wanted.(*corev1.PersistentVolumeClaim); isClaim && exists && apierrors.IsInvalid(err) {
		cause.Message = fmt.Sprintf("claim %q cannot be changed as spec.storage asks", wanted.GetName())
		cause.Advice = "a claim can only grow: undo the change, or delete the claim with its files to have it recreated"
	}
	f.Add(cause)
	// A child that exists is usable although it cannot be changed.
	return step.Result{Stop: !exists, RequeueAfter: h.RetryAfter(f.Owner)}, nil
}

// RetryAfter returns when to repeat a request whose outcome no watch shows. The delay
// grows while the object is stalled.
func (h *Helpers) RetryAfter(o status.Object) time.Duration {
	since := status.FailingSince(o)
	if since.IsZero() || !meta.IsStatusConditionTrue(*o.CommonStatus().Conditions, v1alpha1.ConditionStalled) {
		return minRetry
	}
	return min(max(h.Clock.Since(since), minRetry), maxRetry)
}

// Delete deletes a child by its UID.
func (h *Helpers) Delete(ctx context.Context, child client.Object) error {
	uid := child.GetUID()
	return client.IgnoreNotFound(h.Client.Delete(ctx, child, client.Preconditions{UID: &uid}))
}

// ReadQuotas adds the quotas of a namespace if an Event shows that a creation was
// refused.
func (h *Helpers) ReadQuotas(ctx context.Context, namespace string, w *diagnosis.Workload) error {
	refused := func(e diagnosis.Event) bool { return e.Reason == diagnosis.ReasonFailedCreate }
	if !slices.ContainsFunc(w.Events, refused) {
		return nil
	}
	var quotas corev1.ResourceQuotaList
	if err := h.Live.List(ctx, &quotas, client.InNamespace(namespace)); err != nil {
		return err
	}
	for i := range quotas.Items {
		w.Quotas = append(w.Quotas, &quotas.Items[i])
	}
	return nil
}

// ReadNodes adds a summary of the nodes.
func (h *Helpers) ReadNodes(ctx context.Context, w *diagnosis.Workload) error {
	var nodes corev1.NodeList
	if err := h.Client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	w.Nodes = diagnosis.SummarizeNodes(nodes.Items)
	return nil
}
