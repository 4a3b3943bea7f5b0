// Package install brings manifests into a cluster, with the rights of an
// administrator: it is how `bongsu install`, `bongsu local` and the tests install. What
// the manifests are is not its business, nor is it the operator's to install anything.
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
	"github.com/bongsu-io/bongsu/internal/operator/feature"
)

// FieldOwner owns the fields that are applied.
const FieldOwner = client.FieldOwner("bongsu-install")

const pollInterval = 50 * time.Millisecond

// Install applies all that config holds and returns when it is in effect. A second
// time changes nothing.
func Install(ctx context.Context, cfg *rest.Config) error {
	objects, err := config.Objects(feature.All())
	if err != nil {
		return err
	}
	installer, err := New(cfg, func(string) {})
	if err != nil {
		return err
	}
	return installer.Apply(ctx, objects)
}

// Installer brings manifests into one cluster.
type Installer struct {
	config   *rest.Config
	client   client.Client
	progress func(line string)
}

// New returns an Installer that tells what it does, a line at a time.
func New(cfg *rest.Config, progress func(line string)) (*Installer, error) {
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	return &Installer{config: cfg, client: c, progress: progress}, nil
}

// Apply applies manifests on the server's side, step by step, and returns when those
// of the cluster are in effect: kinds are served, policies enforced. A second time
// changes nothing.
func (i *Installer) Apply(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, step := range steps {
		chosen := step.of(objects)
		if len(chosen) == 0 {
			continue
		}
		done, err := apply(ctx, i.client, chosen)
		if err != nil {
			return err
		}
		i.progress(step.name + ": " + done.String())
		if step.await != nil && done.changes() {
			if err := step.await(ctx, i.client); err != nil {
				return err
			}
		}
	}
	return nil
}

// Upgrade applies manifests, waits until the operator is ready, and only then removes
// what the former one needed and this one does not.
func (i *Installer) Upgrade(ctx context.Context, namespace string, objects []*unstructured.Unstructured) error {
	if err := i.Apply(ctx, objects); err != nil {
		return err
	}
	if err := i.AwaitReady(ctx, objects); err != nil {
		return err
	}
	return i.Prune(ctx, namespace, objects)
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
