package install

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// step is some of the manifests, and what must be so before the next ones are applied.
type step struct {
	name  string
	kinds []string
	await func(context.Context, client.Client) error
}

// steps put what others refer to first; the last is all that no other is.
var steps = []step{
	{name: "namespace", kinds: []string{"Namespace"}},
	{name: "kinds", kinds: []string{"CustomResourceDefinition"}, await: awaitKinds},
	{name: "rights", kinds: []string{"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}},
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

// outcome counts what became of manifests.
type outcome struct{ created, changed, unchanged int }

func (o outcome) changes() bool { return o.created+o.changed > 0 }

// String implements fmt.Stringer.
func (o outcome) String() string {
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

// Apply applies objects on the server's side, one after the other.
func Apply(ctx context.Context, c client.Client, objects ...*unstructured.Unstructured) error {
	_, err := apply(ctx, c, objects)
	return err
}

// apply leaves the objects that it was given as they are.
func apply(ctx context.Context, c client.Client, objects []*unstructured.Unstructured) (done outcome, err error) {
	for _, o := range objects {
		before := &metav1.PartialObjectMetadata{}
		before.SetGroupVersionKind(o.GroupVersionKind())
		if err := c.Get(ctx, client.ObjectKeyFromObject(o), before); client.IgnoreNotFound(err) != nil {
			return done, fmt.Errorf("read %s: %w", Describe(o), err)
		}
		after := o.DeepCopy() // the answer is written into it
		if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(after), FieldOwner, client.ForceOwnership); err != nil {
			return done, fmt.Errorf("apply %s: %w", Describe(o), err)
		}
		switch before.ResourceVersion {
		case "":
			done.created++
		case after.GetResourceVersion():
			done.unchanged++
		default:
			done.changed++
		}
	}
	return done, nil
}
