package watch

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

func TestTextPrintsALinePerChange(t *testing.T) {
	var out strings.Builder
	p := TextPrinter{Out: &out, Type: ResourceType{Resource: schema.GroupVersionResource{Group: "apps", Resource: "things"}}}
	at := time.Date(2026, 11, 20, 20, 2, 11, 5, time.FixedZone("", 3600))
	one, two := kept(t, `{kind: Pod, metadata: {name: kuard, namespace: default}, status: {phase: Pending}}`),
		kept(t, `{kind: Pod, metadata: {name: kuard, namespace: default}, status: {phase: Running}}`)
	node := kept(t, `{kind: Node, metadata: {name: node-1}}`)
	renewed := kept(t, `{kind: Pod, metadata: {name: kuard, namespace: default, managedFields: [{time: "2"}]}, status: {phase: Running}}`)
	print1(t, p, &Change{Time: at, Type: Added, Object: one}, &Change{Time: at, Type: Modified, Former: one, Object: two},
		&Change{Time: at, Type: Modified, Former: two, Object: renewed},
		&Change{Time: at, Type: Deleted, Object: two}, &Change{Time: at, Type: Added, Object: node, Existing: true})
	want := `2026-11-20T19:02:11Z ADDED things.apps/kuard in default: phase Pending, ready 0/0
2026-11-20T19:02:11Z MODIFIED things.apps/kuard in default: phase Pending -> Running
2026-11-20T19:02:11Z DELETED things.apps/kuard in default
2026-11-20T19:02:11Z ADDED things.apps/node-1
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func print1(t *testing.T, p Printer, changes ...*Change) {
	t.Helper()
	for _, c := range changes {
		if err := p.Print(c); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDiffIsIndented(t *testing.T) {
	var out strings.Builder
	print1(t, TextPrinter{Out: &out, Type: ResourceType{Resource: schema.GroupVersionResource{Resource: "pods"}}, Diff: true}, &Change{
		Type:   Modified,
		Former: kept(t, `{kind: Deployment, metadata: {name: web, resourceVersion: "1"}, spec: {replicas: 1}}`),
		Object: kept(t, `{kind: Deployment, metadata: {name: web, resourceVersion: "2"}, spec: {replicas: 3}}`),
	})
	want := `0001-01-01T00:00:00Z MODIFIED pods/web: replicas 1 -> 3, ready 0/1 -> 0/3
    @@ -2,4 +2,4 @@
     metadata:
       name: web
     spec:
    -  replicas: 1
    +  replicas: 3
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestADiffIsPrintedEvenIfNothingElseDiffers(t *testing.T) {
	var out strings.Builder
	print1(t, TextPrinter{Out: &out, Type: ResourceType{Resource: schema.GroupVersionResource{Resource: "pods"}}, Diff: true}, &Change{
		Type:   Modified,
		Former: kept(t, `{kind: Pod, metadata: {name: web}, status: {conditions: [{type: A}, {type: B}]}}`),
		Object: kept(t, `{kind: Pod, metadata: {name: web}, status: {conditions: [{type: B}, {type: A}]}}`),
	})
	if got := out.String(); !strings.HasPrefix(got, "0001-01-01T00:00:00Z MODIFIED pods/web\n    @@") {
		t.Error(got)
	}
}

func TestDiffDoesNotChangeTheObject(t *testing.T) {
	o := kept(t, `{kind: Pod, metadata: {name: a, resourceVersion: "1"}}`)
	if _, err := Diff(o, o); err != nil {
		t.Fatal(err)
	}
	if o.GetResourceVersion() != "1" {
		t.Error("the resourceVersion is gone")
	}
}

func TestLongValuesAreCut(t *testing.T) {
	long := strings.Repeat("봉", maxValue+1)
	got := Difference{Name: "a", From: long, To: map[string]any{"b": long}, Note: long}.String()
	if n := strings.Count(got, "봉"); n > 3*maxValue || n < 2*maxValue || strings.Count(got, "…") != 3 {
		t.Errorf("%d characters of %q", n, got)
	}
	if s := strings.Repeat("봉", maxValue); cut(s) != s {
		t.Error("a text of the maximum length is cut")
	}
}

// hostile contains line breaks and control characters.
const hostile = "x\nDELETED default/web\r\x1b[31m\u009b2J\u202e\u2028y\x00\x7f"

func TestJSONPrintsAnObjectPerLine(t *testing.T) {
	var out strings.Builder
	p := JSONPrinter{Out: &out, Diff: true}
	former, present := kept(t, `{kind: Node, metadata: {name: no-1}}`), kept(t, `{kind: Node, metadata: {name: no-1, labels: {a: <b>}}}`)
	print1(t, p,
		&Change{Type: Added, Time: now, Existing: true, Object: former},
		&Change{Type: Modified, Time: now, Former: former, Object: present},
		&Change{Type: Deleted, Time: now, Object: present})
	want := `{"type":"ADDED","time":"2026-11-20T19:02:11Z","key":"no-1","existing":true,"object":{"kind":"Node","metadata":{"name":"no-1"}}}
{"type":"MODIFIED","time":"2026-11-20T19:02:11Z","key":"no-1","changes":[{"what":"label a","to":"<b>"}],"diff":"@@ -1,3 +1,5 @@\n kind: Node\n metadata:\n+  labels:\n+    a: <b>\n   name: no-1\n","object":{"kind":"Node","metadata":{"labels":{"a":"<b>"},"name":"no-1"}}}
{"type":"DELETED","time":"2026-11-20T19:02:11Z","key":"no-1","object":{"kind":"Node","metadata":{"labels":{"a":"<b>"},"name":"no-1"}}}
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestJSONEscapesControlCharacters(t *testing.T) {
	former, present := named("web", "1", "1"), named("web", "1", "2")
	present.Object["status"] = map[string]any{"message": hostile}
	var out strings.Builder
	print1(t, JSONPrinter{Out: &out}, &Change{Type: Modified, Former: former, Object: present})
	if line, rest, _ := strings.Cut(out.String(), "\n"); rest != "" || plaintext.Line(line) != line {
		t.Errorf("not one clean line: %q", out.String())
	}
	var r record
	if err := json.Unmarshal([]byte(out.String()), &r); err != nil {
		t.Fatal(err)
	}
	if r.Changes[0].To != hostile {
		t.Errorf("got %q, want %q", r.Changes[0].To, hostile)
	}
}

// FuzzText checks that no content of an object adds lines or control characters to the
// output.
func FuzzText(f *testing.F) {
	f.Add(`{"status":{"phase":"a"}}`, `{"status":{"phase":"\u001b[31m\nDELETED x","conditions":[{"type":"\u202e"}]}}`)
	f.Add(`{"kind":"Pod","spec":{"containers":[{"name":"a"}]}}`, `{"kind":"Pod","status":{"containerStatuses":[{"name":"a\n","state":{"waiting":{"reason":"\u009b"}}}]}}`)
	f.Add(`{"metadata":{"labels":{"a":1}}}`, `{"metadata":{"annotations":[{"name":"x"},{"name":2}]}}`)
	f.Fuzz(func(t *testing.T, from, to string) {
		former, ok := parsed(from)
		present, also := parsed(to)
		if !ok || !also {
			t.Skip()
		}
		c := &Change{Type: Modified, Former: former, Object: present}
		var out, asJSON strings.Builder
		print1(t, TextPrinter{Out: &out, Diff: true}, c)
		print1(t, JSONPrinter{Out: &asJSON, Diff: true}, c)
		for i, line := range strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n") {
			if i > 0 && !strings.HasPrefix(line, "    ") || strings.ContainsFunc(line, forTerminals) {
				t.Errorf("line %d is %q", i, line)
			}
		}
		if line, rest, _ := strings.Cut(asJSON.String(), "\n"); rest != "" || strings.ContainsFunc(line, forTerminals) {
			t.Errorf("not one clean line: %q", asJSON.String())
		}
	})
}

func forTerminals(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
}

func parsed(s string) (*Object, bool) {
	o := named("web", "1", "1")
	content, metadata := map[string]any{}, o.Object["metadata"]
	if json.Unmarshal([]byte(s), &content) != nil || content == nil {
		return nil, false
	}
	o.Object = content
	if m, ok := content["metadata"].(map[string]any); ok {
		m["name"] = "web"
	} else {
		content["metadata"] = metadata
	}
	return forTests.redact(o.Unstructured), true
}
