package cluster

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// Manifest returns an object of one of our kinds with a spec in YAML, as a user
// would write it: nothing stops it from being wrong.
func Manifest(t testing.TB, kind, namespace, name, spec string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind(kind))
	u.SetNamespace(namespace)
	u.SetName(name)
	var value any
	if err := yaml.Unmarshal([]byte(spec), &value); err != nil {
		t.Fatal(err)
	}
	if value != nil {
		u.Object["spec"] = value
	}
	return u
}
