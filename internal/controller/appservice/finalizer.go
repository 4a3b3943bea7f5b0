package appservice

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// lifeChanged lets through what kube.SpecChanged does, and the release of a deletion.
var lifeChanged = predicate.Or(kube.SpecChanged, predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetAnnotations()[v1alpha1.AnnotationAbandonBackup] != e.ObjectNew.GetAnnotations()[v1alpha1.AnnotationAbandonBackup]
	},
})

// holdForBackup has the AppService wait for its backup when it is deleted. It comes
// before the children cease to go with it. One that is being deleted already is not
// held: that it has no finalizer is somebody's will.
func (r *Reconciler) holdForBackup(ctx context.Context, a *app) error {
	if a.Spec.Backup == nil || !a.DeletionTimestamp.IsZero() {
		return nil
	}
	return r.setFinalizer(ctx, a, true)
}

// releaseFromBackup is for one that has no backup any more, after its children go with
// it again.
func (r *Reconciler) releaseFromBackup(ctx context.Context, a *app) error {
	if a.Spec.Backup != nil || !a.DeletionTimestamp.IsZero() || a.Stop {
		return nil
	}
	return r.setFinalizer(ctx, a, false)
}

func (r *Reconciler) setFinalizer(ctx context.Context, a *app, wanted bool) error {
	if controllerutil.ContainsFinalizer(a.AppService, v1alpha1.FinalizerBackup) == wanted {
		return nil
	}
	status := a.Status
	before := a.AppService.DeepCopy()
	if wanted {
		controllerutil.AddFinalizer(a.AppService, v1alpha1.FinalizerBackup)
	} else {
		controllerutil.RemoveFinalizer(a.AppService, v1alpha1.FinalizerBackup)
	}
	if err := r.Client.Patch(ctx, a.AppService, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return client.IgnoreNotFound(err)
	}
	a.before = a.AppService.DeepCopy()
	a.Status = status // what the API server answered is older
	return nil
}

// cleanUp removes what the app is made of once its backup is over, and lets it go.
func (r *Reconciler) cleanUp(ctx context.Context, a *app) error {
	if a.Spec.DeletionPolicy != v1alpha1.DeletionPolicyRetain {
		if err := r.removeChildren(ctx, a); err != nil {
			return err
		}
	}
	if err := r.Recorder.Emit(ctx, a.AppService, cleanupComplete(a)); err != nil {
		return err
	}
	r.forget(a.name)
	return r.setFinalizer(ctx, a, false)
}

// isNamespaceGoing tells whether the app's namespace is being deleted.
func (r *Reconciler) isNamespaceGoing(ctx context.Context, a *app) (bool, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := r.Client.Get(ctx, types.NamespacedName{Name: a.Namespace}, namespace, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return !namespace.DeletionTimestamp.IsZero(), err
}
