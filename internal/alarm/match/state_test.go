package match

import (
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/fields"
	"github.com/bongsu-io/bongsu/internal/kube"
)

func withStates(t testing.TB, text string) Definition {
	t.Helper()
	def := clusterAlarm()
	if err := yaml.UnmarshalStrict([]byte(text), &def.Spec.States); err != nil {
		t.Fatal(err)
	}
	return def
}

const failedRollout = `status: {replicas: 2, conditions: [
	{type: Available, status: "True", lastTransitionTime: "2026-08-03T09:00:00Z"},
	{type: Progressing, status: "False", reason: ProgressDeadlineExceeded, message: stuck, lastTransitionTime: "2026-08-03T10:00:00Z"}]}`

func TestAStateHolds(t *testing.T) {
	now := time.Date(2026, 8, 3, 10, 5, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		state string
		want  Truth
		fails bool
	}{
		"a condition":                        {`expression: 'condition("Progressing").status == "False"'`, Yes, false},
		"another status":                     {`expression: 'condition("Available").status == "False"'`, No, false},
		"a condition that does not exist":    {`expression: 'condition("Ready").status == ""'`, Yes, false},
		"the reason of a condition":          {`expression: 'condition("Progressing").reason == "ProgressDeadlineExceeded" && condition("Progressing").message == "stuck"'`, Yes, false},
		"the age of a condition":             {`expression: 'now - condition("Progressing").lastTransitionTime >= duration("5m")'`, Yes, false},
		"a condition that is not old enough": {`expression: 'now - condition("Progressing").lastTransitionTime > duration("5m")'`, No, false},
		"a field":                            {`expression: object.status.replicas == 2`, Yes, false},
		"a field that is missing":            {`expression: object.status.missing == 2`, No, true},
		"a test for a field":                 {`expression: has(object.status.missing) && object.status.missing == 2`, No, false},
		"the number of Nodes":                {`expression: cluster.nodes == 3`, Yes, false},
		"a name":                             {`names: [db, w*], expression: "true"`, Yes, false},
		"another name":                       {`names: [db], expression: "true"`, No, false},
		"labels":                             {`objectSelector: {matchLabels: {app: web}}, expression: "true"`, Yes, false},
		"other labels":                       {`objectSelector: {matchLabels: {app: db}}, expression: "true"`, No, false},
	} {
		t.Run(name, func(t *testing.T) {
			a := mustCompile(t, withStates(t, "[{resource: {apiGroup: apps, resource: deployments}, "+tc.state+"}]"))
			got, err := holds(t, a, now)
			if got != tc.want || (err != nil) != tc.fails {
				t.Errorf("got %v, %v, want %v", got, err, tc.want)
			}
		})
	}
}

// holds evaluates the first state of an alarm for a Deployment.
func holds(t *testing.T, a *Alarm, now time.Time) (Truth, error) {
	t.Helper()
	object := deployment(t, failedRollout)
	known := &alarm.Context{Object: alarm.Describe(object), Resolved: true, Cluster: alarm.Cluster{Nodes: 3}}
	return a.States()[0].Holds(t.Context(), object, known, noNamespaces{}, now, nil)
}

type noNamespaces struct{}

func (noNamespaces) Labels(string) (map[string]string, bool, alarm.Unread) { return nil, false, "" }

func TestAStateIsUnknownWithoutWhatItNeeds(t *testing.T) {
	object := deployment(t, failedRollout)
	known := &alarm.Context{Object: alarm.Describe(object), NodesUnread: "not known yet"}
	a := mustCompile(t, withStates(t, `[{resource: {apiGroup: apps, resource: deployments}, expression: cluster.nodes > 0}]`))
	if got, err := a.States()[0].Holds(t.Context(), object, known, noNamespaces{}, lastSeen, nil); got != Unknown || err != nil {
		t.Errorf("without the number of Nodes: %v, %v", got, err)
	}
	if got, err := a.States()[0].Holds(t.Context(), object, &alarm.Context{}, noNamespaces{}, lastSeen, NewMeter(0)); got != Unknown || err != nil {
		t.Errorf("over budget: %v, %v", got, err)
	}
}

func TestAnAlarmSeesStatesOfItsNamespaceOnly(t *testing.T) {
	for namespace, want := range map[string]Truth{"shop": Yes, "other": No} {
		def := withStates(t, `[{resource: {apiGroup: apps, resource: deployments}, expression: "true"}]`)
		def.ID = kube.Key{Kind: alarm.KindAlarm, Namespace: namespace, Name: "a"}
		if got, err := holds(t, mustCompile(t, def), lastSeen); got != want || err != nil {
			t.Errorf("Alarm in %s: got %v, %v, want %v", namespace, got, err, want)
		}
	}
}

func TestAStateNeedsTheFieldsThatItsExpressionReads(t *testing.T) {
	const resource = "resource: {apiGroup: apps, resource: deployments}"
	conditions := "status.conditions[*].lastTransitionTime\nstatus.conditions[*].message\nstatus.conditions[*].reason\nstatus.conditions[*].status\nstatus.conditions[*].type"
	for expression, want := range map[string]string{
		`condition("Ready").status == "False"`:                               conditions,
		`has(object.spec.paused) || now > timestamp("2026-01-01T00:00:00Z")`: "spec.paused",
		`object.spec.replicas > object.status.replicas`:                      "spec.replicas\nstatus.replicas",
	} {
		a := mustCompile(t, withStates(t, "[{"+resource+", expression: '"+expression+"'}]"))
		got := a.Needs()[alarm.Resource{Group: "apps", Resource: "deployments"}]
		if got.String() != want {
			t.Errorf("%s: needs %q, want %q", expression, got, want)
		}
		s := a.States()[0]
		if !s.KnownIn(fields.NewFilter(got)) || s.KnownIn(fields.NewFilter(fields.Shape{})) {
			t.Errorf("%s: KnownIn is wrong", expression)
		}
		if s.UsesNow != strings.Contains(expression, "now") {
			t.Errorf("%s: UsesNow is %v", expression, s.UsesNow)
		}
	}
}

func TestInvalidStates(t *testing.T) {
	const resource = "resource: {apiGroup: apps, resource: deployments}"
	for states, want := range map[string]string{
		`[{` + resource + `, expression: object.spec.replicas}]`:                                              "spec.states[0].expression is invalid at column 1: the result is of type dyn: it must be bool",
		`[{` + resource + `, expression: condition("Ready") == "False"}]`:                                     "spec.states[0].expression is invalid at column 20: found no matching overload",
		`[{` + resource + `, expression: oldObject.spec.replicas > 0}]`:                                       "spec.states[0].expression is invalid at column 1: undeclared reference",
		`[{resource: {resource: secrets}, expression: has(object.data.password)}]`:                            "spec.states[0] is invalid: the values of Secrets are never read",
		`[{resource: {apiGroup: bongsu.io, resource: clusteralarms}, expression: object.status.matched > 3}]`: "spec.states[0] is invalid: the status of clusteralarms changes with each message",
		`[{` + resource + `, expression: "true"}, {` + resource + `, expression: "true", forSeconds: 5}]`:     "spec.states[1] is invalid: spec.states[0] has the same resource and expression",
	} {
		_, err := compile(t, withStates(t, states))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", states, err, want)
		}
	}
}

// Without a group, the end of a state could resolve nothing.
func TestStatesAreGroupedByObjectUnlessTheAlarmSaysOtherwise(t *testing.T) {
	def := withStates(t, `[{resource: {apiGroup: apps, resource: deployments}, expression: "true"}]`)
	event := alarm.Event{Regarding: alarm.Reference{Kind: "Deployment", Namespace: "shop", Name: "web"}}
	values := mustCompile(t, def).Grouping().Values(&event, &alarm.Object{})
	if len(values) != 3 || values[2].Value != "web" {
		t.Errorf("groups by %v, want the object", values)
	}
	def.Spec.Group = &v1alpha1.AlarmGroup{By: []string{"regarding.namespace"}}
	if values := mustCompile(t, def).Grouping().Values(&event, &alarm.Object{}); len(values) != 1 || values[0].Value != "shop" {
		t.Errorf("groups by %v, want the namespace", values)
	}
}

func TestWhichMessagesAreAboutOneNamespace(t *testing.T) {
	ofStates := withStates(t, `[{resource: {apiGroup: apps, resource: deployments}, expression: "true"}]`)
	grouped := withStates(t, `[{resource: {apiGroup: apps, resource: deployments}, expression: "true"}]`)
	grouped.Spec.Group = &v1alpha1.AlarmGroup{By: []string{"reason"}}
	ofTenant := namespacedAlarm("shop", v1alpha1.EventMatch{})
	ofTenant.Spec.Group = &v1alpha1.AlarmGroup{By: []string{"reason"}}
	for name, tc := range map[string]struct {
		alarm Definition
		want  bool
	}{
		"an Alarm":                               {ofTenant, true},
		"a ClusterAlarm without groups":          {clusterAlarm(v1alpha1.EventMatch{}), true},
		"a ClusterAlarm by namespace":            {groupedBy("reason", "regarding.namespace"), true},
		"a ClusterAlarm by reason":               {groupedBy("reason"), false},
		"a ClusterAlarm about states":            {ofStates, true},
		"a ClusterAlarm about states, by reason": {grouped, false},
	} {
		if got := mustCompile(t, tc.alarm).IsAboutOneNamespace(); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}
