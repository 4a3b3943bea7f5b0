package appservice

import (
	"context"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bongsu-io/bongsu/internal/controller/reconciler"
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
		a.findings.FindCrash(last, r.Clock.Now(), slices.Concat(a.current(a.pods), a.past())...)
		return r.diagnoseStop(ctx, a)
	}
	found, next, err := r.examine(ctx, a)
	if err == nil {
		a.findings.SetCause(found, last)
		a.findings.FindCrash(last, r.Clock.Now(), a.past()...)
	}
	return step.Result{RequeueAfter: next}, err
}

// diagnoseStop finds out why the pods of a suspended app still exist.
func (r *Reconciler) diagnoseStop(ctx context.Context, a *app) (step.Result, error) {
	if !a.service.Spec.Suspend || len(a.ending) == 0 {
		return step.Result{}, nil
	}
	var w diagnosis.Workload
	if err := r.ReadNodesAndVolumes(ctx, &w, a.ending...); err != nil {
		return step.Result{}, err
	}
	var found diagnosis.Diagnosis
	again := found.AddStuck(a.ending, w, r.Clock.Now())
	a.findings.Cause, a.findings.Others = found.Cause, found.Others
	return step.Result{RequeueAfter: again}, nil
}

func (r *Reconciler) examine(ctx context.Context, a *app) (diagnosis.Diagnosis, time.Duration, error) {
	w := diagnosis.Workload{Now: r.Clock.Now(), Controllers: []types.UID{}, Recreated: true, Surging: diagnosis.SurgingDeployment(&a.deployment), KeepsOldPods: diagnosis.KeepsOldPods(&a.deployment)}
	if a.deployment.UID != "" {
		w.Controllers = append(slices.Collect(maps.Keys(a.sets)), a.deployment.UID)
	}
	w.Pods = a.notReady()
	objects, next := r.observedObjects(a, w.Pods)
	// No pod is created before the old ones end.
	recreates := a.deployment.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType && len(a.ending) > 0
	if recreates && r.Clock.Since(a.ending[0].DeletionTimestamp.Time) > time.Minute {
		objects = append(objects, diagnosis.Object{Kind: "Pod", Name: a.ending[0].Name})
	}
	if err := r.EventCache.Follow(ctx, a.name, objects...); err != nil {
		return diagnosis.Diagnosis{}, 0, err
	}
	w.Events = slices.DeleteFunc(r.EventCache.Events(a.name), a.regardsReadyPod)
	w.Known = slices.Concat(a.findings.Known, a.failedRollout())
	pods := w.Pods
	if recreates {
		pods = slices.Concat(pods, a.ending)
	}
	if err := r.ReadNodesAndVolumes(ctx, &w, pods...); err != nil {
		return diagnosis.Diagnosis{}, 0, err
	}
	found := diagnosis.Diagnose(w)
	found.Complete(kube.NewLookup(ctx, r.Live, a.name.Namespace))
	r.Roots.Complete(ctx, a.service, w, found.Cause)
	if recreates {
		next = step.Sooner(next, found.AddStuck(a.ending, w, r.Clock.Now()))
	}
	return found, next, nil
}

// isShort reports whether pods are missing: those that have ended are not replaced yet.
func (a *app) isShort() bool { return len(a.pods) < int(a.wanted()) }

// past returns the pods with the current template that a component deletes or has deleted, and those
// that have ended and were replaced.
func (a *app) past() []*corev1.Pod {
	deleted := slices.DeleteFunc(a.current(a.ending), func(pod *corev1.Pod) bool { return !kube.IsDisrupted(pod) })
	if a.lastEnded != nil && !slices.ContainsFunc(a.ended, func(pod *corev1.Pod) bool { return pod.UID == a.lastEnded.UID }) {
		deleted = append(deleted, a.current([]*corev1.Pod{a.lastEnded})...)
	}
	if a.isShort() {
		return deleted
	}
	return append(deleted, a.current(a.ended)...)
}

// notReady returns the first pods that are not ready. A pod that has ended counts until it is
// replaced.
func (a *app) notReady() []*corev1.Pod {
	all := a.pods
	if a.isShort() {
		all = slices.Concat(a.pods, a.current(a.ended))
	}
	var pods []*corev1.Pod
	for _, pod := range all {
		if !kube.IsPodReady(pod) && len(pods) < maxExamined {
			pods = append(pods, pod)
		}
	}
	return pods
}

// observedObjects are the objects whose Events are read: the Deployment, a few pods, and the
// claims of these pods.
// A new pod is left out until something is known to be wrong with it, because a read for every app that
// starts is expensive. observedObjects returns when no pod is new any more.
func (r *Reconciler) observedObjects(a *app, pods []*corev1.Pod) ([]diagnosis.Object, time.Duration) {
	objects := []diagnosis.Object{a.deploymentObject()}
	var examined []*corev1.Pod
	var next time.Duration
	for _, pod := range pods {
		if left := reconciler.SetUpGrace - r.Clock.Since(pod.CreationTimestamp.Time); left > 0 && !needsEvents(pod) {
			next = step.Sooner(next, left)
		} else if len(objects) <= maxFollowed {
			objects = append(objects, diagnosis.Object{Kind: "Pod", Name: pod.Name})
			examined = append(examined, pod)
		}
	}
	return reconciler.WithClaims(objects, examined...), next
}

// needsEvents reports whether there is a cause in a pod that is reported at once. Its Events can show
// another one: a container that ended, for example, may have failed its liveness probe.
func needsEvents(pod *corev1.Pod) bool {
	cause := diagnosis.Diagnose(diagnosis.Workload{Pods: []*corev1.Pod{pod}}).Cause
	return cause != nil && graceFor(cause.Reason) == 0
}

// regardsReadyPod reports whether an Event regards a ready pod, which needs no
// explanation and is not in the diagnosis.
func (a *app) regardsReadyPod(e diagnosis.Event) bool {
	return e.Regarding.Kind == "Pod" && slices.ContainsFunc(a.pods, func(p *corev1.Pod) bool {
		return p.Name == e.Regarding.Name && kube.IsPodReady(p)
	})
}

// failedRollout returns what the Deployment itself shows, for example what its ReplicaSets
// could not create.
func (a *app) failedRollout() []diagnosis.Cause {
	d := &a.deployment
	if d.Status.ObservedGeneration != d.Generation {
		return nil
	}
	if cause := diagnosis.FromDeployment(d); cause != nil {
		return []diagnosis.Cause{*cause}
	}
	return nil
}
