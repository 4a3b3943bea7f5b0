package appservice

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
	"github.com/bongsu-io/bongsu/pkg/events"
)

// expect has the Events kept of a Deployment that is yet to be made.
func (r *Reconciler) expect(ctx context.Context, a *app) error {
	err := r.Client.Get(ctx, a.name, &a.deployment)
	if apierrors.IsNotFound(err) {
		r.EventCache.Expect(a.name, deploymentOf(a))
	}
	a.letGo()
	return client.IgnoreNotFound(err)
}

// letGo has a Deployment of somebody else's counted for nothing.
func (a *app) letGo() {
	if a.deployment.UID != "" && !a.owns(&a.deployment) {
		a.deployment = appsv1.Deployment{}
	}
}

func deploymentOf(a *app) diagnosis.Object { return diagnosis.Object{Kind: "Deployment", Name: a.Name} }

// ensureDeployment makes the Deployment, unless the pod that is asked for is refused:
// then it stays as it is, but for its size.
func (r *Reconciler) ensureDeployment(ctx context.Context, a *app) error {
	pod, refused := workload.AppPod(a.AppService, r.image)
	if len(refused) > 0 {
		a.Found(diagnosis.Cause{
			Reason: diagnosis.ReasonInvalidSpec, Object: a.Self(), Message: refused.ToAggregate().Error(),
			Advice: "correct the field; what runs stays as it is", Count: 1,
		})
	}
	wanted := workload.AppDeployment(a.AppService, pod)
	from := sizeOf(&a.deployment)
	if a.deployment.UID != "" {
		// Before it is changed: afterwards, a retry could not tell what it was.
		if err := r.tellScaling(ctx, a, from, *wanted.Spec.Replicas); err != nil {
			return err
		}
	}
	if a.Stop {
		return r.scale(ctx, a, *wanted.Spec.Replicas)
	}
	if err := r.Ensure(ctx, a.State, wanted, &a.deployment); err != nil {
		return err
	}
	a.letGo()
	if a.deployment.UID == "" {
		return nil
	}
	return r.tellScaling(ctx, a, from, *wanted.Spec.Replicas)
}

// sizeOf is how many pods a Deployment is to have; none if there is no Deployment.
func sizeOf(d *appsv1.Deployment) int32 {
	switch {
	case d.UID == "":
		return 0
	case d.Spec.Replicas == nil:
		return 1 // the API server's default
	}
	return *d.Spec.Replicas
}

// scale changes nothing of the Deployment but its size: down to none if the app is
// suspended, to what is asked for otherwise.
func (r *Reconciler) scale(ctx context.Context, a *app, replicas int32) error {
	d := &a.deployment
	if d.UID == "" {
		return nil
	}
	if d.Spec.Replicas != nil && *d.Spec.Replicas == replicas {
		return nil
	}
	before := d.DeepCopy()
	d.Spec.Replicas = &replicas
	return r.Client.Patch(ctx, d, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// ensureService makes what the app is reached through, or removes it. A Service cannot
// become headless, nor cease to be: it is made anew.
func (r *Reconciler) ensureService(ctx context.Context, a *app) error {
	if a.Stop {
		return nil
	}
	wanted := workload.AppNetworkService(a.AppService)
	var found corev1.Service
	err := r.Client.Get(ctx, a.name, &found)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err == nil && a.owns(&found) && (wanted == nil || isHeadless(wanted) != isHeadless(&found)) {
		return r.Remove(ctx, &found) // that it is gone is told by its watch
	}
	if wanted == nil {
		return nil
	}
	return r.Ensure(ctx, a.State, wanted, &corev1.Service{})
}

func isHeadless(s *corev1.Service) bool { return s.Spec.ClusterIP == corev1.ClusterIPNone }

// tellScaling tells that the number of pods changes. Told twice, it is one Event.
func (r *Reconciler) tellScaling(ctx context.Context, a *app, from, to int32) error {
	if from == to {
		return nil
	}
	return r.Recorder.Emit(ctx, a.AppService, events.Event{
		Type: corev1.EventTypeNormal, Reason: v1alpha1.ReasonScalingReplicaSet, Action: "Scale",
		Note:     fmt.Sprintf("the app is scaled from %d to %d pods", from, to),
		Identity: fmt.Sprintf("%s/%d/%d/%d", a.UID, a.Generation, from, to), Since: a.CreationTimestamp.Time,
	})
}

// removeChildren deletes what the app is made of.
func (r *Reconciler) removeChildren(ctx context.Context, a *app) error {
	for _, child := range []client.Object{&appsv1.Deployment{}, &corev1.Service{}} {
		err := r.Live.Get(ctx, a.name, child)
		if apierrors.IsNotFound(err) || err == nil && !a.owns(child) {
			continue
		}
		if err != nil {
			return err
		}
		if err := r.Remove(ctx, child); err != nil {
			return err
		}
	}
	return nil
}

// owns tells whether a Deployment or Service is the app's.
func (a *app) owns(o client.Object) bool {
	return kube.ChildNames.IsOurs(workload.AppDeployment(a.AppService, corev1.PodTemplateSpec{}), o)
}
