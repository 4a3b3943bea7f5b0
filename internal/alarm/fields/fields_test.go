package fields

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

func object(t testing.TB, text string) map[string]any {
	t.Helper()
	asJSON, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var o map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(asJSON, &o); err != nil {
		t.Fatal(err)
	}
	return o
}

func path(t testing.TB, text string) Path {
	t.Helper()
	p, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func shape(t testing.TB, texts ...string) Shape {
	t.Helper()
	var paths []Path
	for _, text := range texts {
		paths = append(paths, path(t, text))
	}
	return NewShape(paths...)
}

func TestAPathIsParsedAndPrinted(t *testing.T) {
	for _, text := range []string{
		"spec", "spec.replicas", "spec.template.spec.containers[*].image", "spec.rules[*].http.paths[*]", "*", ".",
		`metadata.labels["app.kubernetes.io/name"]`, `metadata.annotations["a \"b\""].c`, "status.x-y_z", "webhooks[*]",
	} {
		if got := path(t, text).String(); got != text {
			t.Errorf("Parse(%q) = %q", text, got)
		}
	}
	for from, want := range map[string]string{`metadata["labels"].a`: "metadata.labels.a"} {
		if got := path(t, from).String(); got != want {
			t.Errorf("Parse(%q) = %q, want %q", from, got, want)
		}
	}
}

func TestAnInvalidPathSaysWhere(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "1 to 32 fields",
		"spec..x":                             `column 6: "" is not the name`,
		".spec":                               `column 1: "" is not the name`,
		"spec.":                               `column 6: "" is not the name`,
		"[*]":                                 "column 1",
		"spec[0]":                             `column 5: after "["`,
		"spec['a']":                           `column 5: after "["`,
		`spec["a`:                             `column 5: after "["`,
		`spec[""]`:                            "column 5: the key",
		"spec[\"a\\n\"]":                      "column 5: the key",
		"spec[*]x":                            "column 8: unexpected",
		"spec replicas":                       `column 1: "spec replicas"`,
		"spec.*":                              `column 6: "*"`,
		strings.Repeat("a.", 32) + "a":        "1 to 32 fields",
		"spec.conditions[?(@.type=='Ready')]": `column 16: after "["`,
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q): err = %v, want one that says %q", text, err, want)
		}
	}
}

func TestOnlyConditions(t *testing.T) {
	for text, want := range map[string]bool{
		"*": true, "spec": true, "metadata": true, "metadata.generation": true, "status.conditions": true, "status.conditions[*].status": true,
		".": false, "status": false, "status.matched": false, "metadata.resourceVersion": false,
	} {
		if got := shape(t, "kind", text).OnlyConditions(); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}

func TestAShapeContainsEachFieldOnce(t *testing.T) {
	s := shape(t, "spec.replicas", "spec.template", "spec.template.spec.containers[*].image", "spec.replicas", "metadata.labels")
	if want := "metadata.labels\nspec.replicas\nspec.template"; s.String() != want {
		t.Errorf("shape %q, want %q", s, want)
	}
	again, err := ParseShape(s.String())
	if err != nil || again.String() != s.String() {
		t.Errorf("ParseShape = %q, %v", again, err)
	}
	for text, want := range map[string]bool{
		"spec.template.spec": true, "spec.replicas": true, "spec": false, "status": false, "*": false, ".": false,
	} {
		if got := NewFilter(s).Includes(path(t, text)); got != want {
			t.Errorf("Includes(%s) = %t", text, got)
		}
	}
	if all := Union(s, shape(t, "*")); all.String() != "*\nmetadata.labels" {
		t.Errorf("union with *: %q", all)
	}
	if all := Union(s, shape(t, ".", "*")); all.String() != "." {
		t.Errorf("union with the whole: %q", all)
	}
	if all := Union(shape(t, "metadata"), shape(t, "metadata.generation")); all.String() != "metadata\nmetadata.generation" {
		t.Errorf("the generation is only kept if it is named: %q", all)
	}
	if f := NewFilter(shape(t, ".")); f.Includes(path(t, "metadata.generation")) || !f.Includes(path(t, "metadata.name")) || !f.Includes(DefaultPath()) {
		t.Error("the whole object contains other fields than expected")
	}
	if f := NewFilter(shape(t, "*", "metadata.generation")); !f.Covers(shape(t, "spec.x", "metadata.generation", "*")) || f.Covers(shape(t, "status")) || f.Covers(shape(t, ".")) {
		t.Error("Covers is wrong")
	}
	if !shape(t, "metadata.labels", "metadata.annotations").OnlyMetadata() || s.OnlyMetadata() || shape(t, ".").OnlyMetadata() || !(Shape{}).OnlyMetadata() {
		t.Error("OnlyMetadata is wrong")
	}
}

const web = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
  uid: u
  resourceVersion: "7"
  generation: 2
  labels: {app: web}
  creationTimestamp: "2026-01-02T03:04:05Z"
  annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}", team: a}
  managedFields:
  - {manager: kubectl, time: "2026-01-02T03:04:05Z"}
  - {manager: kube-controller-manager, time: "2026-01-02T03:04:06Z", subresource: status}
spec:
  replicas: 3
  template: {spec: {containers: [{name: web, image: "web:1", args: [a]}, {name: log, image: "log:1"}]}}
status: {replicas: 3}
`

func TestAProjectionHasTheNamedFieldsOnly(t *testing.T) {
	const always = `apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop, uid: u, labels: {app: web}, creationTimestamp: "2026-01-02T03:04:05Z"`
	for paths, want := range map[string]string{
		"spec.replicas":                          always + "}, spec: {replicas: 3}",
		"spec.template.spec.containers[*].image": always + `}, spec: {template: {spec: {containers: [{name: web, image: "web:1"}, {name: log, image: "log:1"}]}}}`,
		"metadata.annotations":                   always + ", annotations: {team: a}}",
		"metadata.generation":                    always + ", generation: 2}",
		"metadata":                               always + ", annotations: {team: a}}",
		"*":                                      always + `}, spec: {replicas: 3, template: {spec: {containers: [{name: web, image: "web:1", args: [a]}, {name: log, image: "log:1"}]}}}`,
		"spec.nothing":                           always + "}, spec: {}",
		"status[*]":                              always + "}, status: {replicas: 3}",
	} {
		before := object(t, web)
		got := NewFilter(shape(t, paths)).Project(before)
		if d := cmp.Diff(object(t, "{"+want+"}"), got); d != "" {
			t.Errorf("%s (-want +got):\n%s", paths, d)
		}
		if d := cmp.Diff(object(t, web), before); d != "" {
			t.Errorf("%s changed the object:\n%s", paths, d)
		}
	}
	if got := NewFilter(shape(t, ".")).Project(object(t, web)); got["status"] == nil {
		t.Errorf("the whole object has no status: %v", got)
	}
}

func TestDifferencesAreDescribed(t *testing.T) {
	for name, tc := range map[string]struct{ paths, before, after, want string }{
		"an image":             {"*", "spec: {template: {spec: {containers: [{name: web, image: 'web:1'}]}}}", "spec: {template: {spec: {containers: [{name: web, image: 'web:2'}]}}}", "image of container web: web:1 -> web:2"},
		"replicas":             {"spec.replicas", "spec: {replicas: 3}", "spec: {replicas: 5}", "replicas: 3 -> 5"},
		"another field":        {"spec.replicas", "spec: {replicas: 3, paused: true}", "spec: {replicas: 3}", ""},
		"another order":        {"*", "spec: {containers: [{name: a}, {name: b}]}", "spec: {containers: [{name: b}, {name: a}]}", ""},
		"a new container":      {"*", "spec: {containers: [{name: a}]}", "spec: {containers: [{name: a}, {name: b, image: x}]}", "container b added"},
		"a container less":     {"*", "spec: {initContainers: [{name: a}]}", "spec: {initContainers: []}", "init container a removed"},
		"one of two less":      {"*", "spec: {initContainers: [{name: a}, {name: b}]}", "spec: {initContainers: [{name: b}]}", "init container a removed"},
		"image of a new one":   {"spec.containers[*].image", "spec: {containers: [{name: a, image: x}]}", "spec: {containers: [{name: a, image: x}, {name: b, image: z}]}", "container b added"},
		"a port":               {"*", "spec: {ports: [{port: 80, protocol: TCP, targetPort: 1}, {port: 80, protocol: UDP, targetPort: 1}]}", "spec: {ports: [{port: 80, protocol: TCP, targetPort: 2}, {port: 80, protocol: UDP, targetPort: 1}]}", "targetPort of port 80/TCP: 1 -> 2"},
		"a list of texts":      {"*", "spec: {args: [a, b]}", "spec: {args: [b, c]}", "args: a -> c"},
		"texts twice":          {"*", "spec: {args: [a, a]}", "spec: {args: [a, b]}", "args: a -> b"},
		"missing, null, empty": {"*", "spec: {a: null, b: {}, d: []}", "spec: {b: null, c: {}}", ""},
		"a value set":          {"*", "spec: {}", "spec: {paused: true}", "paused: set to true"},
		"a value unset":        {"*", "spec: {paused: true}", "spec: {}", "paused: true -> unset"},
		"a label":              {"metadata.labels", "metadata: {labels: {app.x/y: a}}", "metadata: {labels: {app.x/y: b}}", "label app.x/y: a -> b"},
		"the status":           {"status", "status: {conditions: [{type: Ready, status: 'True'}]}", "status: {conditions: [{type: Ready, status: 'False'}]}", "condition Ready: True -> False"},
		"data of a ConfigMap":  {"*", "data: {a: x}", "data: {a: z}", "data.a: x -> z"},
		"a password":           {"*", "spec: {containers: [{name: a, env: [{name: DB_PASSWORD, value: x}]}]}", "spec: {containers: [{name: a, env: [{name: DB_PASSWORD, value: y}]}]}", "env DB_PASSWORD of container a changed"},
		"a secret in data":     {"*", "data: {api-key: x}", "data: {api-key: y}", `data.api-key changed`},
		"many":                 {"*", "spec: {a: 1, b: 1, c: 1, d: 1, e: 1, f: 1, g: 1}", "spec: {a: 2, b: 2, c: 2, d: 2, e: 2, f: 2, g: 2}", "a: 1 -> 2, b: 1 -> 2, c: 1 -> 2, d: 1 -> 2, e: 1 -> 2, and 2 more"},
		"another type":         {"*", "spec: {a: 1}", "spec: {a: {b: 1}}", `a: 1 -> {"b":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			found, more := Differences(object(t, tc.before), object(t, tc.after), []Path{path(t, tc.paths)}, 6)
			if got := Describe(found, more); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			for _, d := range found {
				if strings.Contains(name, "password") && d.From+d.To != "" {
					t.Errorf("a secret is shown: %+v", d)
				}
			}
		})
	}
}

func TestADifferenceHasThePathOfTheEntry(t *testing.T) {
	before, after := object(t, web), object(t, strings.ReplaceAll(web, "web:1", "web:2"))
	found, more := Differences(before, after, []Path{path(t, "spec.template.spec.containers[*].image"), DefaultPath()}, 5)
	if len(found) != 1 || more != 0 || found[0].Field != "spec.template.spec.containers[web].image" || found[0].From != "web:1" || found[0].To != "web:2" {
		t.Errorf("got %+v and %d more", found, more)
	}
}

func TestAProjectionIsEncodedAndDecoded(t *testing.T) {
	for _, text := range []string{web, "{a: b}", fmt.Sprintf("{a: %s}", strings.Repeat("x", 10_000))} {
		o := object(t, text)
		data, err := Encode(o)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(data)
		if d := cmp.Diff(o, got); d != "" || err != nil {
			t.Errorf("err %v (-want +got):\n%s", err, d)
		}
		a, _ := Digest(o)
		b, _ := Digest(got)
		if a != b {
			t.Error("the digest changed")
		}
		if len(text) > 1000 && len(data) > len(text)/2 {
			t.Errorf("%d bytes became %d", len(text), len(data))
		}
	}
}

func FuzzDifferences(f *testing.F) {
	f.Add(`{"spec":{"a":[{"name":"x"},{"name":"x"}]}}`, `{"spec":{"a":[1,null,"x"]}}`, "spec.a[*].name")
	f.Add(`{"metadata":{"labels":{"a":"b"}}}`, `{"metadata":[]}`, "*")
	f.Fuzz(func(t *testing.T, a, b, text string) {
		p, err := Parse(text)
		if err != nil {
			return
		}
		if again, err := Parse(p.String()); err != nil || again.String() != p.String() {
			t.Fatalf("%q is printed as %q, which is parsed as %q (%v)", text, p, again, err)
		}
		var before, after map[string]any
		if kjson.UnmarshalCaseSensitivePreserveInts([]byte(a), &before) != nil || kjson.UnmarshalCaseSensitivePreserveInts([]byte(b), &after) != nil {
			return
		}
		if found, _ := Differences(before, before, []Path{p, DefaultPath()}, 3); len(found) > 0 {
			t.Fatalf("an object differs from itself: %+v", found)
		}
		s := NewShape(p)
		found, more := Differences(NewFilter(s).Project(before), NewFilter(s).Project(after), []Path{p}, 3)
		if len(found) > 3 || len(Describe(found, more)) > 8*(maxField+2*maxText+100)*4 {
			t.Fatalf("too long: %q", Describe(found, more))
		}
	})
}

func BenchmarkProjectAndDigest(b *testing.B) {
	s := shape(b, "spec.template.spec.containers[*].image", "spec.replicas")
	for name, text := range map[string]string{"typical": web, "1MB": strings.Replace(web, "replicas: 3", "replicas: 3\n  big: "+strings.Repeat("x", 1<<20), 1)} {
		o := object(b, text)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Digest(NewFilter(s).Project(o)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Expressions can select any name. The text of the path is stored, and must mean the same.
func TestAPathOfAnyNamesIsParsedAgain(t *testing.T) {
	long := strings.Split(strings.Repeat("a ", 40), " ")
	for _, names := range [][]string{
		{"a b"}, {"*"}, {"."}, {""}, {"metadata", "labels", ""}, {"metadata", "labels", "a\x00b"}, {"metadata", "labels", "a.b/c\"d"},
		{"metadata", "\xff"}, {"spec", "*"}, {"spec", "[*]"}, long, {"$x", "y"}, nil,
	} {
		p := Join(names...)
		again, err := Parse(p.String())
		if err != nil || again.String() != p.String() || len(again.steps) != len(p.steps) || again.rest {
			t.Errorf("Join(%q) is printed as %q, which is parsed as %+v (%v)", names, p, again, err)
		}
	}
}

func TestAnObjectThatIsTooLargeIsNotEncoded(t *testing.T) {
	if _, err := Encode(map[string]any{"a": strings.Repeat("\x01", MaxSize/4)}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("err = %v, want %v", err, ErrTooLarge)
	}
	data, err := Encode(map[string]any{"a": strings.Repeat("<", MaxSize/4)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(data); err != nil {
		t.Error(err)
	}
}

// A filter that shares memory with others keeps the same as one of its own.
func TestAFilterThatWasExtendedKeepsTheFieldsOfBoth(t *testing.T) {
	all := []string{
		".", "*", "metadata", "metadata.generation", "metadata.annotations", `metadata.annotations["a/b"]`, "spec", "spec.replicas",
		"spec.template", "spec.template.spec.containers[*].image", "spec.template.spec.containers[*]", "spec.template.spec[*]", "spec[*].name", "status", "status[*]",
	}
	for _, one := range all {
		for _, two := range all {
			for _, three := range all {
				base := NewFilter(shape(t, one))
				text := base.String()
				added := base.Missing(shape(t, two), shape(t, three))
				got, want := base.With(added), NewFilter(shape(t, one, two, three))
				if d := cmp.Diff(want.Project(object(t, web)), got.Project(object(t, web))); d != "" {
					t.Fatalf("%s with %s and %s (-want +got):\n%s", one, two, three, d)
				}
				for _, other := range all {
					if p := path(t, other); got.Includes(p) != want.Includes(p) {
						t.Errorf("%s with %s and %s includes %s: %t", one, two, three, other, got.Includes(p))
					}
				}
				if parsed, err := ParseShape(got.String()); err != nil || parsed.String() != want.String() {
					t.Errorf("%s with %s and %s has the text %q: %v", one, two, three, got, err)
				}
				if got.OnlyMetadata() != want.OnlyMetadata() || !got.Covers(shape(t, one, two, three)) || !want.CoversAdded(got) {
					t.Errorf("%s with %s and %s covers other fields", one, two, three)
				}
				if base.String() != text || base.Includes(path(t, two)) != NewFilter(shape(t, one)).Includes(path(t, two)) {
					t.Errorf("%s was changed", one)
				}
			}
		}
	}
}
