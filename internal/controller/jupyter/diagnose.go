package jupyter

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/reconciler"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// diagnose says why the notebook does not run. What is read for it besides the caches
// is read only while it does not.
func (r *Reconciler) diagnose(ctx context.Context, n *notebook) error {
	if (n.Spec.Suspend || kube.IsPodReady(n.pod)) && len(n.Known) == 0 {
		r.EventCache.Forget(n.name)
		if kube.IsPodReady(n.pod) {
			r.LookBack(n.State, n.Status.LastFailure, n.pod)
		}
		return nil
	}
	found, err := r.findCause(ctx, n)
	if err != nil || found.Cause == nil {
		return err
	}
	n.Cause, n.Others = found.Cause, found.Others
	if _, failed := n.FailedSince(); failed {
		n.Cause = reconciler.Steady(found.Cause, n.Status.LastFailure)
	}
	return nil
}

// findCause goes on from what is known to what is read for it, and ends with that
// nothing says why.
func (r *Reconciler) findCause(ctx context.Context, n *notebook) (diagnosis.Diagnosis, error) {
	if n.Spec.Suspend {
		return diagnosis.Diagnose(diagnosis.Workload{Known: n.Known}), nil
	}
	found, err := r.examine(ctx, n)
	if err != nil || found.Cause != nil {
		return found, err
	}
	if found.Cause, err = r.findIntruder(ctx, n); err != nil || found.Cause != nil || !r.isOverdue(n) {
		return found, err
	}
	// It may have been told before there was anyone to hear it.
	r.EventCache.Forget(n.name)
	if found, err = r.examine(ctx, n); err == nil && found.Cause == nil {
		found.Cause = overdue(n)
	}
	return found, err
}

func (r *Reconciler) examine(ctx context.Context, n *notebook) (diagnosis.Diagnosis, error) {
	w := diagnosis.Workload{Known: n.Known, Controllers: []types.UID{}}
	if n.set.UID != "" {
		w.Controllers = append(w.Controllers, n.set.UID)
	}
	if n.pod != nil {
		w.Pods = append(w.Pods, n.pod)
	}
	if err := r.EventCache.Follow(ctx, n.name, objectsOf(n)...); err != nil {
		return diagnosis.Diagnosis{}, err
	}
	w.Events = r.eventsSinceResumed(n)
	if err := r.readClaim(ctx, n, &w); err != nil {
		return diagnosis.Diagnosis{}, err
	}
	if n.pod == nil {
		if err := r.ReadQuotas(ctx, n.Namespace, &w); err != nil {
			return diagnosis.Diagnosis{}, err
		}
	} else if n.pod.Spec.NodeName == "" {
		if err := r.ReadNodes(ctx, &w); err != nil {
			return diagnosis.Diagnosis{}, err
		}
	}
	return diagnosis.Diagnose(w), nil
}

// eventsSinceResumed leaves out what was told of a former run.
func (r *Reconciler) eventsSinceResumed(n *notebook) []diagnosis.Event {
	resumed := n.Before(v1alpha1.ConditionSuspended)
	events := r.EventCache.Events(n.name)
	switch {
	case resumed == nil: // it never ran before
		return events
	case resumed.Status == metav1.ConditionTrue: // until now
		return nil
	}
	return slices.DeleteFunc(events, func(e diagnosis.Event) bool { return e.LastSeen.Before(resumed.LastTransitionTime.Time) })
}

// objectsOf are those whose Events tell of the notebook.
func objectsOf(n *notebook) []diagnosis.Object {
	objects := []diagnosis.Object{{Kind: "StatefulSet", Name: n.Name}, {Kind: "Pod", Name: podName(n.Jupyter)}}
	if claim := claimName(n.Jupyter); claim != "" {
		objects = append(objects, diagnosis.Object{Kind: "PersistentVolumeClaim", Name: claim})
	}
	return objects
}

// expect has the Events kept of what is yet to be made. So nobody need ask for those
// that came before: of a namespace with many Events that is dear.
func (r *Reconciler) expect(ctx context.Context, n *notebook) error {
	if n.Spec.Suspend {
		return nil
	}
	err := r.Client.Get(ctx, n.name, &appsv1.StatefulSet{}, client.UnsafeDisableDeepCopy)
	if !apierrors.IsNotFound(err) {
		return err
	}
	objects := objectsOf(n)
	if claim := claimName(n.Jupyter); claim != "" {
		err := r.Client.Get(ctx, types.NamespacedName{Namespace: n.Namespace, Name: claim}, &corev1.PersistentVolumeClaim{}, client.UnsafeDisableDeepCopy)
		if !apierrors.IsNotFound(err) || n.Spec.Storage.ExistingClaim != "" {
			objects = objects[:len(objects)-1]
		}
	}
	r.EventCache.Expect(n.name, objects...)
	return nil
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

// readClaim reads the claim that the pod mounts. One of somebody else's is in no
// cache, and no watch tells of it.
func (r *Reconciler) readClaim(ctx context.Context, n *notebook, w *diagnosis.Workload) error {
	name := claimName(n.Jupyter)
	if name == "" || n.Stop {
		return nil
	}
	if n.Spec.Storage.ExistingClaim != "" {
		err := r.Live.Get(ctx, types.NamespacedName{Namespace: n.Namespace, Name: name}, &n.claim)
		if n.claim.Status.Phase != corev1.ClaimBound {
			n.RequeueAfter(r.RetryRefused(n.State))
		}
		if apierrors.IsNotFound(err) {
			w.Known = append(w.Known, diagnosis.ClaimNotFound(name))
			return nil
		}
		if err != nil {
			return err
		}
	}
	if n.claim.UID != "" {
		w.Claims = append(w.Claims, &n.claim)
	}
	return nil
}

// isOverdue tells whether the start takes longer than it was given.
func (r *Reconciler) isOverdue(n *notebook) bool {
	left := n.Spec.ProgressDeadline() - r.Clock.Since(r.StartedAt(n.State))
	if left > 0 {
		n.RequeueAfter(left)
		return false
	}
	return true
}

func overdue(n *notebook) *diagnosis.Cause {
	return &diagnosis.Cause{
		Reason: diagnosis.ReasonProgressDeadlineExceeded, Object: n.Self(),
		Message:   fmt.Sprintf("the notebook is not ready after %v, and nothing says why", n.Spec.ProgressDeadline()),
		Advice:    "see whether its image serves on port 8888, and the Events of pod " + podName(n.Jupyter),
		Transient: true, Count: 1,
	}
}
