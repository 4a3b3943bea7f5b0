// Package install puts what the operator needs into a cluster: kinds, rights and
// admission policies. It is how `bongsu local` and the tests install; the
// operator's own workload is not its business, nor is it the operator's to
// install anything.
package install

import (
	"context"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/config"
	"github.com/bongsu-io/bongsu/internal/capability"
)

// FieldOwner owns the fields that are applied.
const FieldOwner = client.FieldOwner("bongsu-install")

const pollInterval = 50 * time.Millisecond

// Install applies all that config holds, with the rights of an administrator, and
// returns when it is in effect: kinds are served, policies enforced. A second time
// changes nothing.
func Install(ctx context.Context, cfg *rest.Config) error {
	objects, err := config.Objects(capability.All())
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		return err
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	if err := Apply(ctx, c, objects...); err != nil {
		return err
	}
	if err := awaitKinds(ctx, c); err != nil {
		return err
	}
	return awaitPolicies(ctx, c)
}

// Apply applies objects on the server's side, one after the other.
func Apply(ctx context.Context, c client.Client, objects ...*unstructured.Unstructured) error {
	for _, o := range objects {
		err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), FieldOwner, client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("apply %s %s: %w", o.GetKind(), client.ObjectKeyFromObject(o), err)
		}
	}
	return nil
}

// awaitKinds returns when the API server serves every kind of ours.
func awaitKinds(ctx context.Context, c client.Client) error {
	return poll(ctx, "the kinds to be served", func(ctx context.Context) (bool, error) {
		var crds apiextensionsv1.CustomResourceDefinitionList
		if err := c.List(ctx, &crds); err != nil {
			return false, err
		}
		for i := range crds.Items {
			crd := &crds.Items[i]
			if crd.Spec.Group == v1alpha1.SchemeGroupVersion.Group && !established(crd) {
				return false, nil
			}
		}
		return true, nil
	})
}

func established(crd *apiextensionsv1.CustomResourceDefinition) bool {
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextensionsv1.Established {
			return c.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}

// poll waits for something, as long as the context lasts.
func poll(ctx context.Context, what string, condition wait.ConditionWithContextFunc) error {
	if err := wait.PollUntilContextCancel(ctx, pollInterval, true, condition); err != nil {
		return fmt.Errorf("wait for %s: %w", what, err)
	}
	return nil
}

// refusedByPolicy says whether a policy that names no reason has refused.
func refusedByPolicy(err error) bool { return apierrors.IsInvalid(err) }
