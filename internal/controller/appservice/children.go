package appservice

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
	"github.com/bongsu-io/bongsu/pkg/events"
	"github.com/bongsu-io/bongsu/pkg/step"
)

// appChanged admits what kube.SpecChanged admits, and the annotation that abandons a
// backup.
var appChanged = predicate.Or(kube.SpecChanged, predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetAnnotations()[v1alpha1.AnnotationAbandonBackup] != e.ObjectNew.GetAnnotations()[v1alpha1.AnnotationAbandonBackup]
	},
})

// terminates admits namespaces that are being deleted.
var terminates = predicate.NewPredicateFuncs(func(o client.Object) bool { return !o.GetDeletionTimestamp().IsZero() })

// deletedIn returns the AppServices that are being deleted in a namespace. When the
// namespace is deleted too, they need no backup, and nothing else enqueues them.
func (r *Reconciler) deletedIn(ctx context.Context, namespace client.Object) []reconcile.Request {
	var all v1alpha1.AppServiceList
	if err := r.Client.List(ctx, &all, client.InNamespace(namespace.GetName()), client.UnsafeDisableDeepCopy); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "cannot list the AppServices of a namespace that is being deleted")
		return nil
	}
	var requests []reconcile.Request
	for i := range all.Items {
		if a := &all.Items[i]; !a.DeletionTimestamp.IsZero() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(a)})
		}
	}
	return requests
}

// addFinalizer adds the finalizer before children lose their owner reference. An app that
// is already being deleted gets none: a user removed it.
func (r *Reconciler) addFinalizer(ctx context.Context, a *app) (step.Result, error) {
	if !workload.MayOutlive(a.service) || a.deleting() {
		return step.Result{}, nil
	}
	return step.Result{}, r.setFinalizer(ctx, a, true)
}

// removeFinalizer removes the finalizer of an app whose children have an owner reference
// again. If the API server refused to update a child, it may still have none.
func (r *Reconciler) removeFinalizer(ctx context.Context, a *app) (step.Result, error) {
	if workload.MayOutlive(a.service) || a.deleting() || len(a.findings.Known) > 0 {
		return step.Result{}, nil
	}
	return step.Result{}, r.setFinalizer(ctx, a, false)
}

func (r *Reconciler) setFinalizer(ctx context.Context, a *app, wanted bool) error {
	if controllerutil.ContainsFinalizer(a.service, v1alpha1.FinalizerBackup) == wanted {
		return nil
	}
	status := a.service.Status
	before := a.service.DeepCopy()
	if wanted {
		controllerutil.AddFinalizer(a.service, v1alpha1.FinalizerBackup)
	} else {
		controllerutil.RemoveFinalizer(a.service, v1alpha1.FinalizerBackup)
	}
	// NotFound: the AppService of the cache was deleted. Children would never be removed.
	err := r.Client.Patch(ctx, a.service, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsNotFound(err) && !wanted:
		return nil
	case err != nil:
		return err
	}
	a.before = a.service.DeepCopy()
	a.service.Status = status // the answer of the API server has the former status
	return nil
}

// findDeployment reads the Deployment. If there is none, it registers it with the event
// cache before it is created.
func (r *Reconciler) findDeployment(ctx context.Context, a *app) (step.Result, error) {
	err := r.Client.Get(ctx, a.name, &a.deployment)
	if apierrors.IsNotFound(err) && !a.isNew() { // the cache lacks a Deployment that lost its labels
		err = r.Live.Get(ctx, a.name, &a.deployment)
	}
	if apierrors.IsNotFound(err) {
		r.EventCache.Expect(a.name, a.deploymentObject())
	}
	a.ignoreForeign()
	return step.Result{}, client.IgnoreNotFound(err)
}

// isNew reports whether the app has no status yet, so that no Deployment of it can have lost its labels.
// If there is one of another owner, its creation fails.
func (a *app) isNew() bool {
	return a.service.Generation == 1 && len(a.service.Status.Conditions) == 0 && a.service.DeletionTimestamp.IsZero()
}

// ignoreForeign clears a Deployment that does not belong to the app.
func (a *app) ignoreForeign() {
	if a.deployment.UID != "" && !a.owns(&a.deployment) {
		a.deployment = appsv1.Deployment{}
	}
}

func (a *app) deploymentObject() diagnosis.Object {
	return diagnosis.Object{Kind: "Deployment", Name: a.name.Name}
}

// ensureDeployment creates or updates the Deployment. If the pod template is refused,
// only the size is updated.
func (r *Reconciler) ensureDeployment(ctx context.Context, a *app) (step.Result, error) {
	pod, refused := workload.AppPod(a.service, r.image)
	wanted := workload.AppDeployment(a.service, pod)
	from, to := sizeOf(&a.deployment), *wanted.Spec.Replicas
	if a.deployment.UID != "" {
		// Before the change: after it, a retry could not know the former size.
		if err := r.emitScaling(ctx, a, from, to); err != nil {
			return step.Result{}, err
		}
	}
	if len(refused) > 0 {
		a.findings.Add(workload.Refusal(a.findings.Self(), refused))
		return step.Result{Stop: true}, r.scale(ctx, a, to)
	}
	result, err := r.Ensure(ctx, &a.findings, wanted, &a.deployment)
	if err != nil {
		return result, err
	}
	if a.ignoreForeign(); a.deployment.UID == "" {
		return result, nil
	}
	return result, r.emitScaling(ctx, a, from, to)
}

// sizeOf is the number of pods that a Deployment asks for.
func sizeOf(d *appsv1.Deployment) int32 {
	switch {
	case d.UID == "":
		return 0
	case d.Spec.Replicas == nil:
		return 1 // the API server's default
	}
	return *d.Spec.Replicas
}

// scale changes only the size of the Deployment.
func (r *Reconciler) scale(ctx context.Context, a *app, replicas int32) error {
	d := &a.deployment
	if d.UID == "" || d.Spec.Replicas != nil && *d.Spec.Replicas == replicas {
		return nil
	}
	before := d.DeepCopy()
	d.Spec.Replicas = &replicas
	metav1.SetMetaDataAnnotation(&d.ObjectMeta, kube.ChildNames.Applied(), "")
	return r.Client.Patch(ctx, d, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), kube.ChildNames.FieldOwner)
}

// ensureService creates, updates or deletes the Service. A Service cannot become
// headless or stop being so: it is deleted and recreated.
func (r *Reconciler) ensureService(ctx context.Context, a *app) (step.Result, error) {
	wanted := workload.AppNetworkService(a.service)
	if wanted == nil {
		return step.Result{}, r.RemoveUnwanted(ctx, a.service, &corev1.Service{ObjectMeta: a.childMeta()}, a.owns)
	}
	var found corev1.Service
	err := r.Client.Get(ctx, a.name, &found)
	if client.IgnoreNotFound(err) != nil {
		return step.Result{}, err
	}
	if err == nil && a.owns(&found) && isHeadless(wanted) != isHeadless(&found) {
		return step.Result{}, r.Delete(ctx, &found) // the watch shows when it is gone
	}
	return r.Ensure(ctx, &a.findings, wanted, &corev1.Service{})
}

// ensureBudget creates, updates or deletes the PodDisruptionBudget. Without it the app runs,
// so a refusal stops nothing.
func (r *Reconciler) ensureBudget(ctx context.Context, a *app) (step.Result, error) {
	wanted := workload.AppDisruptionBudget(a.service)
	if wanted == nil {
		return step.Result{}, r.RemoveUnwanted(ctx, a.service, &policyv1.PodDisruptionBudget{ObjectMeta: a.childMeta()}, a.owns)
	}
	result, err := r.Ensure(ctx, &a.findings, wanted, &policyv1.PodDisruptionBudget{})
	return step.Result{RequeueAfter: result.RequeueAfter}, err
}

// childMeta names a child with the app's own name.
func (a *app) childMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: a.name.Namespace, Name: a.name.Name}
}

func isHeadless(s *corev1.Service) bool { return s.Spec.ClusterIP == corev1.ClusterIPNone }

// emitScaling reports a new number of pods, once.
func (r *Reconciler) emitScaling(ctx context.Context, a *app, from, to int32) error {
	if from == to {
		return nil
	}
	return r.Writer.Emit(ctx, a.service, events.Event{
		Type: corev1.EventTypeNormal, Reason: v1alpha1.ReasonScalingReplicaSet, Action: "Scale",
		Note:     fmt.Sprintf("the app is scaled from %d to %d pods", from, to),
		Identity: fmt.Sprintf("%s/%d/%d/%d", a.service.UID, a.service.Generation, from, to), Since: a.service.CreationTimestamp.Time,
	})
}

// owns reports whether a Deployment, Service or PodDisruptionBudget belongs to the app.
func (a *app) owns(o client.Object) bool {
	return kube.ChildNames.IsOurs(workload.AppDeployment(a.service, corev1.PodTemplateSpec{}), o)
}

// cleanUp deletes the children after the backup, and removes the finalizer.
func (r *Reconciler) cleanUp(ctx context.Context, a *app) error {
	note, end := "the objects of the app are kept, as spec.deletionPolicy says", r.retain
	if a.service.Spec.DeletionPolicy != v1alpha1.DeletionPolicyRetain {
		note, end = "the objects of the app are deleted", r.Delete
	}
	if err := r.endChildren(ctx, a, end); err != nil {
		return err
	}
	err := r.Writer.Emit(ctx, a.service, events.Event{
		Type: corev1.EventTypeNormal, Reason: v1alpha1.ReasonCleanupComplete, Action: "Delete", Note: note,
		Since: a.service.DeletionTimestamp.Time,
	})
	if err != nil {
		return err
	}
	r.forget(a.name)
	return r.setFinalizer(ctx, a, false)
}

// retain removes the owner reference that a child still has if the policy has just changed.
// The garbage collector would delete the child.
func (r *Reconciler) retain(ctx context.Context, child client.Object) error {
	before := child.DeepCopyObject().(client.Object)
	child.SetOwnerReferences(slices.DeleteFunc(child.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		return ref.Kind == v1alpha1.KindAppService && strings.HasPrefix(ref.APIVersion, v1alpha1.Group+"/")
	}))
	if len(child.GetOwnerReferences()) == len(before.GetOwnerReferences()) {
		return nil
	}
	return r.Client.Patch(ctx, child, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// endChildren deletes or retains the children of an app that is deleted.
func (r *Reconciler) endChildren(ctx context.Context, a *app, end func(context.Context, client.Object) error) error {
	for _, child := range []client.Object{&appsv1.Deployment{}, &corev1.Service{}, &policyv1.PodDisruptionBudget{}} {
		err := r.Live.Get(ctx, a.name, child)
		if apierrors.IsNotFound(err) || err == nil && !a.owns(child) {
			continue
		}
		if err != nil {
			return err
		}
		if err := end(ctx, child); err != nil {
			return err
		}
	}
	return nil
}
