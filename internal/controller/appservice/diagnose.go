package appservice

import (
	"context"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bongsu-io/bongsu/internal/controller/reconciler"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
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
		r.EventCache.Forget(a.name)
		r.LookBack(a.State, a.Status.LastFailure, a.pods...)
		return nil
	}
	found, err := r.examine(ctx, a)
	if err != nil || found.Cause == nil {
		return err
	}
	a.Cause, a.Others = found.Cause, found.Others
	if _, failed := a.FailedSince(); failed {
		a.Cause = reconciler.Steady(found.Cause, a.Status.LastFailure)
	}
	return nil
}

func (r *Reconciler) examine(ctx context.Context, a *app) (diagnosis.Diagnosis, error) {
	w := diagnosis.Workload{Controllers: []types.UID{}}
	if a.deployment.UID != "" {
		w.Controllers = append(slices.Collect(maps.Keys(a.sets)), a.deployment.UID)
	}
	w.Pods = a.notReady()
	if err := r.EventCache.Follow(ctx, a.name, append(r.toFollow(a, w.Pods), deploymentOf(a))...); err != nil {
		return diagnosis.Diagnosis{}, err
	}
	w.Events = slices.DeleteFunc(r.EventCache.Events(a.name), a.isOfReadyPod)
	w.Known = slices.Concat(a.Known, a.failedRollout())
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
		if !kube.IsPodReady(pod) && len(pods) < maxExamined {
			pods = append(pods, pod)
		}
	}
	return pods
}

// toFollow are the pods whose Events are read: a few, and none that was just made, for
// to read them of every app that starts is dear, and what they tell is not news yet.
func (r *Reconciler) toFollow(a *app, pods []*corev1.Pod) []diagnosis.Object {
	var objects []diagnosis.Object
	for _, pod := range pods {
		if left := mountGrace - r.Clock.Since(pod.CreationTimestamp.Time); left > 0 {
			a.RequeueAfter(left)
		} else if len(objects) < maxFollowed {
			objects = append(objects, diagnosis.Object{Kind: "Pod", Name: pod.Name})
		}
	}
	return objects
}

// isOfReadyPod tells whether an Event regards a pod that is ready: of which there is
// nothing to explain, and which diagnosis does not see.
func (a *app) isOfReadyPod(e diagnosis.Event) bool {
	return e.Regarding.Kind == "Pod" && slices.ContainsFunc(a.pods, func(p *corev1.Pod) bool {
		return p.Name == e.Regarding.Name && kube.IsPodReady(p)
	})
}

// failedRollout is what the Deployment says of itself: what its ReplicaSets could not
// create, for one.
func (a *app) failedRollout() []diagnosis.Cause {
	d := &a.deployment
	if d.Status.ObservedGeneration != d.Generation {
		return nil
	}
	var causes []diagnosis.Cause
	if c := deploymentCondition(d, appsv1.DeploymentReplicaFailure); c != nil && c.Status == corev1.ConditionTrue {
		causes = append(causes, diagnosis.FromCreateFailure(deploymentOf(a), c.Message))
	}
	c := deploymentCondition(d, appsv1.DeploymentProgressing)
	if c != nil && c.Status == corev1.ConditionFalse && c.Reason == diagnosis.ReasonProgressDeadlineExceeded {
		causes = append(causes, diagnosis.Cause{
			Reason: diagnosis.ReasonProgressDeadlineExceeded, Object: deploymentOf(a),
			Message: "the pods are not ready in the time that the Deployment gives them", Advice: "see the Events of its pods",
			Transient: true, Count: 1,
		})
	}
	return causes
}
