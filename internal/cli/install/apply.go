package install

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// step is a group of manifests that is applied together. await waits for the condition
// that the next step needs.
type step struct {
	name  string
	kinds []string
	await func(context.Context, client.Client) error
}

var policyKinds = []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}

// steps are in the order of their dependencies. Policies come before kinds and permissions,
// so that no object is written unchecked. The last step contains all other kinds.
var steps = []step{
	{name: "namespace", kinds: []string{"Namespace"}},
	{name: "policies", kinds: policyKinds, await: awaitPolicies},
	{name: "kinds", kinds: []string{"CustomResourceDefinition"}, await: awaitKinds},
	{name: "permissions", kinds: []string{"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}},
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
			_, err = applyOne(ctx, c, o)
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
	after, err := applyOne(ctx, c, wanted, client.DryRunAll)
	if err != nil {
		return err
	}
	if applied(before) && equality.Semantic.DeepEqual(normalized(before), normalized(after)) {
		o.unchanged++
		return nil
	}
	o.changed++
	_, err = applyOne(ctx, c, wanted)
	return err
}

// writeOption is an option of all writes.
type writeOption interface {
	client.ApplyOption
	client.PatchOption
}

// applyOne returns the object as the API server stores it.
func applyOne(ctx context.Context, c client.Client, wanted *unstructured.Unstructured, opts ...writeOption) (*unstructured.Unstructured, error) {
	apply, replace := []client.ApplyOption{FieldOwner, client.ForceOwnership}, []client.PatchOption{FieldOwner}
	for _, opt := range opts {
		apply, replace = append(apply, opt), append(replace, opt)
	}
	stored := wanted.DeepCopy() // Apply overwrites it with the response
	if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(stored), apply...); err != nil {
		return nil, fmt.Errorf("apply %s: %w", Describe(wanted), err)
	}
	if !slices.Contains(policyKinds, wanted.GetKind()) {
		return stored, nil
	}
	// Apply keeps what other field managers have added, such as an exception from a policy.
	// The operator does nothing for tenants while a policy differs.
	// A patch has no version: the API server may write the status at the same time.
	patch, err := json.Marshal([]any{map[string]any{"op": "replace", "path": "/spec", "value": wanted.Object["spec"]}})
	if err != nil {
		return nil, err
	}
	if err := c.Patch(ctx, stored, client.RawPatch(types.JSONPatchType, patch), replace...); err != nil {
		return nil, fmt.Errorf("replace the spec of %s: %w", Describe(wanted), err)
	}
	return stored, nil
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
	{Group: "flowcontrol.apiserver.k8s.io", Version: "v1", Kind: "FlowSchema"},
	{Group: "flowcontrol.apiserver.k8s.io", Version: "v1", Kind: "PriorityLevelConfiguration"},
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
// namespace, the cluster-scoped ones, and the RoleBindings of all namespaces.
func listLabeled(ctx context.Context, c client.Client, namespace string) ([]client.Object, error) {
	var found []client.Object
	for _, kind := range prunable {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		in := namespace
		if kind.Kind == "RoleBinding" {
			in = metav1.NamespaceAll // of the namespaces of shared Secrets
		}
		err := c.List(ctx, list, client.MatchingLabels{LabelPartOf: PartOf}, client.InNamespace(in))
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
