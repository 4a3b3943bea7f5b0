package jupyter

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bongsu-io/bongsu/internal/controller/reconciler"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/events"
)

// report writes the status, if it changed, and says what there is to say.
func (r *Reconciler) report(ctx context.Context, n *notebook) (reconcile.Result, error) {
	runs := ""
	if kube.IsPodReady(n.pod) {
		runs = "the notebook serves at " + n.Status.URL
	}
	if err := r.Report(ctx, n.State, n.before, runs); err != nil {
		return reconciler.RequeueOnConflict(err)
	}
	if err := errors.Join(r.tellPod(ctx, n), r.cull(ctx, n)); err != nil {
		return reconciler.RequeueOnConflict(err)
	}
	return reconcile.Result{RequeueAfter: n.Next}, nil
}

// news is how long the creation of a pod is news. It is shorter than the API server
// keeps Events: within it, the same Event is refused.
const news = 10 * time.Minute

func (r *Reconciler) tellPod(ctx context.Context, n *notebook) error {
	if n.pod == nil || r.Clock.Since(n.pod.CreationTimestamp.Time) > news {
		return nil
	}
	return r.Recorder.Emit(ctx, n.Jupyter, createdPod(n.pod))
}

func createdPod(pod *corev1.Pod) events.Event {
	return events.Event{
		Type: corev1.EventTypeNormal, Reason: "CreatedPod", Action: "CreatePod",
		Note: fmt.Sprintf("Pod %s was created", pod.Name), Identity: string(pod.UID), Since: pod.CreationTimestamp.Time,
	}
}

func replacedPod(n *notebook) events.Event {
	return events.Event{
		Type: corev1.EventTypeNormal, Reason: "ReplacedPod", Action: "DeletePod",
		Note:     fmt.Sprintf("Pod %s is deleted, to be made anew as it is asked for now", n.pod.Name),
		Identity: string(n.pod.UID), Since: n.pod.CreationTimestamp.Time,
	}
}
