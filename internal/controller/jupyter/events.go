package jupyter

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/diagnosis"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// report writes the status, if it changed, and says what there is to say.
func (r *Reconciler) report(ctx context.Context, n *notebook) (reconcile.Result, error) {
	if since, failed := n.failedSince(); failed && !n.stalledNow() && isReady(n.pod) {
		// Before the status is written: afterwards, a retry could not tell that there was
		// anything to recover from.
		if err := r.recorder.Emit(ctx, n.Jupyter, recovered(n, since)); err != nil {
			return reconcile.Result{}, err
		}
	}
	if n.crash != nil { // before, for the same reason
		if err := r.recorder.Emit(ctx, n.Jupyter, crashed(n.crash)); err != nil {
			return reconcile.Result{}, err
		}
	}
	if err := kube.UpdateStatus(ctx, r.Client, n.before, n.Jupyter); err != nil {
		return again(err)
	}
	if n.stalledNow() {
		since := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionStalled).LastTransitionTime.Time
		if err := r.recorder.Emit(ctx, n.Jupyter, failed(n, since)); err != nil {
			return reconcile.Result{}, err
		}
		n.within(r.recorder.NextRepeat(since))
	}
	if err := errors.Join(r.tellPod(ctx, n), r.cull(ctx, n)); err != nil {
		return again(err)
	}
	return reconcile.Result{RequeueAfter: n.next}, nil
}

func (n *notebook) stalledNow() bool {
	return n.cause != nil && meta.IsStatusConditionTrue(n.Status.Conditions, v1alpha1.ConditionStalled)
}

// news is how long the creation of a pod is news. It is shorter than the API server
// keeps Events: within it, the same Event is refused.
const news = 10 * time.Minute

func (r *Reconciler) tellPod(ctx context.Context, n *notebook) error {
	if n.pod == nil || r.Clock.Since(n.pod.CreationTimestamp.Time) > news {
		return nil
	}
	return r.recorder.Emit(ctx, n.Jupyter, createdPod(n.pod))
}

func createdPod(pod *corev1.Pod) kube.Event {
	return kube.Event{
		Type: corev1.EventTypeNormal, Reason: "CreatedPod", Action: "CreatePod",
		Note: fmt.Sprintf("Pod %s was created", pod.Name), Identity: string(pod.UID), Since: pod.CreationTimestamp.Time,
	}
}

func replacedPod(n *notebook) kube.Event {
	return kube.Event{
		Type: corev1.EventTypeNormal, Reason: "ReplacedPod", Action: "DeletePod",
		Note:     fmt.Sprintf("Pod %s is deleted, to be made anew as it is asked for now", n.pod.Name),
		Identity: string(n.pod.UID), Since: n.pod.CreationTimestamp.Time,
	}
}

// failed is the Warning that tells why the notebook does not run.
func failed(n *notebook, since time.Time) kube.Event {
	reason := n.cause.Reason
	if reason == v1alpha1.ReasonFailedCreate && n.cause.Object.Kind == "StatefulSet" {
		reason = "FailedToCreatePod"
	}
	return kube.Event{
		Type: corev1.EventTypeWarning, Reason: reason, Action: "Start",
		Note: n.cause.Sentence(), Identity: n.cause.Identity(), Since: since,
	}
}

func recovered(n *notebook, since time.Time) kube.Event {
	return kube.Event{
		Type: corev1.EventTypeNormal, Reason: v1alpha1.ReasonRecovered, Action: "Start",
		Note: "the notebook serves at " + n.Status.URL, Since: since,
	}
}

// crashed is the Warning of a crash that the notebook has recovered from already.
func crashed(c *diagnosis.Cause) kube.Event {
	return kube.Event{
		Type: corev1.EventTypeWarning, Reason: c.Reason, Action: "Start",
		Note: c.Sentence(), Identity: c.Identity(), Since: c.Time,
	}
}
