package install

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/cli/explain"
)

// lookInterval is how often it is looked whether pods have become ready.
const lookInterval = time.Second

// ErrNotReady means that the operator did not become ready in time.
var ErrNotReady = errors.New("the operator is not ready")

// AwaitReady returns when every pod of the manifests' Deployments and StatefulSets is of
// their latest revision, and ready. It tells how many are and, if they do not start,
// why. If ctx ends before, the error wraps ErrNotReady and says the same.
func (i *Installer) AwaitReady(ctx context.Context, objects []*unstructured.Unstructured) error {
	explainer, err := explain.New(i.config)
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
	said := ""
	err := wait.PollUntilContextCancel(ctx, lookInterval, true, func(ctx context.Context) (bool, error) {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(o.GroupVersionKind())
		if err := i.client.Get(ctx, client.ObjectKeyFromObject(o), live); err != nil {
			return false, err
		}
		r := rolloutOf(live)
		line := r.String()
		if !r.done() {
			line += because(ctx, explainer, live)
		}
		if line != said && ctx.Err() == nil {
			i.progress(line)
			said = line
		}
		return r.done(), nil
	})
	if wait.Interrupted(err) {
		return fmt.Errorf("%w: %s", ErrNotReady, said)
	}
	return err
}

// because is why pods do not run, as `bongsu explain` says; empty if nothing is known
// to be wrong.
func because(ctx context.Context, explainer *explain.Explainer, o *unstructured.Unstructured) string {
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

// rollout is how far the pods of a Deployment or a StatefulSet have come.
type rollout struct {
	seen                          bool
	wanted, made, updated, active int64
}

func rolloutOf(o *unstructured.Unstructured) rollout {
	number := func(fields ...string) int64 {
		n, _, _ := unstructured.NestedInt64(o.Object, fields...)
		return n
	}
	return rollout{
		seen:   number("status", "observedGeneration") >= o.GetGeneration(),
		wanted: number("spec", "replicas"), made: number("status", "replicas"),
		updated: number("status", "updatedReplicas"), active: number("status", "readyReplicas"),
	}
}

func (r rollout) done() bool {
	return r.seen && r.updated == r.wanted && r.made == r.wanted && r.active == r.wanted
}

// String implements fmt.Stringer.
func (r rollout) String() string {
	line := fmt.Sprintf("ready: %d of %d", r.active, r.wanted)
	if former := r.made - r.updated; former > 0 {
		line += fmt.Sprintf(", %d of them to be replaced", former)
	}
	return line
}
