package appservice

import (
	"context"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/diagnosis"
)

const (
	// maxExamined is how many pods that are not ready are examined: a thousand of them
	// hardly fail for more reasons.
	maxExamined = 20
	// maxFollowed is of how many of these the Events are read.
	maxFollowed = 3
)

// diagnose says why the app does not run as it should. What is read for it besides the
// caches is read only while it does not.
func (r *Reconciler) diagnose(ctx context.Context, a *app) error {
	if (a.isComplete() || a.Spec.Suspend) && len(a.Known) == 0 {
		r.Journal.Forget(a.name)
		r.lookBack(a)
		return nil
	}
	found, err := r.examine(ctx, a)
	if err != nil || found.Cause == nil {
		return err
	}
	a.Cause, a.Others = found.Cause, found.Others
	if _, failed := a.FailedSince(); failed {
		a.Cause = new(found.Cause.Steady(a.Status.LastFailure))
	}
	return nil
}

func (r *Reconciler) examine(ctx context.Context, a *app) (diagnosis.Diagnosis, error) {
	w := diagnosis.Workload{Controllers: []types.UID{}}
	if a.deployment.UID != "" {
		w.Controllers = append(slices.Collect(maps.Keys(a.sets)), a.deployment.UID)
	}
	w.Pods = a.notReady()
	objects := []diagnosis.Object{deploymentOf(a)}
	for _, uid := range slices.Sorted(maps.Keys(a.sets)) {
		objects = append(objects, diagnosis.Object{Kind: "ReplicaSet", Name: a.sets[uid]})
	}
	for _, pod := range w.Pods[:min(len(w.Pods), maxFollowed)] {
		objects = append(objects, diagnosis.Object{Kind: "Pod", Name: pod.Name})
	}
	if err := r.Journal.Follow(ctx, a.name, objects...); err != nil {
		return diagnosis.Diagnosis{}, err
	}
	w.Events = slices.DeleteFunc(r.Journal.Events(a.name), a.isOfReadyPod)
	w.Known = slices.Concat(a.Known, a.failedRollout(w.Events))
	if err := r.ReadQuotas(ctx, a.Namespace, &w); err != nil {
		return diagnosis.Diagnosis{}, err
	}
	if slices.ContainsFunc(w.Pods, func(p *corev1.Pod) bool { return p.Spec.NodeName == "" }) {
		if err := r.ReadNodes(ctx, &w); err != nil {
			return diagnosis.Diagnosis{}, err
		}
	}
	return diagnosis.Diagnose(w), nil
}

// notReady are the first pods that are not ready.
func (a *app) notReady() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, pod := range a.pods {
		if !isReady(pod) && len(pods) < maxExamined {
			pods = append(pods, pod)
		}
	}
	return pods
}

// isOfReadyPod tells whether an Event regards a pod that is ready: of which there is
// nothing to explain, and which diagnosis does not see.
func (a *app) isOfReadyPod(e diagnosis.Event) bool {
	return e.Regarding.Kind == "Pod" && slices.ContainsFunc(a.pods, func(p *corev1.Pod) bool {
		return p.Name == e.Regarding.Name && isReady(p)
	})
}

// tellsOfCreation tells whether an Event says what the Deployment sums up as
// ReplicaFailure.
func tellsOfCreation(e diagnosis.Event) bool {
	return e.Regarding.Kind == "ReplicaSet" && e.Reason == v1alpha1.ReasonFailedCreate
}

// failedRollout is what the Deployment says of itself, unless Events say it too.
func (a *app) failedRollout(events []diagnosis.Event) []diagnosis.Cause {
	d := &a.deployment
	if d.Status.ObservedGeneration != d.Generation {
		return nil
	}
	var causes []diagnosis.Cause
	if c := deploymentCondition(d, appsv1.DeploymentReplicaFailure); c != nil && c.Status == corev1.ConditionTrue && !slices.ContainsFunc(events, tellsOfCreation) {
		causes = append(causes, diagnosis.NotCreated(deploymentOf(a), c.Message))
	}
	c := deploymentCondition(d, appsv1.DeploymentProgressing)
	if c != nil && c.Status == corev1.ConditionFalse && c.Reason == v1alpha1.ReasonProgressDeadlineExceeded {
		causes = append(causes, diagnosis.Cause{
			Reason: v1alpha1.ReasonProgressDeadlineExceeded, Object: deploymentOf(a),
			Message: "the pods are not ready in the time that the Deployment gives them", Advice: "see the Events of its pods",
			Passing: true, Count: 1,
		})
	}
	return causes
}

// lookBack finds a crash that was over before anyone looked.
func (r *Reconciler) lookBack(a *app) {
	crash := diagnosis.Crashed(a.pods)
	if crash != nil && diagnosis.IsNews(a.Status.LastFailure, crash, r.Clock.Now()) {
		a.Crash = crash
	}
}
