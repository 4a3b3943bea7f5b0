package watch

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"
)

func TestRedactedObjects(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"all but managedFields and the last applied configuration": {
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, managedFields: [{manager: x}], annotations: {kubectl.kubernetes.io/last-applied-configuration: secret, a: b}}, data: {k: v}}`,
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, annotations: {a: b}}, data: {k: v}}`,
		},
		"no empty annotations": {
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, annotations: {kubectl.kubernetes.io/last-applied-configuration: secret}}}`,
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}`,
		},
		"no annotations that are not a map": {
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, annotations: "kubectl.kubernetes.io/last-applied-configuration: secret"}}`,
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}`,
		},
		"a Secret without values and annotations": {
			`{apiVersion: v1, kind: Secret, metadata: {name: a, labels: {l: m}, annotations: {a: secret}}, type: Opaque, immutable: true, data: {k: secret}, stringData: {k: secret}}`,
			`{apiVersion: v1, kind: Secret, metadata: {name: a, labels: {l: m}}, type: Opaque, immutable: true}`,
		},
		"a Secret without unknown fields": {
			`{apiVersion: v1, kind: Secret, metadata: {name: a}, data: secret, extra: [secret]}`,
			`{apiVersion: v1, kind: Secret, metadata: {name: a}}`,
		},
		"another API group's Secret without unknown fields": {
			`{apiVersion: example.com/v1, kind: Secret, metadata: {name: a}, spec: {password: secret}}`,
			`{apiVersion: example.com/v1, kind: Secret, metadata: {name: a}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(raw(t, tc.want).Object, kept(t, tc.in).Object); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestTransformKeepsRedactedObjectsAndTombstones(t *testing.T) {
	o := kept(t, `{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {k: v}}`)
	again, err := forTests.transform(o)
	if err != nil || again != any(o) {
		t.Errorf("got %v, %v", again, err)
	}
	tombstone := cache.DeletedFinalStateUnknown{Key: "a", Obj: o}
	if again, err := forTests.transform(tombstone); err != nil || again != any(tombstone) {
		t.Errorf("got %v, %v", again, err)
	}
}

func TestDeepCopyIsIndependent(t *testing.T) {
	o := kept(t, `{apiVersion: v1, kind: Secret, metadata: {name: a, labels: {l: m}}, data: {k: v}}`)
	c, _ := o.DeepCopyObject().(*Object)
	c.SetLabels(nil)
	clear(c.hidden)
	if o.GetLabels()["l"] != "m" || len(o.hidden) != 1 {
		t.Errorf("the original has changed: %v, %d hidden", o.Object, len(o.hidden))
	}
}

func TestDigestsOfTwoRedactorsDiffer(t *testing.T) {
	one, another := newRedactor(), newRedactor()
	if one.digest("a") == another.digest("a") {
		t.Error("the digests of two redactors are equal")
	}
}

// FuzzSecret puts a value into any field of a Secret and checks that no printer prints
// it.
func FuzzSecret(f *testing.F) {
	f.Add(`{"password":"x"}`, "data", `{"a":"b"}`)
	f.Add(`"x"`, "stringData", `[]`)
	f.Add(`[{"a":["x"]}]`, "metadata", `{"kubectl.kubernetes.io/last-applied-configuration":"x"}`)
	f.Fuzz(func(t *testing.T, value, fieldName, annotation string) {
		if slices.Contains([]string{"apiVersion", "kind", "metadata", "type", "immutable"}, fieldName) {
			fieldName = "data"
		}
		from, to := secretWith(t, fieldName, value, annotation, marker), secretWith(t, fieldName, value, annotation, marker+"2")
		var out strings.Builder
		for _, p := range []Printer{TextPrinter{Out: &out, Diff: true}, JSONPrinter{&out, true}} {
			for _, c := range []*Change{
				{Type: Added, Object: from}, {Type: Modified, Former: from, Object: to}, {Type: Deleted, Object: to},
			} {
				if err := p.Print(c); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, forbidden := range []string{marker, base64.StdEncoding.EncodeToString([]byte(marker))[:8]} {
			if strings.Contains(out.String(), forbidden) {
				t.Fatalf("%q is printed:\n%s", forbidden, out.String())
			}
		}
	})
}

const marker = "hunter2-correct-horse"

// secretWith returns a Secret whose values and annotations contain the text.
func secretWith(t *testing.T, fieldName, value, annotation, text string) *Object {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata": map[string]any{"name": "a", "annotations": decoded(annotation, text)},
	}}
	u.Object[fieldName] = decoded(value, text)
	return forTests.redact(u)
}

// decoded returns the value of a JSON text with another text added to it.
func decoded(s, text string) any {
	var value any
	if json.Unmarshal([]byte(s), &value) != nil {
		return map[string]any{"k": text}
	}
	switch v := value.(type) {
	case map[string]any:
		v["k"], v["l"] = text, map[string]any{"m": []any{text}}
	case []any:
		return append(v, text)
	case string:
		return v + text
	}
	return value
}

var now = time.Date(2026, 11, 20, 19, 2, 11, 0, time.UTC)

// forTests is shared by all tests, so that digests are comparable.
var forTests = newRedactor()

// kept returns the redacted form of an object in YAML.
func kept(t testing.TB, text string) *Object {
	t.Helper()
	return forTests.redact(raw(t, text))
}

// raw decodes YAML; numbers have the types that a client returns.
func raw(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	b, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := utiljson.Unmarshal(b, &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

// named returns an object with the minimal metadata.
func named(name, uid, version string) *Object {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}
	u.SetNamespace("default")
	u.SetName(name)
	u.SetUID(types.UID(uid))
	u.SetResourceVersion(version)
	return forTests.redact(u)
}
