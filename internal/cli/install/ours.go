package install

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// LabelPartOf, with PartOf as its value, is on all that an installation is made of.
const (
	LabelPartOf = "app.kubernetes.io/part-of"
	PartOf      = "bongsu"
)

// prunable are the kinds of which versions and values decide whether there is one. The
// namespace and the custom resource definitions are not among them: with these, other
// people's objects would go.
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

// Prune deletes what an earlier installation in the namespace applied, and these
// manifests have no longer. What others made is left alone, whatever its labels say.
func (i *Installer) Prune(ctx context.Context, namespace string, objects []*unstructured.Unstructured) error {
	present, err := labelled(ctx, i.client, namespace)
	if err != nil {
		return err
	}
	for _, o := range present {
		if !applied(o) || among(objects, o) {
			continue
		}
		if err := Remove(ctx, i.client, o); err != nil {
			return err
		}
		i.progress("removed " + Describe(o) + ", which is not needed any more")
	}
	return nil
}

// Present returns what there is of an installation in the namespace, however it was
// installed: what an Installer applied, and what is called like one of the manifests.
// Both bear the label of an installation. It is in the order in which to remove it.
func Present(ctx context.Context, c client.Client, namespace string, objects []*unstructured.Unstructured) ([]client.Object, error) {
	present, err := labelled(ctx, c, namespace)
	return slices.DeleteFunc(present, func(o client.Object) bool { return !applied(o) && !among(objects, o) }), err
}

func among(objects []*unstructured.Unstructured, o client.Object) bool {
	return slices.ContainsFunc(objects, func(u *unstructured.Unstructured) bool { return Describe(u) == Describe(o) })
}

// labelled returns what bears the label of an installation, in the namespace or in
// none.
func labelled(ctx context.Context, c client.Client, namespace string) ([]client.Object, error) {
	var found []client.Object
	for _, kind := range prunable {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		err := c.List(ctx, list, client.MatchingLabels{LabelPartOf: PartOf}, client.InNamespace(namespace))
		if meta.IsNoMatchError(err) {
			continue // nothing of a kind that is not served
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

// applied says whether an Installer has applied an object.
func applied(o client.Object) bool {
	return slices.ContainsFunc(o.GetManagedFields(), func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager == string(FieldOwner) && m.Operation == metav1.ManagedFieldsOperationApply
	})
}
