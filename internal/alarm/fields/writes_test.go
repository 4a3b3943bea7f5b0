package fields

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func second(n int) time.Time { return time.Date(2026, 1, 2, 3, 4, n, 0, time.UTC) }

func TestTheLastWriteIsTheNewestExceptToTheStatus(t *testing.T) {
	if got, at := LastWrite(object(t, web)); got != "kubectl" || !at.Equal(second(5)) {
		t.Errorf("got %s at %s", got, at)
	}
	for _, garbage := range []string{"{}", "metadata: {managedFields: 3}", "metadata: {managedFields: [3, {time: 7}, {time: x, fieldsV1: 3}]}"} {
		if got, at := LastWrite(object(t, garbage)); got != "" || !at.IsZero() {
			t.Errorf("%s: got %q at %s", garbage, got, at)
		}
		if got, at := WriteOf(object(t, garbage), []Difference{{Field: "spec"}}); got != "" || !at.IsZero() {
			t.Errorf("%s: a change by %q at %s", garbage, got, at)
		}
	}
}

func TestAnObjectIsUnchangedSinceItsNewestWrite(t *testing.T) {
	if got := UnchangedSince(object(t, web)); !got.Equal(second(6)) {
		t.Errorf("unchanged since %s, want the newest write", got)
	}
	timeless := object(t, "metadata: {managedFields: [{manager: kubectl-set, time: '2026-01-02T03:04:05Z'}, {manager: kubectl}]}")
	if got := UnchangedSince(timeless); !got.IsZero() {
		t.Errorf("after a write without a time: unchanged since %s, want an unknown time", got)
	}
}

// The entries are as the API server writes them.
func TestAChangeIsByTheNewestWriteOfWhatDiffers(t *testing.T) {
	const (
		create = `{manager: create, time: "2026-01-02T03:04:01Z", fieldsV1: {"f:metadata": {"f:labels": {".": {}, "f:app.kubernetes.io/name": {}}},
  "f:spec": {"f:args": {}, "f:replicas": {}, "f:template": {"f:spec": {"f:containers": {'k:{"name":"web"}': {".": {}, "f:name": {}, "f:image": {}, "f:ports": {".": {}, 'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:hostPort": {}}}}}}}}}}`
		set    = `{manager: set, time: "2026-01-02T03:04:02Z", fieldsV1: {"f:spec": {"f:template": {"f:spec": {"f:containers": {'k:{"name":"log"}': {"f:image": {}}}}}}}}`
		fins   = `{manager: fins, time: "2026-01-02T03:04:03Z", fieldsV1: {"f:metadata": {"f:finalizers": {".": {}, 'v:"a.b/c"': {}}}}}`
		status = `{manager: status, time: "2026-01-02T03:04:09Z", subresource: status, fieldsV1: {"f:status": {"f:replicas": {}}, "f:metadata": {"f:annotations": {"f:revision": {}}}}}`
		scale  = `{manager: hpa, subresource: scale, fieldsV1: {"f:spec": {"f:replicas": {}}}}`
	)
	// The map was created with two entries, which others have set in the same second.
	const (
		rest  = `{manager: rest, time: "2026-01-02T03:04:01Z", fieldsV1: {"f:data": {}}}`
		entry = `{manager: entry, time: "2026-01-02T03:04:01Z", fieldsV1: {"f:data": {"f:b": {}}}}`
	)
	all := []string{create, set, fins, status}
	containers := func(web, log string) string {
		return "spec: {template: {spec: {containers: [{name: web, " + web + "}, {name: log, " + log + "}]}}}"
	}
	for name, tc := range map[string]struct {
		writes        []string
		before, after string
		want          string
		at            int
	}{
		"an older write set it":             {all, "spec: {replicas: 1}", "spec: {replicas: 2}", "create", 1},
		"in a list":                         {all, containers("image: a", "image: a"), containers("image: b", "image: a"), "create", 1},
		"in another entry":                  {all, containers("image: a", "image: a"), containers("image: a", "image: b"), "set", 2},
		"in both entries":                   {all, containers("image: a", "image: a"), containers("image: b", "image: b"), "set", 2},
		"a field of an entry that none set": {all, containers("image: a, tty: false", "image: a"), containers("image: a, tty: true", "image: a"), "", 0},
		"a port":                            {all, containers("ports: [{containerPort: 80, hostPort: 1}]", "x: 1"), containers("ports: [{containerPort: 80, hostPort: 2}]", "x: 1"), "create", 1},
		"a new entry":                       {all, "spec: {template: {spec: {containers: [{name: web}]}}}", containers("x: 1", "image: a"), "set", 2},
		"a list as a whole":                 {all, "spec: {args: [a]}", "spec: {args: [b]}", "create", 1},
		"a label with dots":                 {all, "metadata: {labels: {app.kubernetes.io/name: a}}", "metadata: {labels: {app.kubernetes.io/name: b}}", "create", 1},
		"a finalizer":                       {all, "metadata: {finalizers: []}", "metadata: {finalizers: [a.b/c]}", "fins", 3},
		"a label that was removed":          {all, "metadata: {labels: {old: x, app.kubernetes.io/name: a}}", "metadata: {labels: {app.kubernetes.io/name: a}}", "", 0},
		"an entry that was removed":         {all, containers("x: 1", "image: a"), "spec: {template: {spec: {containers: [{name: web, x: 1}]}}}", "", 0},
		"one removed and one set":           {all, "spec: {replicas: 1, paused: true}", "spec: {replicas: 2}", "create", 1},
		"a map whose entries others set":    {[]string{rest, entry}, "data: {b: x}", "data: {b: y}", "entry", 1},
		"the status":                        {all, "status: {replicas: 1}", "status: {replicas: 2}", "status", 9},
		"the status and the spec":           {all, "{spec: {replicas: 1}, status: {replicas: 1}}", "{spec: {replicas: 2}, status: {replicas: 2}}", "create", 1},
		"the scale":                         {append(all, scale), "spec: {replicas: 1}", "spec: {replicas: 2}", "hpa", 0},
		"another field than the scale":      {append(all, scale), "spec: {args: [a]}", "spec: {args: [b]}", "create", 1},
		"without entries":                   {nil, "spec: {replicas: 1}", "spec: {replicas: 2}", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			found, _ := Differences(object(t, tc.before), object(t, tc.after), []Path{{}}, 10)
			if len(found) == 0 {
				t.Fatal("nothing differs")
			}
			written := object(t, "metadata: {managedFields: ["+strings.Join(tc.writes, ",")+"]}")
			entries := written["metadata"].(map[string]any)["managedFields"].([]any)
			for range 2 {
				got, at := WriteOf(written, found)
				if got != tc.want || at.IsZero() != (tc.at == 0) || tc.at > 0 && !at.Equal(second(tc.at)) {
					t.Errorf("by %q at %s, want %q at second %d", got, at, tc.want, tc.at)
				}
				slices.Reverse(entries)
			}
		})
	}
}
