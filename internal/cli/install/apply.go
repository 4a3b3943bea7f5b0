package install

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// step is a group of manifests that is applied together. await waits for the condition
// that the next step needs.
type step struct {
	name  string
	kinds []string
	await func(context.Context, client.Client) error
}

// steps are in the order of their dependencies. The last step contains all other kinds.
var steps = []step{
	{name: "namespace", kinds: []string{"Namespace"}},
	{name: "kinds", kinds: []string{"CustomResourceDefinition"}, await: awaitKinds},
	{name: "permissions", kinds: []string{"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}},
	{name: "policies", kinds: []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}, await: awaitPolicies},
	{name: "workload"},
}

func (s step) of(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(objects), func(o *unstructured.Unstructured) bool { return stepOf(o.GetKind()) != s.name })
}

func stepOf(kind string) string {
	last := len(steps) - 1
	for _, s := range steps[:last] {
		if slices.Contains(s.kinds, kind) {
			return s.name
		}
	}
	return steps[last].name
}

// counts holds the numbers of applied manifests by result.
type counts struct{ created, changed, unchanged int }

func (o counts) changes() bool { return o.created+o.changed > 0 }

// String implements fmt.Stringer.
func (o counts) String() string {
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{{o.created, "created"}, {o.changed, "changed"}, {o.unchanged, "unchanged"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	return strings.Join(parts, ", ")
}

// Apply applies objects one after the other, with server-side apply.
func Apply(ctx context.Context, c client.Client, objects ...*unstructured.Unstructured) error {
	_, err := apply(ctx, c, objects)
	return err
}

// apply does not change the given objects.
func apply(ctx context.Context, c client.Client, objects []*unstructured.Unstructured) (done counts, err error) {
	for _, o := range objects {
		before := &unstructured.Unstructured{}
		before.SetGroupVersionKind(o.GroupVersionKind())
		if err := c.Get(ctx, client.ObjectKeyFromObject(o), before); client.IgnoreNotFound(err) != nil {
			return done, fmt.Errorf("read %s: %w", Describe(o), err)
		}
		if before.GetUID() == "" {
			done.created++
			err = applyOne(ctx, c, o.DeepCopy())
		} else {
			err = done.update(ctx, c, before, o)
		}
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// update applies an object only if that changes it. A dry run finds this out, because the
// API server may store a new version even without a change: it reorders managedFields.
func (o *counts) update(ctx context.Context, c client.Client, before, wanted *unstructured.Unstructured) error {
	after := wanted.DeepCopy() // Apply overwrites it with the response
	if err := applyOne(ctx, c, after, client.DryRunAll); err != nil {
		return err
	}
	if applied(before) && equality.Semantic.DeepEqual(normalized(before), normalized(after)) {
		o.unchanged++
		return nil
	}
	o.changed++
	return applyOne(ctx, c, wanted.DeepCopy())
}

func applyOne(ctx context.Context, c client.Client, o *unstructured.Unstructured, opts ...client.ApplyOption) error {
	opts = append(opts, FieldOwner, client.ForceOwnership)
	if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), opts...); err != nil {
		return fmt.Errorf("apply %s: %w", Describe(o), err)
	}
	return nil
}

// normalized returns an object without its status and the fields that each write changes.
func normalized(o *unstructured.Unstructured) map[string]any {
	o = o.DeepCopy()
	o.SetManagedFields(nil)
	o.SetResourceVersion("")
	o.SetGeneration(0)
	delete(o.Object, "status")
	return o.Object
}

// LabelPartOf is a label on all objects of an installation. Its value is PartOf.
const (
	LabelPartOf = "app.kubernetes.io/part-of"
	PartOf      = "bongsu"
)

// prunable are the kinds of objects that an upgrade may remove. The namespace and the
// custom resource definitions are excluded, because their deletion also deletes objects of
// users.
var prunable = []schema.GroupVersionKind{
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Group: "apps", Version: "v1", Kind: "StatefulSet"},
	{Group: "monitoring.coreos.com", Version: "v1", Kind: "ServiceMonitor"},
	{Group: "monitoring.coreos.com", Version: "v1", Kind: "PrometheusRule"},
	{Group: "", Version: "v1", Kind: "Service"},
	{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicyBinding"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicy"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
	{Group: "", Version: "v1", Kind: "ServiceAccount"},
}

// Prune deletes objects that an earlier installation in the namespace applied, and that
// are no longer in the manifests. It never deletes objects that others created, even if
// they have the label.
func (i *Installer) Prune(ctx context.Context, namespace string, objects []*unstructured.Unstructured) error {
	present, err := listLabeled(ctx, i.client, namespace)
	if err != nil {
		return err
	}
	for _, o := range present {
		if !applied(o) || contains(objects, o) {
			continue
		}
		if err := Remove(ctx, i.client, o); err != nil {
			return err
		}
		i.progress("removed " + Describe(o) + ", which is no longer needed")
	}
	return nil
}

// Present returns the existing objects of an installation in the namespace, in the order
// of their removal. The objects have the label of an installation. Either an Installer
// applied them, or the manifests contain an object with the same kind and name.
func Present(ctx context.Context, c client.Client, namespace string, objects []*unstructured.Unstructured) ([]client.Object, error) {
	present, err := listLabeled(ctx, c, namespace)
	return slices.DeleteFunc(present, func(o client.Object) bool { return !applied(o) && !contains(objects, o) }), err
}

func contains(objects []*unstructured.Unstructured, o client.Object) bool {
	return slices.ContainsFunc(objects, func(u *unstructured.Unstructured) bool { return Describe(u) == Describe(o) })
}

// listLabeled returns the objects with the label of an installation: those in the
// namespace, and the cluster-scoped ones.
func listLabeled(ctx context.Context, c client.Client, namespace string) ([]client.Object, error) {
	var found []client.Object
	for _, kind := range prunable {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		err := c.List(ctx, list, client.MatchingLabels{LabelPartOf: PartOf}, client.InNamespace(namespace))
		if meta.IsNoMatchError(err) {
			continue // the cluster does not have this kind
		}
		if err != nil {
			return nil, fmt.Errorf("list %ss: %w", kind.Kind, err)
		}
		for j := range list.Items {
			list.Items[j].SetGroupVersionKind(kind)
			found = append(found, &list.Items[j])
		}
	}
	return found, nil
}

// applied reports whether an Installer has applied the object.
func applied(o client.Object) bool {
	return slices.ContainsFunc(o.GetManagedFields(), func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager == string(FieldOwner) && m.Operation == metav1.ManagedFieldsOperationApply
	})
}

// Remove deletes objects. It ignores objects that no longer exist, and objects that were
// recreated since they were read.
func Remove(ctx context.Context, c client.Client, objects ...client.Object) error {
	for _, o := range objects {
		err := c.Delete(ctx, o, client.PropagationPolicy(metav1.DeletePropagationBackground), preconditions(o))
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete %s: %w", Describe(o), err)
		}
	}
	return nil
}

func preconditions(o client.Object) client.Preconditions {
	if uid := o.GetUID(); uid != "" {
		return client.Preconditions{UID: &uid}
	}
	return client.Preconditions{}
}

// Describe returns the kind, namespace and name of an object.
func Describe(o client.Object) string {
	kind := o.GetObjectKind().GroupVersionKind().Kind
	if o.GetNamespace() == "" {
		return kind + " " + o.GetName()
	}
	return kind + " " + o.GetNamespace() + "/" + o.GetName()
}
