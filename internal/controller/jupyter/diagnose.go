package jupyter

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/reconciler"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
	"github.com/bongsu-io/bongsu/pkg/step"
)

// diagnose finds out why the notebook is not ready, or why its claim does not grow. Only then
// does it read more than the caches.
func (r *Reconciler) diagnose(ctx context.Context, n *notebook) (step.Result, error) {
	last := n.jupyter.Status.LastFailure
	if n.ready && len(n.findings.Known) == 0 && diagnosis.Resizing(&n.claim) == "" {
		r.EventCache.Forget(n.name)
		n.findings.FindCrash(last, r.Clock.Now(), n.formerPods(n.pod)...)
		return step.Result{}, nil
	}
	found, next, err := r.findCause(ctx, n)
	if err == nil {
		n.findings.SetCause(found, last)
		n.findings.FindCrash(last, r.Clock.Now(), n.formerPods()...)
	}
	return step.Result{RequeueAfter: next}, err
}

// formerPods returns the pods with a former pod that was ended. It leaves out one that the cause
// describes: it still is the pod of the notebook, or Events show why it was ended.
func (n *notebook) formerPods(pods ...*corev1.Pod) []*corev1.Pod {
	cause := n.findings.Cause
	switch {
	case n.ended == nil:
		return pods
	case cause != nil && cause.Object.Kind == "Pod" && (n.pod == nil || n.pod.UID == n.ended.UID):
		return pods
	}
	return append(pods, n.ended)
}

// stopObserving releases what only a running notebook needs.
func (r *Reconciler) stopObserving(_ context.Context, n *notebook) (step.Result, error) {
	r.EventCache.Forget(n.name)
	r.prober.forget(n.name)
	return step.Result{}, nil
}

// findCause tries the known causes first, then Events and other objects. If nothing
// explains it, the cause is the deadline. It returns when to try again.
func (r *Reconciler) findCause(ctx context.Context, n *notebook) (diagnosis.Diagnosis, time.Duration, error) {
	found, next, err := r.examine(ctx, n)
	if err != nil || found.Cause != nil || n.ready {
		return found, next, err
	}
	if cause := n.whyEnded(); cause != nil {
		return diagnosis.Diagnose(diagnosis.Workload{Now: r.Clock.Now(), Known: []diagnosis.Cause{*cause}}), next, nil
	}
	var again time.Duration
	found.Cause, again, err = r.findPodConflict(ctx, n)
	next = step.Sooner(next, again)
	if err != nil || found.Cause != nil {
		return found, next, err
	}
	if n.pod != nil && !n.pod.DeletionTimestamp.IsZero() {
		return found, next, nil // nothing can start before it ends
	}
	deadline := n.jupyter.Spec.ProgressDeadline()
	if left := deadline - r.Clock.Since(r.startedAt(n)); left > 0 {
		return found, step.Sooner(next, left), nil
	}
	// The Event that explains it may be older than the operator: read all again.
	r.EventCache.Forget(n.name)
	found, again, err = r.examine(ctx, n)
	if err == nil && found.Cause == nil {
		found.Cause = &diagnosis.Cause{
			Reason: diagnosis.ReasonProgressDeadlineExceeded, Object: n.findings.Self(),
			Message:   fmt.Sprintf("the notebook is not ready after %v, and no cause is known", deadline),
			Advice:    fmt.Sprintf("check whether its image serves on port %d, and the Events of pod %s", workload.SpecPort(n.jupyter), workload.NotebookPodName(n.jupyter)),
			Transient: true, Count: 1,
		}
	}
	return found, step.Sooner(next, again), err
}

// whyEnded returns why a component ended the pod, until the next pod exists, or nil. Its Event can come
// after the pod has ended: the failure would then be reported twice, as a crash and as a cause.
func (n *notebook) whyEnded() *diagnosis.Cause {
	pod := n.pod
	if n.ended != nil && (pod == nil || pod.UID == n.ended.UID) {
		pod = n.ended
	}
	if pod == nil {
		return nil
	}
	if cause := diagnosis.LastCrash([]*corev1.Pod{pod}); cause != nil && cause.Container == "" {
		return cause
	}
	return nil
}

func (r *Reconciler) examine(ctx context.Context, n *notebook) (diagnosis.Diagnosis, time.Duration, error) {
	w := diagnosis.Workload{Now: r.Clock.Now(), Known: n.findings.Known, Controllers: []types.UID{}, Recreated: true}
	if n.set.UID != "" {
		w.Controllers = append(w.Controllers, n.set.UID)
	}
	if n.pod != nil {
		w.Pods = append(w.Pods, n.pod)
	}
	if err := r.EventCache.Follow(ctx, n.name, reconciler.WithClaims(observedObjects(n.jupyter), w.Pods...)...); err != nil {
		return diagnosis.Diagnosis{}, 0, err
	}
	w.Events = r.eventsSinceResumed(n)
	next, err := r.readClaim(ctx, n, &w)
	if err == nil && n.pod != nil {
		err = r.ReadNodesAndVolumes(ctx, &w, n.pod)
	}
	if err != nil {
		return diagnosis.Diagnosis{}, 0, err
	}
	if n.ready { // otherwise something else is more important
		if cause := diagnosis.FromClaim(&n.claim, w.Events); cause != nil {
			w.Known = append(w.Known, *cause)
		}
	}
	found := diagnosis.Diagnose(w)
	found.Complete(kube.NewLookup(ctx, r.Live, n.name.Namespace))
	r.Roots.Complete(ctx, n.jupyter, w, found.Cause)
	if found.Cause == nil && n.pod != nil {
		var again time.Duration
		found.Cause, again = diagnosis.StuckPod(n.pod, w.Events, w.NodeStates, r.Clock.Now())
		next = step.Sooner(next, again)
	}
	return found, next, nil
}

// diagnoseStop finds out why the pod of a suspended notebook still exists.
func (r *Reconciler) diagnoseStop(ctx context.Context, n *notebook) (step.Result, error) {
	if n.pod == nil || n.pod.DeletionTimestamp.IsZero() {
		return step.Result{}, nil
	}
	var w diagnosis.Workload
	if err := r.ReadNodesAndVolumes(ctx, &w, n.pod); err != nil {
		return step.Result{}, err
	}
	cause, again := diagnosis.StuckPod(n.pod, nil, w.NodeStates, r.Clock.Now())
	n.findings.Cause = cause
	return step.Result{RequeueAfter: again}, nil
}

// eventsSinceResumed leaves out Events of a former run.
func (r *Reconciler) eventsSinceResumed(n *notebook) []diagnosis.Event {
	suspended := meta.FindStatusCondition(n.before.Status.Conditions, v1alpha1.ConditionSuspended)
	events := r.EventCache.Events(n.name)
	switch {
	case suspended == nil: // this is the first run
		return events
	case suspended.Status == metav1.ConditionTrue: // the run begins now
		return nil
	}
	return slices.DeleteFunc(events, func(e diagnosis.Event) bool { return e.LastSeen.Before(suspended.LastTransitionTime.Time) })
}

// observedObjects are the objects whose Events explain why the notebook does not run.
func observedObjects(j *v1alpha1.Jupyter) []diagnosis.Object {
	objects := []diagnosis.Object{{Kind: "StatefulSet", Name: j.Name}, {Kind: "Pod", Name: workload.NotebookPodName(j)}}
	if claim := claimName(j); claim != "" {
		objects = append(objects, diagnosis.Object{Kind: "PersistentVolumeClaim", Name: claim})
	}
	return objects
}

// expectEvents registers children before they are created, so that the event cache need
// not list earlier Events. In a namespace with many Events, a list is expensive.
func (r *Reconciler) expectEvents(ctx context.Context, n *notebook) (step.Result, error) {
	if n.suspend {
		return step.Result{}, nil
	}
	err := r.Client.Get(ctx, n.name, &appsv1.StatefulSet{}, client.UnsafeDisableDeepCopy)
	if !apierrors.IsNotFound(err) {
		return step.Result{}, err
	}
	objects := observedObjects(n.jupyter)
	if n.claimName != "" {
		key := types.NamespacedName{Namespace: n.name.Namespace, Name: n.claimName}
		err := r.Client.Get(ctx, key, &corev1.PersistentVolumeClaim{}, client.UnsafeDisableDeepCopy)
		if !apierrors.IsNotFound(err) || n.jupyter.Spec.Storage.ExistingClaim != "" {
			objects = objects[:len(objects)-1]
		}
	}
	r.EventCache.Expect(n.name, objects...)
	return step.Result{}, nil
}

func claimName(j *v1alpha1.Jupyter) string {
	switch {
	case j.Spec.Storage == nil:
		return ""
	case j.Spec.Storage.ExistingClaim != "":
		return j.Spec.Storage.ExistingClaim
	}
	return j.Name
}

// readClaim reads the claim that the pod mounts. A claim of another owner is not cached
// or watched: readClaim returns when to read it again.
func (r *Reconciler) readClaim(ctx context.Context, n *notebook, w *diagnosis.Workload) (time.Duration, error) {
	if n.claimName == "" || n.blocked {
		return 0, nil
	}
	var next time.Duration
	if n.jupyter.Spec.Storage.ExistingClaim != "" {
		err := r.Live.Get(ctx, types.NamespacedName{Namespace: n.name.Namespace, Name: n.claimName}, &n.claim)
		if n.claim.Status.Phase != corev1.ClaimBound {
			next = r.RetryAfter(n.before)
		}
		if apierrors.IsNotFound(err) {
			w.Known = append(w.Known, diagnosis.ClaimNotFound(n.claimName))
			return next, nil
		}
		if err != nil {
			return 0, err
		}
	}
	if n.claim.UID != "" {
		w.Claims = append(w.Claims, &n.claim)
	}
	return next, nil
}
