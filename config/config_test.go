package config_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bongsu-io/bongsu/config"
	"github.com/bongsu-io/bongsu/internal/operator/feature"
)

// A developer is told in the guides that it takes no more than the right to edit
// their namespace.
func TestWhoeverMayEditANamespaceMayUseEveryKindInIt(t *testing.T) {
	objects, err := config.Objects(feature.All())
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	roles := map[string]*rbacv1.ClusterRole{}
	for _, o := range objects {
		if scope, _, _ := unstructured.NestedString(o.Object, "spec", "scope"); scope == "Namespaced" {
			plural, _, _ := unstructured.NestedString(o.Object, "spec", "names", "plural")
			want = append(want, plural)
			if isScaled(o) {
				want = append(want, plural+"/scale")
			}
		}
		if o.GetKind() == "ClusterRole" {
			role := &rbacv1.ClusterRole{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, role); err != nil {
				t.Fatal(err)
			}
			roles[role.Name] = role
		}
	}
	slices.Sort(want)
	for name, aggregated := range map[string]string{"bongsu-edit": "edit", "bongsu-view": "view"} {
		role := roles[name]
		if role == nil || role.Labels["rbac.authorization.k8s.io/aggregate-to-"+aggregated] != "true" {
			t.Errorf("there is no ClusterRole %s, or it is not part of %s", name, aggregated)
			continue
		}
		var got []string
		for _, rule := range role.Rules {
			got = append(got, rule.Resources...)
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("kinds of a namespace (-) and %s (+):\n%s", name, diff)
		}
	}
}

// isScaled tells whether kubectl scale works for a kind.
func isScaled(crd *unstructured.Unstructured) bool {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	return slices.ContainsFunc(versions, func(v any) bool {
		_, found, _ := unstructured.NestedMap(v.(map[string]any), "subresources", "scale")
		return found
	})
}
