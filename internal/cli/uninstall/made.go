package uninstall

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/cli/install"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
)

// children are the kinds of what notebooks and apps are made of.
var children = []schema.GroupVersionKind{
	batchv1.SchemeGroupVersion.WithKind("Job"),
	networkingv1.SchemeGroupVersion.WithKind("Ingress"),
	corev1.SchemeGroupVersion.WithKind("Service"),
	appsv1.SchemeGroupVersion.WithKind("Deployment"),
	appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
	corev1.SchemeGroupVersion.WithKind("Secret"),
	corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"),
}

// removeMade removes what was made of notebooks and apps, and returns when it is gone:
// what was to be retained, and what the garbage collector has not removed yet. Once
// their kinds are gone, it knows of no owner any more, and lets them stay for ever.
func (r *removal) removeMade(ctx context.Context) error {
	made, err := r.made(ctx)
	if err != nil {
		return err
	}
	for _, o := range made {
		if err := r.remove(ctx, o); err != nil {
			return err
		}
	}
	if r.DryRun {
		return nil
	}
	err = wait.PollUntilContextCancel(ctx, lookInterval, true, func(ctx context.Context) (_ bool, err error) {
		made, err = r.made(ctx)
		return len(made) == 0, err
	})
	if wait.Interrupted(err) && len(made) > 0 {
		return fmt.Errorf("%w: %s; the operator was left in place", ErrDataStays, install.Describe(made[0]))
	}
	return err
}

// made returns what the operator has made of objects of ours.
func (r *removal) made(ctx context.Context) ([]client.Object, error) {
	var found []client.Object
	for _, kind := range children {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		if err := r.client.List(ctx, list, client.MatchingLabels{workload.LabelManagedBy: workload.ManagedBy}); err != nil {
			return nil, fmt.Errorf("list %ss: %w", kind.Kind, err)
		}
		for i := range list.Items {
			list.Items[i].SetGroupVersionKind(kind)
			if wasMade(&list.Items[i]) {
				found = append(found, &list.Items[i])
			}
		}
	}
	return found, nil
}

// wasMade says whether an object bears the mark of its owner: a label is not enough.
func wasMade(o client.Object) bool {
	return o.GetAnnotations()[v1alpha1.AnnotationOwnerUID] != "" ||
		slices.ContainsFunc(o.GetOwnerReferences(), func(owner metav1.OwnerReference) bool {
			return owner.APIVersion == v1alpha1.SchemeGroupVersion.String()
		})
}
