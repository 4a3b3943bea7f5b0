package fields

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestDifferencesOfRealObjects(t *testing.T) {
	pod := func(containers string) string {
		return `{"spec": {"template": {"spec": {"containers": [` + containers + `]}}}}`
	}
	long := strings.Repeat("registry.example.com/", 5)
	for name, tc := range map[string]struct {
		paths         []string
		before, after string
		want          string
	}{
		"image and replicas": {
			[]string{"spec.replicas", "spec.template.spec.containers[*].image"},
			`{"spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "web", "image": "web:1.4"}]}}}}`,
			`{"spec": {"replicas": 5, "template": {"spec": {"containers": [{"name": "web", "image": "web:1.5"}]}}}}`,
			"replicas: 3 -> 5, image of container web: web:1.4 -> web:1.5"},
		"other fields are not compared": {[]string{"spec.a"}, `{"spec": {"a": 1, "b": 1}}`, `{"spec": {"a": 1, "b": 2}}`, ""},
		"added container":               {nil, pod(`{"name": "web"}`), pod(`{"name": "sidecar", "image": "s:1"}, {"name": "web"}`), "container sidecar added"},
		"removed container":             {[]string{"spec.template.spec.containers[*].image"}, pod(`{"name": "web", "image": "x"}`), `{}`, "container web removed"},
		"added entry without the field": {[]string{"spec.template.spec.containers[*].stdin"}, pod(``), pod(`{"name": "web"}`), ""},
		"other order":                   {nil, pod(`{"name": "a"}, {"name": "b"}`), pod(`{"name": "b"}, {"name": "a"}`), ""},
		"other order of init containers": {nil, `{"spec": {"initContainers": [{"name": "a"}, {"name": "b"}]}}`,
			`{"spec": {"initContainers": [{"name": "b"}, {"name": "a"}]}}`, `initContainers: ["a","b"] -> ["b","a"]`},
		"null, empty and missing": {nil, `{"spec": {"a": null, "b": {}, "c": [], "d": {"e": {"f": null}}}}`, `{}`, ""},
		"empty affinity":          {nil, `{"spec": {}}`, `{"spec": {"affinity": {}}}`, ""},
		"an empty selector selects everything": {nil, `{"spec": {"from": [{"podSelector": {}}]}}`,
			`{"spec": {"from": [{"podSelector": {}, "namespaceSelector": {}}]}}`, "from[0].namespaceSelector: set to {}"},
		"zero is not missing": {nil, `{"spec": {}}`, `{"spec": {"replicas": 0}}`, "replicas: set to 0"},
		"whole numbers":       {nil, `{"spec": {"x": 3.0}}`, `{"spec": {"x": 3}}`, ""},
		"quantities": {nil, `{"spec": {"limits": {"cpu": "1000m", "memory": "1Gi"}}}`, `{"spec": {"limits": {"cpu": 1, "memory": "2Gi"}}}`,
			"memory limit: 1Gi -> 2Gi"},
		"limits of a container": {nil, pod(`{"name": "web", "resources": {}}`), pod(`{"name": "web", "resources": {"limits": {"cpu": "1"}}}`),
			"cpu limit of container web: set to 1"},
		"arguments": {nil, pod(`{"name": "web", "args": ["--a=1", "--b"]}`), pod(`{"name": "web", "args": ["--a=2", "--b", "--c"]}`),
			"args of container web: --a=1 -> --a=2, args of container web: --c added"},
		"order of arguments": {nil, pod(`{"name": "web", "args": ["a", "b"]}`), pod(`{"name": "web", "args": ["b", "a"]}`),
			`args of container web: ["a","b"] -> ["b","a"]`},
		"order of finalizers": {[]string{"metadata.finalizers"}, `{"metadata": {"finalizers": ["a", "b"]}}`, `{"metadata": {"finalizers": ["b", "a"]}}`, ""},
		"removed without a key": {nil, `{"spec": {"rules": [{"x": [{}]}, {"y": [1]}, {"z": true}]}}`, `{"spec": {"rules": [{"x": [{}]}, {"z": true}]}}`,
			"rules[1] removed"},
		"labels and annotations": {[]string{"metadata"},
			`{"metadata": {"labels": {"a.b/c": "1"}, "resourceVersion": "1", "generation": 1}}`,
			`{"metadata": {"labels": {"a.b/c": "2"}, "annotations": {"x": "y"}, "resourceVersion": "2", "generation": 2}}`,
			"annotation x: set to y, label a.b/c: 1 -> 2"},
		"label of the pod template": {nil, `{"spec": {"template": {"metadata": {"labels": {"a": "1"}}}}}`,
			`{"spec": {"template": {"metadata": {"labels": {"a": "2"}}}}}`, "label a of the pod template: 1 -> 2"},
		"condition": {[]string{"status.conditions[*].status"}, `{"status": {"conditions": [{"type": "Ready", "status": "True"}]}}`,
			`{"status": {"conditions": [{"type": "Ready", "status": "False"}]}}`, "condition Ready: True -> False"},
		"ports by number and protocol": {nil, `{"spec": {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53}]}}`,
			`{"spec": {"ports": [{"port": 53, "protocol": "TCP", "nodePort": 1}, {"port": 53, "protocol": "UDP"}]}}`,
			"nodePort of port 53/TCP: set to 1, protocol of port 53/TCP: set to TCP"},
		"environment": {nil, pod(`{"name": "web", "env": [{"name": "LEVEL", "value": "info"}]}`),
			pod(`{"name": "web", "env": [{"name": "LEVEL", "value": "debug"}]}`), "env LEVEL of container web: info -> debug"},
		"the end of a long image": {nil, pod(`{"name": "web", "image": "` + long + `web:1.4"}`), pod(`{"name": "web", "image": "` + long + `web:1.5"}`),
			"image of container web: …y.example.com/web:1.4 -> …y.example.com/web:1.5"},
		"the line that differs": {nil, `{"data": {"app.yaml": "a: 1\nb: 2\nc: 3"}}`, `{"data": {"app.yaml": "a: 1\nb: 4\nc: 3"}}`,
			`data["app.yaml"]: b: 2… -> b: 4…`},
		"other type": {nil, `{"spec": {"a": {"b": 1}}}`, `{"spec": {"a": "x"}}`, `a: {"b":1} -> x`},
		"same text":  {nil, `{"spec": {"port": 80}}`, `{"spec": {"port": "80"}}`, "port changed"},
		"empty text": {nil, `{"spec": {"a": ""}}`, `{"spec": {"a": "x"}}`, `a: "" -> x`},
	} {
		t.Run(name, func(t *testing.T) {
			paths := []Path{DefaultPath()}
			if tc.paths != nil {
				paths = nil
				for _, text := range tc.paths {
					paths = append(paths, path(t, text))
				}
			}
			before, after := object(t, tc.before), object(t, tc.after)
			found, more := Differences(before, after, paths, 100)
			if got := Describe(found, more); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			s := NewShape(paths...)
			again, _ := Differences(NewFilter(s).Project(before), NewFilter(s).Project(after), paths, 100)
			if diff := cmp.Diff(found, again, cmp.AllowUnexported(Difference{}, place{})); diff != "" {
				t.Error("the projections differ in another way:", diff)
			}
		})
	}
}

func TestDifferencesHideSecrets(t *testing.T) {
	const secret = "hunter"
	for name, tc := range map[string]struct{ object, want string }{
		"environment":        {`{"spec": {"containers": [{"name": "web", "env": [{"name": "db_password", "value": "%s"}]}]}}`, "env db_password of container web changed"},
		"argument":           {`{"spec": {"containers": [{"name": "web", "args": ["--token=%s"]}]}}`, "args of container web changed"},
		"argument of a flag": {`{"spec": {"containers": [{"name": "web", "args": ["--password", "%s"]}]}}`, "args of container web changed"},
		"key of a map":       {`{"data": {"DB_PASSWORD": "%s"}}`, "data.DB_PASSWORD changed"},
		"field":              {`{"spec": {"smtp": {"password": "%s"}}}`, "smtp.password changed"},
		"list in a value":    {`{"spec": {"name": "TOKEN", "value": ["%s"]}}`, "value changed"},
		"address":            {`{"spec": {"url": "postgres://app:%s@db/x"}}`, "url changed"},
		"text":               {`{"data": {"app.yaml": "a: b\npassword: %s"}}`, `data["app.yaml"] changed`},
		"Secret":             {`{"kind": "Secret", "data": {"x": "%s"}, "stringData": {"y": "%[1]s"}}`, "data.x changed, stringData.y changed"},
		"JSON":               {`{"spec": {"x": {"password": "%[1]s"}, "%[1]s1": 1}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := object(t, fmt.Sprintf(tc.object, secret+"1")), object(t, fmt.Sprintf(tc.object, secret+"2"))
			found, more := Differences(before, after, []Path{DefaultPath()}, 100)
			if got := Describe(found, more); tc.want != "" && got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			for _, d := range found {
				if strings.Contains(d.From+d.To, secret) || d.From+d.To == "" && !d.Hidden && !d.Added && !d.Removed {
					t.Errorf("shown: %+v", d)
				}
			}
		})
	}
}

func TestSecretsInAddedObjectsAreHidden(t *testing.T) {
	after := object(t, `{"spec": {"x": {"env": [{"name": "A_TOKEN", "value": "hunter2"}], "clientSecret": "hunter2", "args": ["--key", "hunter2"]}}}`)
	found, _ := Differences(map[string]any{}, after, []Path{DefaultPath()}, 100)
	if got := Describe(found, 0); strings.Contains(got, "hunter2") || !strings.Contains(got, hidden) {
		t.Error(got)
	}
}

func TestDifferencesAreLimited(t *testing.T) {
	before, after := map[string]any{}, map[string]any{}
	for i := range 12 {
		before[fmt.Sprintf("item%02d", i)] = strings.Repeat("ä", 10_000)
		after[fmt.Sprintf("item%02d", i)] = strings.Repeat("ö", 10_000)
	}
	found, more := Differences(map[string]any{"data": before}, map[string]any{"data": after}, []Path{DefaultPath()}, 8)
	if len(found) != 8 || more != 4 {
		t.Fatal(len(found), more)
	}
	if n := utf8.RuneCountInString(found[0].From); n != 80 {
		t.Errorf("value has %d characters", n)
	}
	if got := Describe(found, more); !strings.HasSuffix(got, "…, and 7 more") || strings.Count(got, "data.item") != 5 {
		t.Error(got)
	}
}
