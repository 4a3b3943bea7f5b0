package install

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
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
		before := &unstructured.Unstructured{}
		before.SetGroupVersionKind(o.GroupVersionKind())
		if err := c.Get(ctx, client.ObjectKeyFromObject(o), before); client.IgnoreNotFound(err) != nil {
			return done, fmt.Errorf("read %s: %w", Describe(o), err)
		}
		if before.GetUID() == "" {
			done.created++
			err = applyOne(ctx, c, o.DeepCopy())
		} else {
			err = done.update(ctx, c, before, o)
		}
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// update applies what makes a difference. An apply that makes none may be written all
// the same: the API server puts managedFields into another order.
func (o *outcome) update(ctx context.Context, c client.Client, before, wanted *unstructured.Unstructured) error {
	after := wanted.DeepCopy() // the answer is written into it
	if err := applyOne(ctx, c, after, client.DryRunAll); err != nil {
		return err
	}
	if applied(before) && equality.Semantic.DeepEqual(bare(before), bare(after)) {
		o.unchanged++
		return nil
	}
	o.changed++
	return applyOne(ctx, c, wanted.DeepCopy())
}

func applyOne(ctx context.Context, c client.Client, o *unstructured.Unstructured, opts ...client.ApplyOption) error {
	opts = append(opts, FieldOwner, client.ForceOwnership)
	if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), opts...); err != nil {
		return fmt.Errorf("apply %s: %w", Describe(o), err)
	}
	return nil
}

// bare is an object without what each write changes, and without what others tell of
// it meanwhile.
func bare(o *unstructured.Unstructured) map[string]any {
	o = o.DeepCopy()
	o.SetManagedFields(nil)
	o.SetResourceVersion("")
	o.SetGeneration(0)
	delete(o.Object, "status")
	return o.Object
}
