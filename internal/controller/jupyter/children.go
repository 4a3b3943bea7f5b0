package jupyter

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/diagnosis"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/workload"
)

// Bounds of how often something is looked at again of which no watch tells, such as
// what the API server refused.
const (
	refusedAtFirst = 5 * time.Second
	refusedAtMost  = 5 * time.Minute
)

// ensureClaim makes the claim for the notebook's files.
func (r *Reconciler) ensureClaim(ctx context.Context, n *notebook) error {
	wanted := workload.NotebookClaim(n.Jupyter)
	if wanted == nil || n.stop {
		return nil
	}
	return r.ensure(ctx, n, wanted, &n.claim)
}

// ensureAccess makes what the notebook is reached through.
func (r *Reconciler) ensureAccess(ctx context.Context, n *notebook) error {
	if n.stop {
		return nil
	}
	if err := r.ensure(ctx, n, workload.NotebookService(n.Jupyter), &corev1.Service{}); err != nil {
		return err
	}
	if wanted := workload.NotebookIngress(n.Jupyter); wanted != nil {
		return r.ensure(ctx, n, wanted, &networkingv1.Ingress{})
	}
	return r.removeIngress(ctx, n)
}

// removeIngress deletes an Ingress that was ours and is asked for no longer.
func (r *Reconciler) removeIngress(ctx context.Context, n *notebook) error {
	var ingress networkingv1.Ingress
	err := r.Client.Get(ctx, n.name, &ingress)
	if err != nil || !metav1.IsControlledBy(&ingress, n.Jupyter) {
		return client.IgnoreNotFound(err)
	}
	return client.IgnoreNotFound(r.Client.Delete(ctx, &ingress, client.Preconditions{UID: &ingress.UID}))
}

// ensureSet makes the StatefulSet, unless something that its pod needs is missing or
// the pod that is asked for is refused: then it stays as it is, but for being
// suspended.
func (r *Reconciler) ensureSet(ctx context.Context, n *notebook) error {
	pod, refused := workload.NotebookPod(n.Jupyter, r.Image)
	if len(refused) > 0 {
		n.found(diagnosis.Cause{
			Reason: v1alpha1.ReasonInvalidSpec, Object: selfOf(n.Jupyter), Message: refused.ToAggregate().Error(),
			Advice: "correct the field; what runs stays as it is", Count: 1,
		})
	}
	if n.stop {
		return r.scaleDown(ctx, n)
	}
	return r.ensure(ctx, n, workload.NotebookStatefulSet(n.Jupyter, pod), &n.set)
}

// scaleDown reads the StatefulSet as it is, and stops it if the notebook is
// suspended.
func (r *Reconciler) scaleDown(ctx context.Context, n *notebook) error {
	err := r.Client.Get(ctx, n.name, &n.set)
	if err != nil || !metav1.IsControlledBy(&n.set, n.Jupyter) {
		n.set = appsv1.StatefulSet{}
		return client.IgnoreNotFound(err)
	}
	if !n.Spec.Suspend || n.set.Spec.Replicas != nil && *n.set.Spec.Replicas == 0 {
		return nil
	}
	before := n.set.DeepCopy()
	n.set.Spec.Replicas = new(int32(0))
	return r.Client.Patch(ctx, &n.set, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// ensure makes a child what is wanted.
func (r *Reconciler) ensure(ctx context.Context, n *notebook, wanted, found client.Object) error {
	return r.judge(n, wanted, found, r.children.Ensure(ctx, wanted, found))
}

// judge says what an error of making a child comes to: what its owner has to put
// right becomes a cause; what may pass by itself stays an error.
func (r *Reconciler) judge(n *notebook, wanted, found client.Object, err error) error {
	var conflict *kube.ConflictError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &conflict):
		n.found(conflictOf(conflict))
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		n.stop = true
		return nil
	default:
		gvk, unknown := apiutil.GVKForObject(wanted, r.Client.Scheme())
		cause, terminal := diagnosis.Refusal(diagnosis.Object{Kind: gvk.Kind, Name: wanted.GetName()}, err)
		if unknown != nil || !terminal {
			return errors.Join(err, unknown)
		}
		if _, isClaim := wanted.(*corev1.PersistentVolumeClaim); isClaim && found.GetUID() != "" && apierrors.IsInvalid(err) {
			cause.Message = fmt.Sprintf("claim %q cannot be changed to what spec.storage asks for", wanted.GetName())
			cause.Advice = "only its size can grow; undo the change, or delete the claim, and the files in it, to have it made anew"
		}
		n.known = append(n.known, cause)
		// What there is can be used though it cannot be changed: a claim that is not to
		// grow, for one.
		n.stop = n.stop || found.GetUID() == ""
	}
	n.within(r.retryRefused(n))
	return nil
}

// retryRefused waits the longer the longer it has been refused.
func (r *Reconciler) retryRefused(n *notebook) time.Duration {
	stalled := n.stalledBefore()
	if stalled == nil {
		return refusedAtFirst
	}
	return min(max(r.Clock.Since(stalled.LastTransitionTime.Time), refusedAtFirst), refusedAtMost)
}

func conflictOf(c *kube.ConflictError) diagnosis.Cause {
	return diagnosis.Cause{
		Reason: v1alpha1.ReasonResourceConflict, Object: diagnosis.Object{Kind: c.Kind, Name: c.Name},
		Message: c.Error(), Advice: "rename or delete it, or create the Jupyter under another name", Count: 1,
	}
}

func selfOf(j *v1alpha1.Jupyter) diagnosis.Object {
	return diagnosis.Object{Kind: v1alpha1.KindJupyter, Name: j.Name}
}
