// Package install applies manifests to a cluster, for `bongsu install`, `bongsu local` and
// the tests. It needs the permissions of a cluster administrator. It does not create the
// manifests: package chart renders them.
package install

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/config"
	"github.com/bongsu-io/bongsu/internal/explain"
	"github.com/bongsu-io/bongsu/internal/feature"
)

// FieldOwner owns the fields that are applied.
const FieldOwner = client.FieldOwner("bongsu-install")

const pollInterval = 50 * time.Millisecond

// Install applies all manifests of package config and returns when they are in effect.
// Repeated calls change nothing.
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

// Installer applies manifests to one cluster.
type Installer struct {
	config   *rest.Config
	client   client.Client
	progress func(line string)
}

// New returns an Installer that reports each action as a line to progress.
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

// Apply applies manifests step by step with server-side apply. It returns when the API
// server serves the kinds and enforces the policies. Repeated calls change nothing.
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

// Upgrade applies manifests and waits until the operator is ready. Only then it removes
// the objects that are no longer needed.
func (i *Installer) Upgrade(ctx context.Context, namespace string, objects []*unstructured.Unstructured) error {
	if err := i.Apply(ctx, objects); err != nil {
		return err
	}
	if err := i.AwaitReady(ctx, objects); err != nil {
		return err
	}
	return i.Prune(ctx, namespace, objects)
}

// awaitKinds returns when the API server serves all kinds of Bongsu.
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

// poll waits for a condition until the context ends.
func poll(ctx context.Context, what string, condition wait.ConditionWithContextFunc) error {
	if err := wait.PollUntilContextCancel(ctx, pollInterval, true, condition); err != nil {
		return fmt.Errorf("wait for %s: %w", what, err)
	}
	return nil
}

// refusedByPolicy reports whether a policy without a reason denied the request.
func refusedByPolicy(err error) bool { return apierrors.IsInvalid(err) }

// probe contains a policy, its binding, and an object that the policy denies.
//
//go:embed probe.yaml
var probe []byte

// awaitPolicies returns when the API server enforces the policies applied so far.
//
// The API server does not report this. But it receives policies in the order of their
// creation, and activates all known policies at once. So awaitPolicies creates one more
// policy, and waits until this one is enforced.
func awaitPolicies(ctx context.Context, c client.Client) (err error) {
	objects, err := config.Decode(bytes.NewReader(probe))
	if err != nil {
		return err
	}
	last := len(objects) - 1
	policy, refused := objects[:last], objects[last]
	defer func() {
		for _, o := range policy {
			err = errors.Join(err, Remove(context.WithoutCancel(ctx), c, o))
		}
	}()
	if err := Apply(ctx, c, policy...); err != nil {
		return err
	}
	return poll(ctx, "the admission policies to be enforced", func(ctx context.Context) (bool, error) {
		err := c.Create(ctx, refused.DeepCopy(), client.DryRunAll)
		if refusedByPolicy(err) {
			return true, nil
		}
		return false, err
	})
}

// readyInterval is the interval of the checks whether the pods are ready.
const readyInterval = time.Second

// ErrNotReady reports that the operator did not become ready in time.
var ErrNotReady = errors.New("the operator is not ready")

// AwaitReady returns when every pod of the manifests' Deployments and StatefulSets has the
// latest revision and is ready. It reports the number of ready pods, and why the others do
// not start. If ctx ends first, the error wraps ErrNotReady and contains the last report.
func (i *Installer) AwaitReady(ctx context.Context, objects []*unstructured.Unstructured) error {
	explainer, err := explain.New(i.config, clock.RealClock{})
	if err != nil {
		return err
	}
	for _, o := range objects {
		if kind := o.GetKind(); kind != "Deployment" && kind != "StatefulSet" {
			continue
		}
		if err := i.awaitRollout(ctx, explainer, o); err != nil {
			return err
		}
	}
	return nil
}

func (i *Installer) awaitRollout(ctx context.Context, explainer *explain.Explainer, o *unstructured.Unstructured) error {
	last := ""
	err := wait.PollUntilContextCancel(ctx, readyInterval, true, func(ctx context.Context) (bool, error) {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(o.GroupVersionKind())
		if err := i.client.Get(ctx, client.ObjectKeyFromObject(o), live); err != nil {
			return false, err
		}
		r := rolloutOf(live)
		line := r.String()
		if !r.done() {
			line += causeOf(ctx, explainer, live)
		}
		if line != last && ctx.Err() == nil {
			i.progress(line)
			last = line
		}
		return r.done(), nil
	})
	if wait.Interrupted(err) {
		return fmt.Errorf("%w: %s", ErrNotReady, last)
	}
	return err
}

// causeOf returns the cause and the advice of `bongsu explain`, or an empty string if
// there is no known cause.
func causeOf(ctx context.Context, explainer *explain.Explainer, o *unstructured.Unstructured) string {
	resource := schema.GroupResource{Group: o.GroupVersionKind().Group, Resource: strings.ToLower(o.GetKind()) + "s"}
	x, err := explainer.Explain(ctx, resource, o.GetNamespace(), o.GetName())
	switch {
	case err != nil || x.Cause == nil:
		return ""
	case x.Cause.Advice == "":
		return ": " + x.Cause.Message
	}
	return ": " + x.Cause.Message + ": " + x.Cause.Advice
}

// rollout is the progress of a Deployment or a StatefulSet.
type rollout struct {
	observed                        bool
	wanted, current, updated, ready int64
}

func rolloutOf(o *unstructured.Unstructured) rollout {
	number := func(fields ...string) int64 {
		n, _, _ := unstructured.NestedInt64(o.Object, fields...)
		return n
	}
	return rollout{
		observed: number("status", "observedGeneration") >= o.GetGeneration(),
		wanted:   number("spec", "replicas"), current: number("status", "replicas"),
		updated: number("status", "updatedReplicas"), ready: number("status", "readyReplicas"),
	}
}

func (r rollout) done() bool {
	return r.observed && r.updated == r.wanted && r.current == r.wanted && r.ready == r.wanted
}

// String implements fmt.Stringer.
func (r rollout) String() string {
	line := fmt.Sprintf("ready: %d of %d", r.ready, r.wanted)
	if former := r.current - r.updated; former > 0 {
		line += fmt.Sprintf(", %d pods of the former version left", former)
	}
	return line
}
