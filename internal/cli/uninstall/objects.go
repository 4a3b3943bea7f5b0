package uninstall

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/cli/install"
)

var crdKind = apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")

// kind is one of ours that the cluster has.
type kind struct {
	definition *unstructured.Unstructured
	schema.GroupVersionKind
}

// kinds returns those of the API group that is ours.
func (r *removal) kinds(ctx context.Context) ([]kind, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(crdKind)
	if err := r.client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("find our kinds: %w", err)
	}
	var found []kind
	for i := range list.Items {
		definition := &list.Items[i]
		if group, _, _ := unstructured.NestedString(definition.Object, "spec", "group"); group != v1alpha1.SchemeGroupVersion.Group {
			continue
		}
		name, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind")
		found = append(found, kind{definition, v1alpha1.SchemeGroupVersion.WithKind(name)})
	}
	return found, nil
}

// objects returns all objects of our kinds.
func (r *removal) objects(ctx context.Context, kinds []kind) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for _, k := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(k.GroupVersionKind)
		if err := r.client.List(ctx, list); err != nil {
			return nil, fmt.Errorf("list %ss: %w", k.Kind, err)
		}
		for i := range list.Items {
			all = append(all, &list.Items[i])
		}
	}
	return all, nil
}

// isOurs says whether a finalizer is one that only the operator takes off.
func isOurs(finalizer string) bool { return strings.HasPrefix(finalizer, v1alpha1.Group+"/") }

func held(o client.Object) bool { return slices.ContainsFunc(o.GetFinalizers(), isOurs) }

// release takes our finalizers off: without the operator, their objects, and the
// namespaces that these are in, could never be deleted. It returns how many objects
// there are.
func (r *removal) release(ctx context.Context, kinds []kind) (int, error) {
	all, err := r.objects(ctx, kinds)
	if err != nil {
		return 0, err
	}
	for _, o := range all {
		if !held(o) || r.DryRun && r.DeleteData { // by then there would be none
			continue
		}
		if err := r.releaseOne(ctx, o); err != nil {
			return 0, err
		}
	}
	return len(all), nil
}

func (r *removal) releaseOne(ctx context.Context, o *unstructured.Unstructured) error {
	if r.DryRun {
		r.Progress("would release " + install.Describe(o) + " from its finalizer")
		return nil
	}
	before := o.DeepCopy()
	o.SetFinalizers(slices.DeleteFunc(o.GetFinalizers(), isOurs))
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.client.Patch(ctx, o, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("release %s from its finalizer: %w", install.Describe(o), err)
	}
	r.Progress("released " + install.Describe(o) + " from its finalizer: " + lostWith(o))
	return nil
}

// lostWith is what does not happen any more when an object is deleted.
func lostWith(o *unstructured.Unstructured) string {
	if o.GetKind() == v1alpha1.KindAppService {
		return "no backup is made when it is deleted, and its pods stay"
	}
	return "its copies stay"
}
