package watch

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

var now = time.Date(2026, 11, 20, 19, 2, 11, 0, time.UTC)

// forTests makes digests that can be compared within a test.
var forTests = newRedactor()

// kept returns what is kept of an object in YAML.
func kept(t testing.TB, text string) *Object {
	t.Helper()
	return forTests.redact(raw(t, text))
}

// raw decodes numbers as a client does.
func raw(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	b, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

// named returns an object with as little as an object has.
func named(name, uid, version string) *Object {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}
	u.SetNamespace("default")
	u.SetName(name)
	u.SetUID(types.UID(uid))
	u.SetResourceVersion(version)
	return forTests.redact(u)
}
