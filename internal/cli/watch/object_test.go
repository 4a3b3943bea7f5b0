package watch

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
)

func TestWhatIsKeptOfAnObject(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"all but managedFields and what was last applied": {
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, managedFields: [{manager: x}], annotations: {kubectl.kubernetes.io/last-applied-configuration: secret, a: b}}, data: {k: v}}`,
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, annotations: {a: b}}, data: {k: v}}`,
		},
		"no annotations, when none is left": {
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, annotations: {kubectl.kubernetes.io/last-applied-configuration: secret}}}`,
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}`,
		},
		"no annotations that are none": {
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, annotations: "kubectl.kubernetes.io/last-applied-configuration: secret"}}`,
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}`,
		},
		"of a Secret, neither values nor annotations": {
			`{apiVersion: v1, kind: Secret, metadata: {name: a, labels: {l: m}, annotations: {a: secret}}, type: Opaque, immutable: true, data: {k: secret}, stringData: {k: secret}}`,
			`{apiVersion: v1, kind: Secret, metadata: {name: a, labels: {l: m}}, type: Opaque, immutable: true}`,
		},
		"of a Secret, no field that is not known": {
			`{apiVersion: v1, kind: Secret, metadata: {name: a}, data: secret, extra: [secret]}`,
			`{apiVersion: v1, kind: Secret, metadata: {name: a}}`,
		},
		"of another group's Secret, no more than of Kubernetes' own": {
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

func TestWhatIsKeptStaysAsItIs(t *testing.T) {
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

func TestACopyIsOfItsOwn(t *testing.T) {
	o := kept(t, `{apiVersion: v1, kind: Secret, metadata: {name: a, labels: {l: m}}, data: {k: v}}`)
	c, _ := o.DeepCopyObject().(*Object)
	c.SetLabels(nil)
	clear(c.hidden)
	if o.GetLabels()["l"] != "m" || len(o.hidden) != 1 {
		t.Errorf("the original has changed: %v, %d hidden", o.Object, len(o.hidden))
	}
}

func TestDigestsOfTwoWatchesDoNotCompare(t *testing.T) {
	one, another := newRedactor(), newRedactor()
	if one.digest("a") == another.digest("a") {
		t.Error("a digest can be made by anybody")
	}
}

// FuzzSecret lets a Secret hold anything anywhere, and looks for it in whatever is
// printed.
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
		for _, p := range []Printer{TextPrinter{&out, true}, JSONPrinter{&out, true}} {
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

// secretWith has the text among its values and annotations, beside others.
func secretWith(t *testing.T, fieldName, value, annotation, text string) *Object {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata": map[string]any{"name": "a", "annotations": decoded(annotation, text)},
	}}
	u.Object[fieldName] = decoded(value, text)
	return forTests.redact(u)
}

// decoded returns JSON as a value, and the text somewhere in it.
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
