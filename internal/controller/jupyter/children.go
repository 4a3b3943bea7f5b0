package jupyter

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// ensureClaim makes the claim for the notebook's files.
func (r *Reconciler) ensureClaim(ctx context.Context, n *notebook) error {
	wanted := workload.NotebookClaim(n.Jupyter)
	if wanted == nil || n.Stop {
		return nil
	}
	return r.Ensure(ctx, n.State, wanted, &n.claim)
}

// ensureAccess makes what the notebook is reached through.
func (r *Reconciler) ensureAccess(ctx context.Context, n *notebook) error {
	if n.Stop {
		return nil
	}
	if err := r.Ensure(ctx, n.State, workload.NotebookService(n.Jupyter), &corev1.Service{}); err != nil {
		return err
	}
	if wanted := workload.NotebookIngress(n.Jupyter); wanted != nil {
		return r.Ensure(ctx, n.State, wanted, &networkingv1.Ingress{})
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
	pod, refused := workload.NotebookPod(n.Jupyter, r.image)
	if len(refused) > 0 {
		n.Found(diagnosis.Cause{
			Reason: diagnosis.ReasonInvalidSpec, Object: n.Self(), Message: refused.ToAggregate().Error(),
			Advice: "correct the field; what runs stays as it is", Count: 1,
		})
	}
	if n.Stop {
		return r.scaleDown(ctx, n)
	}
	return r.Ensure(ctx, n.State, workload.NotebookStatefulSet(n.Jupyter, pod), &n.set)
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
