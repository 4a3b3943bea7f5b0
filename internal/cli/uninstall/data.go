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
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/cli/install"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/internal/kube"
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
	return r.removeChildren(ctx, ownersIn(all))
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

// waitingFor returns an object that is being deleted, with the finalizers of others or, for an app,
// the state of its backup.
func waitingFor(o *unstructured.Unstructured) string {
	if foreign := o.GetFinalizers(); len(foreign) > 0 && !hasFinalizer(o) {
		return fmt.Sprintf("%s, which has the finalizer %s of another owner", install.Describe(o), foreign[0])
	}
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
	o, err := kube.NamespaceMetadata(ctx, r.client, r.Namespace)
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
	policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"),
	corev1.SchemeGroupVersion.WithKind("Service"),
	appsv1.SchemeGroupVersion.WithKind("Deployment"),
	appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
	corev1.SchemeGroupVersion.WithKind("Secret"),
	corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"),
}

// removeChildren deletes the child objects of notebooks and apps, and waits until they no
// longer exist. It deletes retained objects, and those that the garbage collector has not
// deleted yet. Without the owner's kind, the garbage collector would never delete them. owners
// are those that existed when the removal began.
func (r *removal) removeChildren(ctx context.Context, owners owners) error {
	children, copies, err := r.children(ctx, owners)
	if err != nil {
		return err
	}
	for _, o := range copies {
		r.Progress("kept " + install.Describe(o) + ": it has the labels of Bongsu, but the operator did not create it")
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
		children, _, err = r.children(ctx, owners)
		return len(children) == 0, err
	})
	if wait.Interrupted(err) && len(children) > 0 {
		return fmt.Errorf("%w: %s; the operator still runs: run the command again", ErrDataLeft, install.Describe(children[0]))
	}
	return err
}

// children returns the objects that the operator created for notebooks and apps, and copies
// of such objects, which users created.
func (r *removal) children(ctx context.Context, owners owners) (children, copies []client.Object, err error) {
	for _, kind := range childKinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		if err := r.client.List(ctx, list, client.MatchingLabels{workload.LabelManagedBy: workload.ManagedBy}); err != nil {
			return nil, nil, fmt.Errorf("list %ss: %w", kind.Kind, err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			o.SetGroupVersionKind(kind)
			switch uid := ownerUID(o); {
			case uid == "": // a label alone is no sign of the operator
			case owners.own(o, kind.Kind, uid):
				children = append(children, o)
			default:
				copies = append(copies, o)
			}
		}
	}
	return children, copies, nil
}

// ownerUID returns the UID of the notebook or app that an object names as its owner. It is
// empty if the object names none, or belongs to another controller.
func ownerUID(o client.Object) types.UID {
	controller := metav1.GetControllerOfNoCopy(o)
	switch {
	case controller == nil:
		return types.UID(o.GetAnnotations()[v1alpha1.AnnotationOwnerUID])
	case controller.APIVersion == v1alpha1.SchemeGroupVersion.String():
		return controller.UID
	}
	return ""
}

// owners are notebooks and apps, by UID.
type owners map[types.UID]client.Object

func ownersIn(all []*unstructured.Unstructured) owners {
	found := owners{}
	for _, o := range all {
		if owner := newOwner(o.GetKind(), o.GetName(), o.GetUID()); owner != nil {
			owner.SetNamespace(o.GetNamespace())
			found[o.GetUID()] = owner
		}
	}
	return found
}

// newOwner returns nil if the kind has no children.
func newOwner(kind, name string, uid types.UID) client.Object {
	meta := metav1.ObjectMeta{Name: name, UID: uid}
	switch kind {
	case v1alpha1.KindJupyter:
		return &v1alpha1.Jupyter{ObjectMeta: meta}
	case v1alpha1.KindAppService:
		return &v1alpha1.AppService{ObjectMeta: meta}
	}
	return nil
}

// own reports whether the operator created an object for the owner with that UID. Users copy
// objects with their labels and annotations, so the name and the namespace must also be those
// of the owner's child. The labels name an owner that was deleted before. Its namespace is
// unknown, so the operator must have written the object.
func (all owners) own(o client.Object, kind string, uid types.UID) bool {
	if owner := all[uid]; owner != nil {
		return o.GetNamespace() == owner.GetNamespace() && o.GetName() == workload.ChildName(owner, kind)
	}
	labels := o.GetLabels()
	for kindOfOwner, name := range map[string]string{
		v1alpha1.KindJupyter: labels[v1alpha1.LabelJupyter], v1alpha1.KindAppService: labels[v1alpha1.LabelAppService],
	} {
		if name != "" && o.GetName() == workload.ChildName(newOwner(kindOfOwner, name, uid), kind) {
			return isWrittenByOperator(o)
		}
	}
	return false
}

func isWrittenByOperator(o client.Object) bool {
	return slices.ContainsFunc(o.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == string(kube.ChildNames.FieldOwner)
	})
}
