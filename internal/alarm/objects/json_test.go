package objects

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm/fields"
)

func TestReadList(t *testing.T) {
	type result struct {
		Items             []string
		Version, Continue string
	}
	for name, tc := range map[string]struct {
		list string
		want result
		err  error
	}{
		"metadata first": {
			list: `{"kind":"PodList","metadata":{"resourceVersion":"7","continue":"x"},"items":[{"a":"}]\\\""},{"b":[1,{"c":2}]}]}`,
			want: result{Items: []string{`{"a":"}]\\\""}`, `{"b":[1,{"c":2}]}`}, Version: "7", Continue: "x"},
		},
		"metadata last, with spaces": {
			list: "{ \"items\" : [\n {\"a\":1} ,\t{} ] , \"remaining\": -1.5e3, \"metadata\" : {\"resourceVersion\":\"7\"} }\n",
			want: result{Items: []string{`{"a":1}`, `{}`}, Version: "7"},
		},
		"without items": {list: `{"items":[],"metadata":{"resourceVersion":"7"}}`, want: result{Version: "7"}},
		"null":          {list: `{"items":null,"metadata":{"resourceVersion":"7"}}`, want: result{Version: "7"}},
		"cut":           {list: `{"items":[{"a":1},{"b"`, want: result{Items: []string{`{"a":1}`}}, err: io.ErrUnexpectedEOF},
		"no object":     {list: `[]`, err: errMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			for _, in := range []io.Reader{strings.NewReader(tc.list), iotest.OneByteReader(strings.NewReader(tc.list))} {
				var got result
				meta, err := readList(in, func(item []byte) error {
					got.Items = append(got.Items, string(item))
					return nil
				})
				got.Version, got.Continue = meta.ResourceVersion, meta.Continue
				if diff := cmp.Diff(tc.want, got); diff != "" || !errors.Is(err, tc.err) {
					t.Errorf("error %v, want %v; (-want +got):\n%s", err, tc.err, diff)
				}
			}
		})
	}
}

func TestAnObjectThatIsTooLargeEndsTheList(t *testing.T) {
	list := io.MultiReader(strings.NewReader(`{"items":["`), strings.NewReader(strings.Repeat("x", maxValue+1<<20)))
	if _, err := readList(list, func([]byte) error { return nil }); !errors.Is(err, errTooLarge) {
		t.Errorf("error %v, want errTooLarge", err)
	}
}

func TestDecodeObject(t *testing.T) {
	raw := `{"metadata":{"name":"web","uid":"u","resourceVersion":"12","deletionTimestamp":"2026-01-02T03:04:05Z",
		"managedFields":[{"manager":"kubectl","time":"2026-01-01T00:00:00Z","fieldsV1":{"f:x":{}}}]},
		"spec":{"replicas":3,"ratio":0.5,"\u0061b":"c"},"status":{"x":null},"a\"b":true}`
	want := map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "web", "uid": "u", "resourceVersion": "12", "deletionTimestamp": "2026-01-02T03:04:05Z"},
		"spec":     map[string]any{"replicas": int64(3), "ratio": 0.5, "ab": "c"}, "status": map[string]any{"x": nil}, `a"b`: true,
	}
	got, err := decodeObject([]byte(raw), "apps/v1", "Deployment", false)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.content); diff != "" {
		t.Errorf("content (-want +got):\n%s", diff)
	}
	manager, at := fields.LastWrite(got.written())
	if got.uid != "u" || got.position != 12 || manager != "kubectl" || at.Year() != 2026 || got.deleted.Day() != 2 {
		t.Errorf("%+v, written by %s at %v", got, manager, at)
	}
	bare, err := decodeObject([]byte(raw), "v1", "Secret", true)
	if err != nil || len(bare.content) != 3 {
		t.Errorf("only metadata: %v, %v", bare, err)
	}
}

func FuzzDecodeObject(f *testing.F) {
	f.Add(`{"metadata":{"uid":"u","resourceVersion":"1"},"spec":{"a":["\"",{"b":1e3}]}}`)
	f.Add(`{"a":"\\","metadata":{"uid":"u","resourceVersion":"1","managedFields":[]}}`)
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := decodeObject([]byte(raw), "v1", "Pod", false)
		var want map[string]any
		if json.Unmarshal([]byte(raw), &want) != nil || err != nil {
			return
		}
		for name := range want {
			if _, ok := got.content[name]; !ok {
				t.Errorf("%q is missing", name)
			}
		}
	})
}
