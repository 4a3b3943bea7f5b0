// Package uninstall removes the operator from a cluster. By default the objects of users
// remain, with copies of Secrets, notebooks and apps. The package removes their
// finalizers, because only the operator would remove them.
//
// With Config.DeleteData, it deletes these objects first. The operator still runs then:
// it makes backups of apps and removes copies.
//
// The package never deletes objects that do not belong to Bongsu, even if their names
// or labels match. Bindings of roles to the operator's account belong to Bongsu, even if
// others created them: an account that is created again would have their permissions.
package uninstall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/cli/install"
)

// Config configures Run.
type Config struct {
	// REST is the configuration of a cluster administrator.
	REST *rest.Config
	// Namespace is the namespace of the operator.
	Namespace string
	// Manifests are all objects that an installation may contain, with any values.
	Manifests []*unstructured.Unstructured
	// DeleteData also removes the objects of users and the kinds. It removes the namespace
	// if the installation created it.
	DeleteData bool
	// DryRun only reports what Run would remove.
	DryRun bool
	// Progress receives each action as a line.
	Progress func(line string)
}

type removal struct {
	Config
	client client.Client
	// reported are the objects that a dry run has reported.
	reported map[string]bool
}

// Run removes the operator. It waits until ctx ends. If it fails, call it again: it
// continues with the remaining objects.
func Run(ctx context.Context, c Config) error {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	cl, err := client.New(c.REST, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	r := &removal{Config: c, client: cl, reported: map[string]bool{}}
	kinds, err := r.kinds(ctx)
	if err != nil {
		return err
	}
	if c.DeleteData {
		if err := r.deleteData(ctx, kinds); err != nil {
			return err
		}
	}
	if err := r.stopOperator(ctx); err != nil {
		return err
	}
	left, err := r.removeFinalizers(ctx, kinds)
	if err != nil {
		return err
	}
	if err := errors.Join(r.removeBindings(ctx), r.removeRest(ctx), r.removeState(ctx)); err != nil {
		return err
	}
	if c.DeleteData {
		return errors.Join(r.deleteKinds(ctx, kinds), r.deleteNamespace(ctx))
	}
	r.reportRemaining(left)
	return nil
}

// remove deletes an object, or only reports it in a dry run, once.
func (r *removal) remove(ctx context.Context, o client.Object) error {
	if r.DryRun {
		if name := install.Describe(o); !r.reported[name] {
			r.reported[name] = true
			r.Progress("would remove " + name)
		}
		return nil
	}
	if err := install.Remove(ctx, r.client, o); err != nil {
		return err
	}
	r.Progress("removed " + install.Describe(o))
	return nil
}

func (r *removal) reportRemaining(left int) {
	verb := "remain"
	if r.DryRun {
		verb = "would remain"
	}
	r.Progress(fmt.Sprintf("the kinds, their objects (%d), all that the operator created for these, and namespace %s %s", left, r.Namespace, verb))
}

var crdKind = apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")

// kind is an installed kind of Bongsu.
type kind struct {
	definition *unstructured.Unstructured
	schema.GroupVersionKind
}

// kinds returns the kinds of Bongsu's API group.
func (r *removal) kinds(ctx context.Context) ([]kind, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(crdKind)
	if err := r.client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list CustomResourceDefinitions: %w", err)
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

// objects returns all objects of the kinds.
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

// isOurs reports whether only the operator removes the finalizer.
func isOurs(finalizer string) bool { return strings.HasPrefix(finalizer, v1alpha1.Group+"/") }

func hasFinalizer(o client.Object) bool { return slices.ContainsFunc(o.GetFinalizers(), isOurs) }

// removeFinalizers removes the operator's finalizers. Without the operator, they would
// block the deletion of the objects and of their namespaces. It returns the number of
// objects.
func (r *removal) removeFinalizers(ctx context.Context, kinds []kind) (int, error) {
	all, err := r.objects(ctx, kinds)
	if err != nil {
		return 0, err
	}
	for _, o := range all {
		if !hasFinalizer(o) || r.DryRun && r.DeleteData { // deleteData has reported these objects
			continue
		}
		if err := r.removeFinalizer(ctx, o); err != nil {
			return 0, err
		}
	}
	return len(all), nil
}

func (r *removal) removeFinalizer(ctx context.Context, o *unstructured.Unstructured) error {
	if r.DryRun {
		r.Progress("would remove the finalizer of " + install.Describe(o))
		return nil
	}
	before := o.DeepCopy()
	o.SetFinalizers(slices.DeleteFunc(o.GetFinalizers(), isOurs))
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.client.Patch(ctx, o, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove the finalizer of %s: %w", install.Describe(o), err)
	}
	r.Progress("removed the finalizer of " + install.Describe(o) + ": " + consequence(o))
	return nil
}

// consequence says what a later deletion of the object no longer does.
func consequence(o *unstructured.Unstructured) string {
	if o.GetKind() == v1alpha1.KindAppService {
		return "its deletion makes no backup and leaves its pods"
	}
	return "its deletion leaves its copies"
}
