package install

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Remove deletes objects as they were read; one that is gone, or has been replaced, is
// no error.
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

// Describe names an object for a person.
func Describe(o client.Object) string {
	kind := o.GetObjectKind().GroupVersionKind().Kind
	if o.GetNamespace() == "" {
		return kind + " " + o.GetName()
	}
	return kind + " " + o.GetNamespace() + "/" + o.GetName()
}
