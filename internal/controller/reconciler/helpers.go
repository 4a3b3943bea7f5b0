// Package reconciler has the parts that the controllers of Jupyter and AppService share.
// They create children, find out why these do not run, and report it. Package workload
// decides what the children look like.
package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/eventcache"
	"github.com/bongsu-io/bongsu/internal/controller/status"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/internal/explain"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/children"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
	"github.com/bongsu-io/bongsu/pkg/events"
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
	// Roots completes causes.
	Roots *explain.Roots
	// Enqueuer collects changes, because several of them follow one another.
	Enqueuer

	mu sync.Mutex
	// absent are the unwanted children that do not exist or are not ours, by owner and kind.
	absent map[types.NamespacedName]map[string]ownerVersion
}

// ownerVersion is a version of the spec of one object.
type ownerVersion struct {
	uid        types.UID
	generation int64
}

// New returns Helpers whose Events come from controller, for example
// "jupyter-controller".
func New(c client.Client, live client.Reader, clk clock.WithTicker, controller string) *Helpers {
	h := &Helpers{
		Client: c, Live: live, Clock: clk,
		Children: children.New(c, live, kube.ChildNames),
		Writer:   status.NewWriter(c, clk, controller),
		Roots:    explain.NewRoots(live, c, c.Scheme(), c.RESTMapper(), clk, explain.ForConditions()).WithTrimmedPods(),
		Enqueuer: Enqueuer{delay: collectFor},
		absent:   map[types.NamespacedName]map[string]ownerVersion{},
	}
	h.EventCache = eventcache.New(live, clk, h.Enqueue)
	return h
}

// Observe receives all Events: some explain why a child does not run.
func (h *Helpers) Observe(ctx context.Context, occurrences []alarm.Occurrence) {
	h.EventCache.Observe(ctx, occurrences)
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
	if err := h.confirmOwnerOf(ctx, f.Owner, wanted); err != nil {
		return step.Result{}, err
	}
	reverts := children.BeforeRevert(func(ctx context.Context, edited client.Object) error { return h.emitRevert(ctx, f.Owner, edited) })
	return h.Classify(f, wanted, found, h.Children.Ensure(ctx, wanted, found, reverts))
}

// revertEvery is how often the revert of one child is reported, if another client edits it again
// and again.
const revertEvery = 10 * time.Minute

func (h *Helpers) emitRevert(ctx context.Context, owner status.Object, edited client.Object) error {
	kind, err := apiutil.GVKForObject(edited, h.Client.Scheme())
	if err != nil {
		return err
	}
	of, err := apiutil.GVKForObject(owner, h.Client.Scheme())
	if err != nil {
		return err
	}
	return h.Writer.Emit(ctx, owner, events.Event{
		Type: corev1.EventTypeNormal, Reason: v1alpha1.ReasonRevertedEdit, Action: "Revert",
		Note:     fmt.Sprintf("%[1]s %[2]s was edited, and is set back to what this %[3]s says: edit the %[3]s instead", kind.Kind, edited.GetName(), of.Kind),
		Identity: string(edited.GetUID()), Since: h.Clock.Now().Truncate(revertEvery),
	})
}

// confirmOwnerOf confirms the owner of a child that must be created without an owner
// reference: the garbage collector would not remove it. It also confirms the owner of a child
// that lost its owner reference. The owner may have been deleted with --cascade=orphan. If the
// child got its reference back, the garbage collector would delete it.
func (h *Helpers) confirmOwnerOf(ctx context.Context, owner, wanted client.Object) error {
	found := wanted.DeepCopyObject().(client.Object)
	err := h.Client.Get(ctx, client.ObjectKeyFromObject(wanted), found, client.UnsafeDisableDeepCopy)
	isOwned := metav1.GetControllerOfNoCopy(wanted) != nil
	if apierrors.IsNotFound(err) && !isOwned || err == nil && isOwned && metav1.GetControllerOfNoCopy(found) == nil {
		return h.ConfirmOwner(ctx, owner)
	}
	return client.IgnoreNotFound(err)
}

// ConfirmOwner returns a conflict if the cache contains an object that was deleted, or
// deleted and created again.
func (h *Helpers) ConfirmOwner(ctx context.Context, owner client.Object) error {
	gvk, err := apiutil.GVKForObject(owner, h.Client.Scheme())
	if err != nil {
		return err
	}
	now := &metav1.PartialObjectMetadata{}
	now.SetGroupVersionKind(gvk)
	err = h.Live.Get(ctx, client.ObjectKeyFromObject(owner), now)
	if apierrors.IsNotFound(err) || err == nil && (now.UID != owner.GetUID() || now.DeletionTimestamp.IsZero() != owner.GetDeletionTimestamp().IsZero()) {
		resource := schema.GroupResource{Group: gvk.Group, Resource: strings.ToLower(gvk.Kind)}
		return apierrors.NewConflict(resource, owner.GetName(), errOutdated)
	}
	return err
}

var errOutdated = errors.New("it was deleted: waiting for the cache")

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
	if claim, isClaim := found.(*corev1.PersistentVolumeClaim); isClaim && exists && apierrors.IsInvalid(err) {
		cause.Message = fmt.Sprintf("claim %q cannot be changed as spec.storage asks", wanted.GetName())
		cause.Advice = claimAdvice(wanted, claim)
	}
	if pod := podTemplateOf(wanted); pod != nil {
		cause.Message = workload.UserPaths(f.Owner, pod, cause.Message)
		for i := range cause.Items {
			cause.Items[i] = workload.UserPaths(f.Owner, pod, cause.Items[i])
		}
	}
	f.Add(cause)
	// A child that exists is usable although it cannot be changed.
	return step.Result{Stop: !exists, RequeueAfter: h.RetryAfter(f.Owner)}, nil
}

// claimAdvice says what to do if the API server refuses to change a claim.
func claimAdvice(wanted client.Object, claim *corev1.PersistentVolumeClaim) string {
	if claim.Status.Phase == corev1.ClaimPending && claim.Spec.VolumeName == "" {
		return "delete the claim, which has no volume and no files; it is created again as spec.storage asks"
	}
	asked, isClaim := wanted.(*corev1.PersistentVolumeClaim)
	if isClaim && asked.Spec.Resources.Requests.Storage().Cmp(*claim.Spec.Resources.Requests.Storage()) < 0 {
		return "undo the change, since a claim can only grow, or delete the claim and its files"
	}
	return "undo the change, since only the size of a claim with a volume can change; for another storage class, create another Jupyter and copy the files"
}

// podTemplateOf returns the pod template of a child; nil if it has none.
func podTemplateOf(child client.Object) *corev1.PodTemplateSpec {
	switch child := child.(type) {
	case *appsv1.StatefulSet:
		return &child.Spec.Template
	case *appsv1.Deployment:
		return &child.Spec.Template
	}
	return nil
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

// RemoveUnwanted deletes a child for which the spec does not ask, if the owner owns it. The cache
// lacks a child that lost its labels, so the API server is asked once for each version of the
// spec. The first version had no former one that asked for it. child is empty, except for its name.
func (h *Helpers) RemoveUnwanted(ctx context.Context, owner, child client.Object, owns func(client.Object) bool) error {
	gvk, err := apiutil.GVKForObject(child, h.Client.Scheme())
	if err != nil {
		return err
	}
	key, version := client.ObjectKeyFromObject(child), ownerVersion{owner.GetUID(), owner.GetGeneration()}
	err = h.Client.Get(ctx, key, child)
	if apierrors.IsNotFound(err) && owner.GetGeneration() > 1 && !h.isAbsent(owner, gvk.Kind, version) {
		err = h.Live.Get(ctx, key, child)
	}
	switch {
	case client.IgnoreNotFound(err) != nil:
		return err
	case err != nil || !owns(child):
		h.setAbsent(owner, gvk.Kind, version)
		return nil
	}
	return h.Delete(ctx, child) // the watch shows when it is gone
}

func (h *Helpers) isAbsent(owner client.Object, kind string, version ownerVersion) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	known, isKnown := h.absent[client.ObjectKeyFromObject(owner)][kind]
	return isKnown && known == version
}

func (h *Helpers) setAbsent(owner client.Object, kind string, version ownerVersion) {
	h.mu.Lock()
	defer h.mu.Unlock()
	name := client.ObjectKeyFromObject(owner)
	if h.absent[name] == nil {
		h.absent[name] = map[string]ownerVersion{}
	}
	h.absent[name][kind] = version
}

// Forget releases what is held in memory for an owner.
func (h *Helpers) Forget(owner types.NamespacedName) {
	h.EventCache.Forget(owner)
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.absent, owner)
}

// WithClaims appends the claims that pods without a node mount, at most eight. Their Events show
// why they have no volume.
func WithClaims(objects []diagnosis.Object, pods ...*corev1.Pod) []diagnosis.Object {
	const most = 8
	last := len(objects) + most
	for _, pod := range pods {
		if pod.Spec.NodeName != "" {
			continue
		}
		for _, name := range diagnosis.ClaimsOf(pod) {
			claim := diagnosis.Object{Kind: "PersistentVolumeClaim", Name: name}
			if len(objects) < last && !slices.Contains(objects, claim) {
				objects = append(objects, claim)
			}
		}
	}
	return objects
}

// ReadNodesAndVolumes adds the states of the pods' nodes. If a pod is not scheduled, it also adds
// a summary of all nodes, and the volumes that only other nodes can use.
func (h *Helpers) ReadNodesAndVolumes(ctx context.Context, w *diagnosis.Workload, pods ...*corev1.Pod) error {
	nodes, err := kube.NodesOf(ctx, h.Client, pods)
	if err != nil {
		return err
	}
	w.NodeStates = diagnosis.NodeStates(nodes)
	if !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.Spec.NodeName == "" }) {
		return nil
	}
	var all corev1.NodeList
	if err := h.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	w.Nodes = diagnosis.SummarizeNodes(all.Items)
	if w.Volumes, err = kube.VolumesOf(ctx, h.Live, w); err != nil {
		// Without them, the cause is less specific.
		logr.FromContextOrDiscard(ctx).V(1).Info("Failed to read the volumes of pods", "error", err.Error())
	}
	return nil
}
