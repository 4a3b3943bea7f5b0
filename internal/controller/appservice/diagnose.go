package appservice

import (
	"context"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
	"github.com/bongsu-io/bongsu/pkg/step"
)

const (
	// maxExamined is how many pods that are not ready are examined. More pods hardly
	// show more causes.
	maxExamined = 20
	// maxFollowed is for how many of these pods Events are read.
	maxFollowed = 3
)

// diagnose finds out why the app is not complete. Only then does it read more than the
// caches.
func (r *Reconciler) diagnose(ctx context.Context, a *app) (step.Result, error) {
	last := a.service.Status.LastFailure
	if a.service.Spec.Suspend || a.isComplete() && len(a.findings.Known) == 0 {
		r.EventCache.Forget(a.name)
		a.findings.FindCrash(last, r.Clock.Now(), a.pods...)
		return step.Result{}, nil
	}
	found, next, err := r.examine(ctx, a)
	if err == nil {
		a.findings.SetCause(found, last)
	}
	return step.Result{RequeueAfter: next}, err
}

func (r *Reconciler) examine(ctx context.Context, a *app) (diagnosis.Diagnosis, time.Duration, error) {
	w := diagnosis.Workload{Controllers: []types.UID{}}
	if a.deployment.UID != "" {
		w.Controllers = append(slices.Collect(maps.Keys(a.sets)), a.deployment.UID)
	}
	w.Pods = a.notReady()
	objects, next := r.observedObjects(a, w.Pods)
	if err := r.EventCache.Follow(ctx, a.name, objects...); err != nil {
		return diagnosis.Diagnosis{}, 0, err
	}
	w.Events = slices.DeleteFunc(r.EventCache.Events(a.name), a.regardsReadyPod)
	w.Known = slices.Concat(a.findings.Known, a.failedRollout())
	if slices.ContainsFunc(w.Pods, func(p *corev1.Pod) bool { return p.Spec.NodeName == "" }) {
		if err := r.ReadNodes(ctx, &w); err != nil {
			return diagnosis.Diagnosis{}, 0, err
		}
	}
	return diagnosis.Diagnose(w), next, nil
}

// notReady returns the first pods that are not ready.
func (a *app) notReady() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, pod := range a.pods {
		if !kube.IsPodReady(pod) && len(pods) < maxExamined {
			pods = append(pods, pod)
		}
	}
	return pods
}

// observedObjects are the objects whose Events are read: the Deployment and a few pods.
// New pods are left out, because a read for every app that starts is expensive.
// observedObjects returns when they are no longer new.
func (r *Reconciler) observedObjects(a *app, pods []*corev1.Pod) ([]diagnosis.Object, time.Duration) {
	objects := []diagnosis.Object{a.deploymentObject()}
	var next time.Duration
	for _, pod := range pods {
		if left := mountGrace - r.Clock.Since(pod.CreationTimestamp.Time); left > 0 {
			next = step.Sooner(next, left)
		} else if len(objects) <= maxFollowed {
			objects = append(objects, diagnosis.Object{Kind: "Pod", Name: pod.Name})
		}
	}
	return objects, next
}

// regardsReadyPod reports whether an Event regards a ready pod, which needs no
// explanation and is not in the diagnosis.
func (a *app) regardsReadyPod(e diagnosis.Event) bool {
	return e.Regarding.Kind == "Pod" && slices.ContainsFunc(a.pods, func(p *corev1.Pod) bool {
		return p.Name == e.Regarding.Name && kube.IsPodReady(p)
	})
}

// failedRollout returns what the Deployment itself reports, for example what its
// ReplicaSets could not create.
func (a *app) failedRollout() []diagnosis.Cause {
	d := &a.deployment
	if d.Status.ObservedGeneration != d.Generation {
		return nil
	}
	var causes []diagnosis.Cause
	if c := deploymentCondition(d, appsv1.DeploymentReplicaFailure); c != nil && c.Status == corev1.ConditionTrue {
		causes = append(causes, diagnosis.FromCreateFailure(a.deploymentObject(), c.Message))
	}
	c := deploymentCondition(d, appsv1.DeploymentProgressing)
	if c != nil && c.Status == corev1.ConditionFalse && c.Reason == diagnosis.ReasonProgressDeadlineExceeded {
		causes = append(causes, diagnosis.Cause{
			Reason: diagnosis.ReasonProgressDeadlineExceeded, Object: a.deploymentObject(),
			Message: "the pods are not ready in the time that the Deployment gives them", Advice: "see the Events of its pods",
			Transient: true, Count: 1,
		})
	}
	return causes
}
