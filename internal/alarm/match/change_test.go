package match

import (
	"errors"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/kube"
)

func onChanges(t testing.TB, text string) Definition {
	t.Helper()
	def := clusterAlarm()
	if err := yaml.UnmarshalStrict([]byte(text), &def.Spec.Changes); err != nil {
		t.Fatal(err)
	}
	return def
}

func deployment(t testing.TB, text string) map[string]any {
	t.Helper()
	object := map[string]any{}
	if err := yaml.Unmarshal([]byte("{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: shop, name: web, uid: u, labels: {app: web}}, "+text+"}"), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// changeOf returns the occurrence of an update of a Deployment, or of its creation or deletion.
func changeOf(operation alarm.Operation, before, after map[string]any) *alarm.Occurrence {
	reference := alarm.Reference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web", UID: "u"}
	return &alarm.Occurrence{
		Event:    alarm.Event{Namespace: "shop", Name: "web", UID: "u", Type: "Normal", Reason: string(operation) + "d", Count: 1, Regarding: reference},
		Increase: 1, Position: 7, ObservedAt: lastSeen,
		Change: &alarm.Change{
			Resource: alarm.Resource{Group: "apps", Version: "v1", Resource: "deployments"}, Operation: operation,
			Object: after, Old: before, Known: func(string) bool { return true }, Manager: "kubectl-edit",
		},
	}
}

func changeContext(occ *alarm.Occurrence) *alarm.Context {
	return &alarm.Context{Object: occ.Change.Describe(), Resolved: true, Cluster: alarm.Cluster{Name: "test", Nodes: 3}}
}

const (
	oldSpec = `spec: {replicas: 3, template: {spec: {containers: [{name: web, image: "web:1.4"}, {name: log, image: "log:1"}]}}}, status: {replicas: 3}`
	newSpec = `spec: {replicas: 3, template: {spec: {containers: [{name: log, image: "log:1"}, {name: web, image: "web:1.5"}]}}}, status: {replicas: 2}`
)

func TestAChangeMatches(t *testing.T) {
	const image = `fields: ["spec.template.spec.containers[*].image"]`
	for name, tc := range map[string]struct {
		change string
		want   Outcome
	}{
		"of any field below spec":        {"", Matched},
		"of a field":                     {image, Matched},
		"of another field":               {"fields: [spec.replicas]", NotMatched},
		"of the status, if it is named":  {"fields: [status.replicas]", Matched},
		"of one of the fields":           {"fields: [spec.replicas, status.replicas]", Matched},
		"of an object with these labels": {"objectSelector: {matchLabels: {app: web}}", Matched},
		"of an object with other labels": {"objectSelector: {matchLabels: {app: db}}", NotMatched},
		"of a name":                      {"names: [db, w*]", Matched},
		"of another name":                {"names: [db]", NotMatched},
		"by another operation":           {"operations: [Create, Delete]", NotMatched},
		"with an expression":             {image + `, expression: 'object.spec.replicas == oldObject.spec.replicas && changed[0].to == "web:1.5" && cluster.nodes == 3'`, Matched},
		"by a manager":                   {`expression: 'manager == "kubectl-edit"'`, Matched},
		"by another manager":             {`expression: 'manager != "kubectl-edit"'`, NotMatched},
		"with a false expression":        {image + `, expression: 'object.spec.replicas > 3'`, NotMatched},
		"with a loop":                    {`expression: 'object.spec.template.spec.containers.exists(c, c.image.endsWith(":1.5"))'`, Matched},
		"with a missing field":           {`expression: 'has(object.spec.paused) && object.spec.paused'`, NotMatched},
		"with a failing expression":      {`expression: 'object.spec.paused == true'`, Failed},
	} {
		t.Run(name, func(t *testing.T) {
			def := onChanges(t, "[{resource: {apiGroup: apps, resource: deployments}, "+tc.change+"}]")
			occ := changeOf(alarm.Update, deployment(t, oldSpec), deployment(t, newSpec))
			if got := outcome(t, def, occ, changeContext(occ)); got.Outcome != tc.want {
				t.Errorf("got %+v, want outcome %v", got, tc.want)
			}
		})
	}
}

func TestAChangeMatchesItsResourceOnly(t *testing.T) {
	occ := changeOf(alarm.Update, deployment(t, oldSpec), deployment(t, newSpec))
	for resource, want := range map[string]Outcome{
		"{apiGroup: apps, resource: deployments}":       Matched,
		"{apiGroup: apps, resource: statefulsets}":      NotMatched,
		"{apiGroup: extensions, resource: deployments}": NotMatched,
		"{resource: deployments}":                       NotMatched,
	} {
		if got := outcome(t, onChanges(t, "[{resource: "+resource+"}]"), occ, changeContext(occ)); got.Outcome != want {
			t.Errorf("%s: got %+v, want outcome %v", resource, got, want)
		}
	}
	// spec.match is about Events only.
	if got := outcome(t, clusterAlarm(v1alpha1.EventMatch{}), occ, changeContext(occ)); got.Outcome != NotMatched {
		t.Errorf("spec.match: got %+v, want none", got)
	}
	if got := outcome(t, onChanges(t, "[{resource: {apiGroup: apps, resource: deployments}}]"), podOccurrence(), podContext()); got.Outcome != NotMatched {
		t.Errorf("an Event: got %+v, want none", got)
	}
}

func TestAnAlarmSeesChangesOfItsNamespaceOnly(t *testing.T) {
	for namespace, want := range map[string]Outcome{"shop": Matched, "other": NotMatched} {
		def := onChanges(t, "[{resource: {apiGroup: apps, resource: deployments}}]")
		def.ID = kube.Key{Kind: alarm.KindAlarm, Namespace: namespace, Name: "a"}
		occ := changeOf(alarm.Update, deployment(t, oldSpec), deployment(t, newSpec))
		if got := outcome(t, def, occ, changeContext(occ)); got.Outcome != want {
			t.Errorf("Alarm in %s: got %+v, want outcome %v", namespace, got, want)
		}
	}
}

// An alarm that names a field for the first time must not take its present value for a change.
func TestAFieldWithoutAKnownOldValueIsNoChange(t *testing.T) {
	occ := changeOf(alarm.Update, deployment(t, oldSpec), deployment(t, newSpec))
	occ.Change.Known = func(path string) bool { return path != "spec.replicas" }
	for change, want := range map[string]Outcome{
		`fields: ["spec.template.spec.containers[*].image"]`:                                         Matched,
		`fields: ["spec.template.spec.containers[*].image"], expression: 'object.spec.replicas > 0'`: NotMatched,
		`fields: ["spec.template.spec.containers[*].image", spec.replicas]`:                          NotMatched,
	} {
		if got := outcome(t, onChanges(t, "[{resource: {apiGroup: apps, resource: deployments}, "+change+"}]"), occ, changeContext(occ)); got.Outcome != want {
			t.Errorf("%s: got %+v, want outcome %v", change, got, want)
		}
	}
}

func TestAMessageSaysWhatChanged(t *testing.T) {
	def := onChanges(t, "[{resource: {apiGroup: apps, resource: deployments}, operations: [Create, Update, Delete]}]")
	for _, tc := range []struct {
		occ  *alarm.Occurrence
		want string
	}{
		{changeOf(alarm.Update, deployment(t, oldSpec), deployment(t, newSpec)), "image of container web: web:1.4 -> web:1.5 (by kubectl-edit)"},
		{changeOf(alarm.Create, nil, deployment(t, newSpec)), "created (by kubectl-edit)"},
		{changeOf(alarm.Delete, nil, deployment(t, newSpec)), "deleted"},
	} {
		a := mustCompile(t, def)
		candidates := candidatesOf(NewIndex([]*Alarm{a}), tc.occ, nil, nil)
		if len(candidates) != 1 {
			t.Fatalf("%s: got %d candidates, want 1", tc.occ.Change.Operation, len(candidates))
		}
		known := changeContext(tc.occ)
		result := candidates[0].Match(t.Context(), known)
		if result.Note != tc.want {
			t.Errorf("note %q, want %q", result.Note, tc.want)
		}
		m, err := candidates[0].WithNote(result.Note).Render(t.Context(), known)
		if err != nil || !strings.Contains(m.Text, tc.want) || m.Events[0].Note != tc.want {
			t.Errorf("message %+v (%v), want %q in it", m, err, tc.want)
		}
	}
}

func TestAnAlarmNeedsTheFieldsThatItNames(t *testing.T) {
	deployments := alarm.Resource{Group: "apps", Resource: "deployments"}
	for change, want := range map[string][]string{
		`fields: [spec.replicas], expression: 'object.metadata.annotations["a.b/c"] == "x" && has(oldObject.spec.paused)'`: {`metadata.annotations["a.b/c"]`, "spec.paused", "spec.replicas"},
		`fields: [spec.replicas], expression: 'object.spec.template.spec.containers.exists(c, c.name == "a")'`:             {"spec.replicas", "spec.template.spec.containers"},
		`operations: [Create], expression: 'object.spec.replicas > 1'`:                                                     {"spec.replicas"},
	} {
		needs := mustCompile(t, onChanges(t, "[{resource: {apiGroup: apps, resource: deployments}, "+change+"}]")).Needs()
		for _, path := range want {
			if !strings.Contains(needs[deployments].String(), path) {
				t.Errorf("%s: needs %s, want %s", change, needs[deployments], path)
			}
		}
	}
	compiled := mustCompile(t, onChanges(t, "[{resource: {apiGroup: apps, resource: deployments}}]"))
	if allocs := testing.AllocsPerRun(10, func() { compiled.Needs() }); allocs > 0 {
		t.Errorf("%v allocations for needs that do not change", allocs)
	}
	labelled := onChanges(t, "[{resource: {apiGroup: apps, resource: deployments}, fields: [spec.replicas]}]")
	labelled.Spec.Message.Title = `${object.metadata.annotations["team"]}`
	if needs := mustCompile(t, labelled).Needs()[deployments].String(); !strings.Contains(needs, "metadata.annotations") {
		t.Errorf("a title with an annotation needs %s", needs)
	}
	suspended := onChanges(t, "[{resource: {apiGroup: apps, resource: deployments}}]")
	suspended.Spec.Suspend = true
	if needs := mustCompile(t, suspended).Needs(); len(needs) > 0 {
		t.Errorf("a suspended alarm needs %v", needs)
	}
}

func TestInvalidChangesAreRefused(t *testing.T) {
	for name, tc := range map[string]struct{ change, field, want string }{
		"a path":                {"resource: {apiGroup: apps, resource: deployments}, fields: ['spec..x']", "spec.changes[0].fields[0]", ""},
		"values of Secrets":     {"resource: {resource: secrets}, fields: [data.password]", "spec.changes[0]", "values of Secrets are never read"},
		"all fields of Secrets": {"resource: {resource: secrets}", "spec.changes[0]", "values of Secrets are never read"},
		"Secrets in CEL":        {"resource: {resource: secrets}, fields: [metadata.labels], expression: 'has(object.data)'", "spec.changes[0]", "values of Secrets are never read"},
		"the whole Secret":      {"resource: {resource: secrets}, fields: [metadata.labels], expression: 'object == oldObject'", "spec.changes[0]", "values of Secrets are never read"},
		"the status of alarms":  {"resource: {apiGroup: bongsu.io, resource: alarms}, fields: [status]", "spec.changes[0]", "status of alarms changes with each message"},
		"a receiver in CEL":     {"resource: {apiGroup: bongsu.io, resource: alarmreceivers}, expression: 'object == oldObject'", "spec.changes[0]", "changes with each message"},
		"no bool":               {"resource: {apiGroup: apps, resource: deployments}, expression: '1'", "spec.changes[0].expression", "must be bool"},
		"an unknown variable":   {"resource: {apiGroup: apps, resource: deployments}, expression: 'event.count > 1'", "spec.changes[0].expression", "event"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := compile(t, onChanges(t, "[{"+tc.change+"}]"))
			invalid, ok := errors.AsType[*CompileError](err)
			if !ok || invalid.Field != tc.field || !strings.Contains(invalid.Message, tc.want) {
				t.Errorf("err = %v, want one of %s that says %q", err, tc.field, tc.want)
			}
		})
	}
	if _, err := compile(t, onChanges(t, "[{resource: {resource: secrets}, fields: [metadata.labels]}]")); err != nil {
		t.Errorf("labels of Secrets: %v", err)
	}
	if _, err := compile(t, onChanges(t, "[{resource: {apiGroup: bongsu.io, resource: alarms}, fields: ['*', 'status.conditions[*].status']}]")); err != nil {
		t.Errorf("the spec and conditions of Alarms: %v", err)
	}
}

func TestChangesInThePastOfAnAlarmDoNotMatch(t *testing.T) {
	def := onChanges(t, "[{resource: {apiGroup: apps, resource: deployments}}]")
	def.CreatedAt = lastSeen.Add(time.Second)
	occ := changeOf(alarm.Update, deployment(t, oldSpec), deployment(t, newSpec))
	if got := outcome(t, def, occ, changeContext(occ)); got.Outcome != NotMatched {
		t.Errorf("got %+v, want none", got)
	}
}

// A tenant chooses the size of objects, and how many alarms compare them.
func TestComparingLargeObjectsIsBilled(t *testing.T) {
	a := mustCompile(t, onChanges(t, "[{resource: {apiGroup: apps, resource: deployments}, expression: 'false'}]"))
	for size, atLeast := range map[int64]int64{0: 1, 1 << 20: 1 << 18} {
		occ := changeOf(alarm.Update, deployment(t, oldSpec), deployment(t, newSpec))
		occ.Change.Size = size
		meter := NewMeter(1 << 30)
		NewIndex([]*Alarm{a}).ClusterCandidates(occ, nil, meter)[0].Match(t.Context(), changeContext(occ))
		if spent := meter.Spent(); spent < atLeast {
			t.Errorf("%d bytes cost %d, want at least %d", size, spent, atLeast)
		}
	}
}
