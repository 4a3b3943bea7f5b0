package uninstall

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/cli/install"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
)

// ErrNoOperator reports that no operator runs that could make backups and remove copies.
var ErrNoOperator = errors.New("no operator runs")

// ErrDataLeft reports that objects of users were not deleted in time.
var ErrDataLeft = errors.New("not all objects are deleted")

// deleteData deletes the objects of all kinds, waits until the operator has removed their
// finalizers, and deletes their child objects.
func (r *removal) deleteData(ctx context.Context, kinds []kind) error {
	all, err := r.objects(ctx, kinds)
	if err != nil {
		return err
	}
	if err := r.checkOperator(ctx, all); err != nil {
		return err
	}
	for _, o := range all {
		if err := r.remove(ctx, o); err != nil {
			return err
		}
	}
	if !r.DryRun {
		if err := r.awaitGone(ctx, kinds); err != nil {
			return err
		}
	}
	return r.removeChildren(ctx)
}

// checkOperator returns an error if objects have finalizers, but no operator runs that
// would remove them.
func (r *removal) checkOperator(ctx context.Context, all []*unstructured.Unstructured) error {
	if !slices.ContainsFunc(all, func(o *unstructured.Unstructured) bool { return hasFinalizer(o) }) {
		return nil
	}
	leader, err := r.leader(ctx)
	if err == nil && leader == "" {
		return fmt.Errorf("%w in namespace %s to make backups and remove copies: start it with bongsu install --apply, or omit --delete-data", ErrNoOperator, r.Namespace)
	}
	return err
}

func (r *removal) awaitGone(ctx context.Context, kinds []kind) error {
	last := ""
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		left, err := r.objects(ctx, kinds)
		if err != nil || len(left) == 0 {
			return len(left) == 0, err
		}
		if line := fmt.Sprintf("waiting for the deletion of %d objects, such as %s", len(left), waitingFor(left[0])); line != last && ctx.Err() == nil {
			r.Progress(line)
			last = line
		}
		return false, nil
	})
	if wait.Interrupted(err) {
		return fmt.Errorf("%w: %s; the operator still runs: run the command again", ErrDataLeft, last)
	}
	return err
}

// waitingFor returns an object that is being deleted and, for an app, the state of its
// backup.
func waitingFor(o *unstructured.Unstructured) string {
	phase, _, _ := unstructured.NestedString(o.Object, "status", "backup", "phase")
	message, _, _ := unstructured.NestedString(o.Object, "status", "backup", "message")
	switch {
	case phase == "":
		return install.Describe(o)
	case message == "":
		return fmt.Sprintf("%s (backup: %s)", install.Describe(o), phase)
	}
	return fmt.Sprintf("%s (backup: %s: %s)", install.Describe(o), phase, message)
}

// deleteKinds deletes the CustomResourceDefinitions and waits until they no longer exist.
func (r *removal) deleteKinds(ctx context.Context, kinds []kind) error {
	for _, k := range kinds {
		if err := r.removeAndWait(ctx, k.definition); err != nil {
			return err
		}
	}
	return nil
}

// deleteNamespace deletes the operator's namespace if the installation created it.
func (r *removal) deleteNamespace(ctx context.Context) error {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := r.client.Get(ctx, client.ObjectKey{Name: r.Namespace}, o)
	if err != nil || o.Labels[install.LabelPartOf] != install.PartOf {
		return client.IgnoreNotFound(err)
	}
	return r.removeAndWait(ctx, o)
}

func (r *removal) removeAndWait(ctx context.Context, o client.Object) error {
	if err := r.remove(ctx, o); err != nil || r.DryRun {
		return err
	}
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		left := &metav1.PartialObjectMetadata{}
		left.SetGroupVersionKind(o.GetObjectKind().GroupVersionKind())
		err := r.client.Get(ctx, client.ObjectKeyFromObject(o), left)
		if err == nil && left.UID == o.GetUID() {
			return false, nil
		}
		return true, client.IgnoreNotFound(err)
	})
	if wait.Interrupted(err) {
		return fmt.Errorf("%s still exists: %w", install.Describe(o), err)
	}
	return err
}

// childKinds are the kinds that the operator creates for notebooks and apps.
var childKinds = []schema.GroupVersionKind{
	batchv1.SchemeGroupVersion.WithKind("Job"),
	networkingv1.SchemeGroupVersion.WithKind("Ingress"),
	corev1.SchemeGroupVersion.WithKind("Service"),
	appsv1.SchemeGroupVersion.WithKind("Deployment"),
	appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
	corev1.SchemeGroupVersion.WithKind("Secret"),
	corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"),
}

// removeChildren deletes the child objects of notebooks and apps, and waits until they no
// longer exist. It deletes retained objects, and those that the garbage collector has not
// deleted yet. Without the owner's kind, the garbage collector would never delete them.
func (r *removal) removeChildren(ctx context.Context) error {
	children, err := r.children(ctx)
	if err != nil {
		return err
	}
	for _, o := range children {
		if err := r.remove(ctx, o); err != nil {
			return err
		}
	}
	if r.DryRun {
		return nil
	}
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (_ bool, err error) {
		children, err = r.children(ctx)
		return len(children) == 0, err
	})
	if wait.Interrupted(err) && len(children) > 0 {
		return fmt.Errorf("%w: %s; the operator still runs: run the command again", ErrDataLeft, install.Describe(children[0]))
	}
	return err
}

// children returns the objects that the operator created for notebooks and apps.
func (r *removal) children(ctx context.Context) ([]client.Object, error) {
	var found []client.Object
	for _, kind := range childKinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		if err := r.client.List(ctx, list, client.MatchingLabels{workload.LabelManagedBy: workload.ManagedBy}); err != nil {
			return nil, fmt.Errorf("list %ss: %w", kind.Kind, err)
		}
		for i := range list.Items {
			list.Items[i].SetGroupVersionKind(kind)
			if isChild(&list.Items[i]) {
				found = append(found, &list.Items[i])
			}
		}
	}
	return found, nil
}

// isChild reports whether an object refers to its owner. A label alone is not enough.
func isChild(o client.Object) bool {
	return o.GetAnnotations()[v1alpha1.AnnotationOwnerUID] != "" ||
		slices.ContainsFunc(o.GetOwnerReferences(), func(owner metav1.OwnerReference) bool {
			return owner.APIVersion == v1alpha1.SchemeGroupVersion.String()
		})
}
