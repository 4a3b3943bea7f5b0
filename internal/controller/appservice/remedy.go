package appservice

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/appservice/health"
	"github.com/bongsu-io/bongsu/pkg/events"
)

// restartsPerHour is the limit if none is given.
const restartsPerHour = 3

// chooseRestart decides which pod is to be replaced, if any, and notes it in the
// status: the limit holds even if the operator dies before it acts.
func (r *Reconciler) chooseRestart(a *app, pods []health.Pod) {
	check := a.Spec.HealthCheck
	if check.Remedy != v1alpha1.HealthCheckRemedyRestart || a.Spec.Suspend || !a.DeletionTimestamp.IsZero() {
		a.Status.RestartTimes = nil
		return
	}
	limit := restartsPerHour
	if check.MaxRestartsPerHour != nil {
		limit = int(*check.MaxRestartsPerHour)
	}
	d := health.Remedy{
		Pods: pods, Wanted: int(a.wanted()), Times: a.before.Status.RestartTimes, MaxPerHour: limit, Now: r.Clock.Now(),
	}.Decide()
	a.Status.RestartTimes = d.Times
	if d.Pod != nil {
		a.toRestart = d.Pod.UID
	}
	if !d.Next.IsZero() {
		a.RequeueAfter(d.Next.Sub(r.Clock.Now()))
	}
}

// restart evicts the pod that was chosen, which keeps to the app's disruption budgets.
func (r *Reconciler) restart(ctx context.Context, a *app) error {
	for _, pod := range a.pods {
		if pod.UID == a.toRestart {
			return r.evict(ctx, a, pod)
		}
	}
	return nil
}

// budgetPause is when an eviction is tried again that a disruption budget refused.
const budgetPause = time.Minute

func (r *Reconciler) evict(ctx context.Context, a *app, pod *corev1.Pod) error {
	err := r.Client.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}},
	})
	switch {
	case err == nil:
		r.metrics.restarts.Inc()
		return r.Recorder.Emit(ctx, a.AppService, restarted(pod, r.now()))
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // it is gone already
		return nil
	case apierrors.IsTooManyRequests(err):
		a.RequeueAfter(budgetPause)
		return nil
	}
	return err
}

func restarted(pod *corev1.Pod, at metav1.Time) events.Event {
	return events.Event{
		Type: corev1.EventTypeWarning, Reason: v1alpha1.ReasonRestartedUnhealthyPod, Action: "EvictPod",
		Note:     fmt.Sprintf("Pod %s is unhealthy: it was evicted, to be replaced", pod.Name),
		Identity: string(pod.UID), Since: at.Time,
	}
}
