package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/trial"
	"github.com/bongsu-io/bongsu/internal/command"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

// manifest writes an alarm to a file, and returns its path.
func manifest(t *testing.T, kind, name, spec string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "alarm.yaml")
	add(t, path, kind, name, spec)
	return path
}

// add adds an object to a file.
func add(t *testing.T, path, kind, name, spec string) {
	t.Helper()
	text := "---\napiVersion: bongsu.io/v1alpha1\nkind: " + kind + "\nmetadata: {name: " + name + "}\nspec:\n  " +
		strings.ReplaceAll(strings.TrimSpace(spec), "\n", "\n  ") + "\n"
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = file.WriteString(text)
	}
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
}

// happen creates an Event in a namespace about a Pod in the namespace "of".
func happen(t *testing.T, c *cluster.Cluster, namespace, of, pod string, count int32) {
	t.Helper()
	err := c.Client.Create(t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, GenerateName: "event-"},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: of, Name: pod},
		Type:           corev1.EventTypeWarning, Reason: "BackOff", Message: "Back-off of " + pod, Count: count,
		FirstTimestamp: metav1.Now(), LastTimestamp: metav1.Now(),
	})
	// The API server may reject an Event about an object in another namespace.
	if err != nil && namespace == of {
		t.Fatal(err)
	}
}

const crashes = "match: [{reasons: [BackOff]}]\nreceivers: [{name: ops}]"

func TestAlarmTestShowsMessagesWithoutSendingThem(t *testing.T) {
	c, to := cluster.Shared(t), sink.New(t)
	ns := c.Namespace(t, map[string]string{"watched": "yes"})
	create(t, c, "ClusterAlarmReceiver", "", ns, "webhook: {url: '"+to.URL()+"'}\nallowedNamespaces: {}")
	happen(t, c, ns, ns, "web-0", 3)
	happen(t, c, ns, ns, "web-1", 1)
	file := manifest(t, "Alarm", "crashes", `
match: [{reasons: [BackOff]}]
threshold: {count: 2, withinSeconds: 60}
group: {by: [regarding.name]}
message: {title: "${event.regarding.name} crashes"}
receivers: [{kind: ClusterAlarmReceiver, name: `+ns+`}]`)

	code, out, errOut := runs(t, "alarm", "test", "-f", file, "--kubeconfig", inContext(t, c, ns))
	if code != command.ExitOK {
		t.Fatalf("exit code %d: %s", code, errOut)
	}
	for _, want := range []string{
		"Alarm " + ns + "/crashes: of 2 Events from 20", "2 match, in 1 message\n",
		"Pod " + ns + "/web-0  3      regarding.name=web-0  message 1\n",
		"Pod " + ns + "/web-1  1      regarding.name=web-1  held back by threshold\n",
		" to ClusterAlarmReceiver " + ns + ":\n    web-0 crashes\n    Back-off of web-0\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
	if len(to.Requests()) > 0 {
		t.Error("it was sent")
	}
	var alarms v1alpha1.AlarmList
	if err := c.Client.List(t.Context(), &alarms, client.InNamespace(ns)); err != nil || len(alarms.Items) > 0 {
		t.Errorf("the alarm was created: %v, %v", alarms.Items, err)
	}
}

// create creates an object of a Bongsu kind.
func create(t *testing.T, c *cluster.Cluster, kind, namespace, name, spec string) {
	t.Helper()
	if err := c.Client.Create(t.Context(), cluster.Manifest(t, kind, namespace, name, spec)); err != nil {
		t.Fatal(err)
	}
}

// A developer who may only list the Events of a namespace can test an Alarm there.
func TestAlarmTestOfAnAlarmSeesItsOwnNamespaceOnly(t *testing.T) {
	c := cluster.Shared(t)
	own, another := c.Namespace(t, nil), c.Namespace(t, nil)
	happen(t, c, own, own, "mine", 1)
	happen(t, c, another, another, "theirs", 1)
	happen(t, c, own, another, "claimed", 1)
	user := cluster.Kubeconfig(t, c.User(t, own, cluster.Rule("events.k8s.io", "events", "list")))

	code, out, errOut := runs(t, "alarm", "test", "-f", manifest(t, "Alarm", "crashes", crashes), "--kubeconfig", user, "-n", own)
	if code != command.ExitOK || !strings.Contains(out, "Pod "+own+"/mine") || strings.Contains(out, "theirs") || strings.Contains(out, "claimed") {
		t.Errorf("exit code %d: %s%s", code, out, errOut)
	}
	for _, want := range []string{
		"note: you may not apply it: ", "note: you may not read nodes: ", "note: you may not read pods: ", "note: the name of the cluster in messages can differ",
		"note: it is unknown whether AlarmReceiver " + own + "/ops can be used: you may not read AlarmReceiver",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
	code, out, errOut = runs(t, "alarm", "test", "-f", manifest(t, "ClusterAlarm", "crashes", crashes), "--kubeconfig", user, "-n", own)
	if code != command.ExitError || !strings.Contains(errOut, "you may not list the Events of all namespaces, which a ClusterAlarm sees: ") || out != "" {
		t.Errorf("of a ClusterAlarm: exit code %d: %s%s", code, out, errOut)
	}

	create(t, c, "ClusterAlarmReceiver", "", own, "log: {}")
	code, out, _ = runs(t, "alarm", "test", "-f", manifest(t, "ClusterAlarm", "crashes", strings.Replace(crashes, "ops", own, 1)), "--kubeconfig", c.Kubeconfig())
	if code != command.ExitOK || !strings.Contains(out, "Pod "+own+"/mine") || !strings.Contains(out, "Pod "+another+"/theirs") {
		t.Errorf("of a ClusterAlarm, as an administrator: exit code %d: %s", code, out)
	}
}

func TestAlarmTestPrintsJSONAndYAML(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t, nil)
	create(t, c, "AlarmReceiver", ns, "ops", "log: {}")
	happen(t, c, ns, ns, "web-0", 2)
	for format, unmarshal := range map[string]func([]byte, any) error{
		"json": json.Unmarshal,
		"yaml": func(data []byte, into any) error { return yaml.UnmarshalStrict(data, into) },
	} {
		var report trial.Report
		code, out, errOut := runs(t, "alarm", "test", "-f", manifest(t, "Alarm", "crashes", crashes), "-n", ns, "--kubeconfig", c.Kubeconfig(), "-o", format)
		if err := unmarshal([]byte(out), &report); err != nil || code != command.ExitOK || len(report.Alarms) != 1 || len(report.Alarms[0].Matches) != 1 {
			t.Fatalf("%s: exit code %d: %s%s, %v", format, code, out, errOut, err)
		}
		a := report.Alarms[0]
		match, message := a.Matches[0], a.Messages[0]
		if a.Events != 1 || match.Outcome != trial.OutcomeSent || match.Count != 2 || match.Message != 1 ||
			message.Number != 1 || message.Message.Title != ns+"/web-0: BackOff (Pod)" || message.Message.Count != 2 {
			t.Errorf("%s: got %s", format, out)
		}
	}
	if _, out, _ := runs(t, "alarm", "test", "-f", manifest(t, "Alarm", "none", strings.Replace(crashes, "BackOff", "Other", 1)), "-n", ns, "--kubeconfig", c.Kubeconfig()); !strings.Contains(out, "of 1 Event from") || !strings.Contains(out, "none matches") {
		t.Errorf("of an alarm that matches nothing: %s", out)
	}
}

func TestAlarmTestReadsStandardInput(t *testing.T) {
	c := cluster.Shared(t)
	text, err := os.ReadFile(manifest(t, "Alarm", "crashes", crashes+"\nsuspend: true"))
	if err != nil {
		t.Fatal(err)
	}
	var out cluster.Buffer
	ns := c.Namespace(t, nil)
	create(t, c, "AlarmReceiver", ns, "ops", "log: {}")
	root := New()
	root.SetIn(strings.NewReader(string(text)))
	root.SetOut(&out)
	root.SetArgs([]string{"alarm", "test", "-f", "-", "--kubeconfig", inContext(t, c, ns)})
	if err := root.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), "note: spec.suspend is true") {
		t.Errorf("%v: %s", err, &out)
	}
}

func TestAlarmTestJoinsAllButSomeReasonsInOneGroup(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t, nil)
	create(t, c, "AlarmReceiver", ns, "ops", "log: {}")
	happen(t, c, ns, ns, "web-0", 1)
	happen(t, c, ns, ns, "web-1", 1)
	for spec, want := range map[string]string{
		"match: [{reasons: ['!Failed']}]\ngroup: {by: []}\nreceivers: [{name: ops}]":             "2 match, in 1 message\n",
		"match: [{reasons: ['!Failed']}]\ngroup: {waitSeconds: 9}\nreceivers: [{name: ops}]":     "  alarm=all  message 1\n",
		"match: [{reasons: ['!Failed', '!BackOff']}]\ngroup: {by: []}\nreceivers: [{name: ops}]": "    2 Events differ only in spec.match[0].reasons: BackOff\n",
	} {
		code, out, errOut := runs(t, "alarm", "test", "-f", manifest(t, "Alarm", "all", spec), "-n", ns, "--kubeconfig", c.Kubeconfig())
		if code != command.ExitOK || !strings.Contains(out, want) {
			t.Errorf("exit code %d, %q is missing in:\n%s%s", code, want, out, errOut)
		}
	}
}

func TestAlarmTestExplainsInvalidAlarms(t *testing.T) {
	c := cluster.Shared(t)
	inside := inContext(t, c, c.Namespace(t, nil))
	for name, tc := range map[string]struct{ spec, kubeconfig, says string }{
		"an expression, without a cluster": {
			"match: [{expression: evnt.count > 1}]\nreceivers: [{name: ops}]", "none",
			"spec.match[0].expression is invalid at column 1: undeclared reference to 'evnt': use event instead of evnt\n    evnt.count > 1\n    ^\n",
		},
		"a slip, without a cluster": {
			"match: [{expression: reason == 'BackOff' and count > 1}]\nreceivers: [{name: ops}]", "none",
			"column 21: Syntax error: mismatched input 'and' expecting <EOF>: use && instead of and\n    reason == 'BackOff' and count > 1\n                        ^\n",
		},
		"a field, without a cluster":  {strings.Replace(crashes, "match", "macth", 1), "none", `unknown field "spec.macth"`},
		"a window, without a cluster": {crashes + "\nmute: [{timeZone: Mars/Olympus}]", "none", "spec.mute[0].timeZone is invalid"},
		"a violation that only the API server finds": {
			strings.Replace(crashes, "reasons: [BackOff]", "kinds: [pod]", 1), inside, "the API server refuses Alarm test-",
		},
		"a glob":     {strings.Replace(crashes, "BackOff", "'Failed*'", 1), inside, "a reason is no glob: write each reason in full"},
		"no cluster": {crashes, "none", "no cluster configuration found: use --kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errOut := runs(t, "alarm", "test", "-f", manifest(t, "Alarm", "crashes", tc.spec), "--kubeconfig", tc.kubeconfig)
			if code != command.ExitError || !strings.Contains(errOut, tc.says) || out != "" {
				t.Errorf("exit code %d: %s%s", code, out, errOut)
			}
		})
	}
}

func TestAlarmExplainsInvalidCommandLines(t *testing.T) {
	good := manifest(t, "Alarm", "crashes", crashes)
	for name, tc := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no file":             {[]string{"test"}, command.ExitUsage, "the file with the alarms is missing: use -f FILE"},
		"a missing file":      {[]string{"test", "-f", "none.yaml"}, command.ExitError, "none.yaml"},
		"an unknown format":   {[]string{"test", "-f", good, "-o", "text"}, command.ExitUsage, "use table, json or yaml"},
		"no time":             {[]string{"test", "-f", good, "--from", "noon"}, command.ExitUsage, `--from: "noon" is neither an age nor a time`},
		"a time to come":      {[]string{"test", "-f", good, "--until", "2999-01-01T00:00:00Z"}, command.ExitUsage, "--until: \"2999-01-01T00:00:00Z\" is neither"},
		"a negative age":      {[]string{"send", "-f", good, "--to", "ops", "--from", "-1h"}, command.ExitUsage, "--from: \"-1h\" is neither"},
		"one file":            {[]string{"test", "-f", good, "--old", good}, command.ExitUsage, "--old and --new belong together"},
		"no period":           {[]string{"test", "-f", good, "--from", "5m", "--until", "10m"}, command.ExitUsage, "--from 5m is not before --until 10m"},
		"no receiver":         {[]string{"send", "-f", good}, command.ExitUsage, "the receiver is missing: use --to NAME"},
		"not a receiver kind": {[]string{"send", "-f", good, "-n", "a", "--to", "Pod/a"}, command.ExitUsage, `"Pod/a" is no receiver`},
		"not a range":         {[]string{"send", "-f", good, "--to", "a", "--allowed-receiver-addresses", "home"}, command.ExitUsage, "is not a range"},
		"an unknown command":  {[]string{"tset"}, command.ExitUsage, `unknown command "tset"`},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errOut := runs(t, append([]string{"alarm"}, tc.args...)...)
			if code != tc.code || !strings.Contains(errOut, tc.says) || out != "" {
				t.Errorf("exit code %d: %s%s", code, out, errOut)
			}
		})
	}
}

func TestAlarmTestShowsWhyNoEventMatches(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t, map[string]string{"nearmiss": "bank"})
	create(t, c, "AlarmReceiver", ns, "ops", "log: {}")
	create(t, c, "ClusterAlarmReceiver", "", ns, "log: {}")
	for range 4 {
		happen(t, c, ns, ns, "web-0", 1)
	}
	happen(t, c, ns, ns, "db-0", 1)
	for name, tc := range map[string]struct{ kind, match, says string }{
		"another reason":        {"Alarm", "match: [{kinds: [Pod], reasons: [Killing], names: [web-*]}]", "near misses:\n    4 Events differ only in spec.match[0].reasons: BackOff\n"},
		"a misspelt reason":     {"Alarm", "match: [{reasons: [Backof]}]", "    5 Events differ only in spec.match[0].reasons: write \"BackOff\"\n"},
		"a note without *":      {"Alarm", "match: [{note: Back-off of web}]", "    4 Events differ only in spec.match[0].note: write \"Back-off of web*\"\n"},
		"an expression":         {"Alarm", "match: [{names: [db-0], expression: event.count > 1}]", "    1 Event differs only in spec.match[0].expression: for example of Pod " + ns + "/db-0\n"},
		"a misspelt label":      {"ClusterAlarm", "match: [{names: [db-0]}]\nnamespaceSelector: {matchLabels: {nearmis: bank}}", "note: spec.namespaceSelector selects no namespace: no namespace has the label nearmis: did you mean nearmiss\n"},
		"another value":         {"ClusterAlarm", "match: [{names: [db-0]}]\nnamespaceSelector: {matchLabels: {nearmiss: shop}}", "selects no namespace: the label nearmiss of namespaces has the values bank\n"},
		"another namespace":     {"ClusterAlarm", "match: [{names: [db-0], note: 'Back-off of db-0'}]\nnamespaceSelector: {matchExpressions: [{key: nearmiss, operator: DoesNotExist}]}", "    1 Event differs only in spec.namespaceSelector: " + ns + "\n"},
		"an excluded namespace": {"ClusterAlarm", "match: [{names: [db-0], note: 'Back-off of db-0'}]\nnamespaces: ['*', '!" + ns + "']", "    1 Event differs only in spec.namespaces: " + ns + "\n"},
		"no such namespace":     {"ClusterAlarm", "match: [{names: [db-0]}]\nnamespaces: [no-*]", "note: spec.namespaces selects no namespace\n"},
		"an excluded name":      {"Alarm", "match: [{kinds: [Pod], note: 'Back-off of db-0', names: ['!db-0']}]", "    1 Event differs only in spec.match[0].names: db-0\n"},
		"an expired Event":      {"Alarm", "match: [{names: [gone]}]", "note: the oldest Event is of 20"},
		"two conditions":        {"Alarm", "match: [{reasons: [Killing], names: [other]}]", "none matches\nnote: the oldest"},
		"a status":              {"Alarm", "match: [{reasons: [OOMKilled]}]", "note: spec.match[0].reasons: Kubernetes emits no Event with the reason OOMKilled: match BackOff, and use object.cause"},
		"an exception":          {"Alarm", "match: [{reasons: ['!Backof']}]", "note: spec.match[0].reasons: no Event has the reason Backof: did you mean BackOff\n"},
		"an exceptional status": {"Alarm", "match: [{reasons: ['!ErrImagePull']}]", "note: spec.match[0].reasons: Kubernetes emits no Event with the reason ErrImagePull: match Failed\n"},
		"labels of an unread kind": {"Alarm", "match: [{kinds: [HelmRelease], objectSelector: {matchLabels: {team: a}}}]",
			"note: spec.match[0].objectSelector: Bongsu does not read objects of kind HelmRelease, so no Event about them matches: name their resource in spec.readObjects, which an administrator must allow, or use names or note instead\n"},
		"groups of an unread kind": {"Alarm", "match: [{kinds: [HelmRelease]}]\ngroup: {by: [regarding.kind, 'object.labels[team]']}",
			"note: spec.group.by: Bongsu does not read objects of kind HelmRelease, so each of them is a group of its own without object.labels[team]: name their resource in spec.readObjects, which an administrator must allow, or group by regarding.name instead\n"},
		"an end that is none": {"Alarm", "match: [{types: [Warning]}]\ngroup: {by: [regarding.name]}\nresolve: {match: [{reasons: [Started]}]}",
			"note: spec.resolve.match[0]: a pod that keeps failing emits Started at each retry, so the group is resolved while nothing is repaired: use quietSeconds of 600 or more instead\n"},
		"groups without their label": {"Alarm", "match: [{reasons: [BackOff]}]\ngroup: {by: ['object.labels[app]']}",
			"note: spec.group.by: 5 occurrences without object.labels[app], for example of Pod " + ns + "/db-0: each such object is a group of its own\n"},
		"the number of nodes": {"Alarm", "match: [{reasons: [BackOff]}]\nmessage: {title: 'one of ${cluster.nodes} nodes'}",
			"note: cluster.nodes is the number of nodes now: the operator uses the number at the time of the Event\n"},
		"labels of deleted objects": {"Alarm", "match: [{reasons: [BackOff], objectSelector: {matchLabels: {app: web}}}]",
			"note: 5 occurrences could not be evaluated, because their object was deleted before it was read, or is of a kind that is not read: to get such Events, use names or note"},
		"a type of Nodes": {"ClusterAlarm", "match: [{kinds: [Node], types: [Warning]}]", "note: spec.match[0].types: NodeNotReady and most other Events about Nodes are Normal: leave types out\n"},
		"a match":         {"Alarm", "match: [{reasons: [BackOff]}]", "5 match, in 5 messages\n\nAT"},
	} {
		t.Run(name, func(t *testing.T) {
			receiver := "ops"
			if tc.kind == "ClusterAlarm" {
				receiver = ns
			}
			file := manifest(t, tc.kind, "crashes", tc.match+"\nreceivers: [{name: "+receiver+"}]")
			code, out, errOut := runs(t, "alarm", "test", "-f", file, "-n", ns, "--kubeconfig", c.Kubeconfig())
			if code != command.ExitOK || !strings.Contains(out, tc.says) {
				t.Errorf("exit code %d, want %q in:\n%s%s", code, tc.says, out, errOut)
			}
		})
	}
	_, out, _ := runs(t, "alarm", "test", "-f", manifest(t, "Alarm", "crashes", strings.Replace(crashes, "BackOff", "Other", 1)), "-n", ns, "--kubeconfig", c.Kubeconfig(), "-o", "json")
	var report trial.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	want := []trial.NearMiss{{Field: "spec.match[0].reasons", Value: "BackOff", Events: 5}}
	if diff := cmp.Diff(want, report.Alarms[0].NearMisses, cmpopts.IgnoreUnexported(trial.NearMiss{}), cmpopts.IgnoreFields(trial.NearMiss{}, "Object")); diff != "" {
		t.Error(diff)
	}
}

func TestAlarmTestFailsIfTheAlarmCannotWork(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t, nil)
	create(t, c, "ClusterAlarmReceiver", "", ns, "log: {}")
	create(t, c, "AlarmReceiver", ns, "ops", "log: {}")
	create(t, c, "AlarmReceiver", ns, "failing", "log: {}")
	failing := &v1alpha1.AlarmReceiver{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "failing"}}
	if err := c.Client.Status().Patch(t.Context(), failing, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"conditions":[
		{"type":"Ready","status":"False","reason":"DeliveryFailing","message":"the URL does not exist","lastTransitionTime":"2026-03-01T08:50:00Z"}]}}`))); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ kind, spec, says string }{
		"no such receiver":       {"Alarm", strings.Replace(crashes, "ops", "none", 1), "Alarm " + ns + "/it: AlarmReceiver " + ns + "/none does not exist: create it, or correct spec.receivers\n"},
		"of a ClusterAlarm":      {"ClusterAlarm", strings.Replace(crashes, "ops", "none", 1), "ClusterAlarm it: ClusterAlarmReceiver none does not exist"},
		"it does not allow it":   {"Alarm", "match: [{}]\nreceivers: [{kind: ClusterAlarmReceiver, name: " + ns + "}]", "ClusterAlarmReceiver " + ns + " does not exist, or does not allow Alarms of namespace " + ns},
		"an Alarm for Nodes":     {"Alarm", "match: [{}, {kinds: [Pod, Node]}]\nreceivers: [{name: ops}]", "Alarm " + ns + "/it: spec.match[1].kinds is invalid: a Node has no namespace, and an Alarm matches only"},
		"a misspelt kind":        {"Alarm", "match: [{kinds: [Pods]}]\nreceivers: [{name: ops}]", "Alarm " + ns + "/it: spec.match[0].kinds: the cluster has no kind Pods: did you mean Pod\n"},
		"selected Nodes":         {"ClusterAlarm", "match: [{kinds: [Node]}]\nnamespaceSelector: {matchLabels: {a: b}}\nreceivers: [{name: " + ns + "}]", "spec.match[0].kinds is invalid: a Node has no namespace, so spec.namespaces and spec.namespaceSelector never select its Events"},
		"it is not ready":        {"Alarm", strings.Replace(crashes, "ops", "failing", 1), "AlarmReceiver " + ns + "/failing is not ready (DeliveryFailing): the URL does not exist"},
		"a ClusterAlarm of them": {"ClusterAlarm", "match: [{kinds: [Node]}]\nreceivers: [{name: " + ns + "}]", ""},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errOut := runs(t, "alarm", "test", "-f", manifest(t, tc.kind, "it", tc.spec), "-n", ns, "--kubeconfig", c.Kubeconfig())
			if (code == command.ExitOK) != (tc.says == "") || !strings.Contains(errOut, tc.says) || !strings.Contains(out, "/it: of ") && !strings.Contains(out, " it: of ") {
				t.Errorf("exit code %d: %s%s", code, out, errOut)
			}
		})
	}
}

// The receivers in a file are built as the operator does, from the Secrets of the file and of the
// cluster.
func TestAlarmTestChecksTheReceiversInTheFile(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t, nil)
	const (
		slack  = "slack: {webhookURLSecretRef: {name: hook}}"
		secret = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: hook}\n"
	)
	for name, tc := range map[string]struct {
		receiver, secret string
		code             int
		says             string
	}{
		"good":             {"log: {}", "", command.ExitOK, "note: AlarmReceiver " + ns + "/ops of the file is used as if it were applied: apply it too\n"},
		"no Secret":        {slack, "", command.ExitError, "AlarmReceiver " + ns + "/ops: Secret " + ns + "/hook does not exist: create it"},
		"in the file":      {slack, secret + "stringData: {url: 'https://hooks.slack.com/services/hunter2'}\n", command.ExitOK, "is used as if it were applied"},
		"without its key":  {slack, secret + "stringData: {link: 'https://hooks.slack.com/services/hunter2'}\n", command.ExitError, "Secret " + ns + "/hook has no key \"url\""},
		"no URL":           {slack, secret + "stringData: {url: hunter2}\n", command.ExitError, "Secret " + ns + "/hook: "},
		"no Base64":        {slack, secret + "data: {url: hunter2}\n", command.ExitError, "Secret hook: illegal base64 data"},
		"no body":          {"webhook: {url: 'https://a.example', body: '{'}", "", command.ExitError, "spec.webhook.body is invalid"},
		"a closed address": {"webhook: {url: 'http://10.0.0.1'}", "", command.ExitOK, "note: AlarmReceiver " + ns + "/ops: unless your operator allows more: AlarmReceivers may not use"},
	} {
		t.Run(name, func(t *testing.T) {
			file := manifest(t, "Alarm", "crashes", crashes)
			add(t, file, "AlarmReceiver", "ops", tc.receiver)
			text, err := os.ReadFile(file)
			if err == nil {
				err = os.WriteFile(file, append(text, tc.secret...), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			code, out, errOut := runs(t, "alarm", "test", "-f", file, "-n", ns, "--kubeconfig", c.Kubeconfig())
			if code != tc.code || !strings.Contains(out+errOut, tc.says) || strings.Contains(out+errOut, "hunter2") {
				t.Errorf("exit code %d, want %d and %q:\n%s%s", code, tc.code, tc.says, out, errOut)
			}
		})
	}
}

func TestAlarmTestSaysThatThereAreNoEvents(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t, nil)
	create(t, c, "AlarmReceiver", ns, "ops", "log: {}")
	_, out, errOut := runs(t, "alarm", "test", "-f", manifest(t, "Alarm", "crashes", crashes), "-n", ns, "--kubeconfig", c.Kubeconfig())
	if !strings.Contains(out, "note: there are no Events") || strings.Contains(out, "the oldest Event") {
		t.Errorf("%s%s", out, errOut)
	}
}

func TestAlarmTestUsesThePeriodAndTheNameOfTheCluster(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t, nil)
	create(t, c, "AlarmReceiver", ns, "ops", "log: {}")
	happen(t, c, ns, ns, "web-0", 1)
	report := func(args ...string) trial.Report {
		t.Helper()
		var r trial.Report
		code, out, errOut := runs(t, append([]string{"alarm", "test", "-f", manifest(t, "Alarm", "crashes", crashes), "-n", ns, "--kubeconfig", c.Kubeconfig(), "-o", "json"}, args...)...)
		if err := json.Unmarshal([]byte(out), &r); err != nil || code != command.ExitOK {
			t.Fatalf("exit code %d: %s%s, %v", code, out, errOut, err)
		}
		return r
	}
	for _, tc := range []struct {
		args   []string
		events int
	}{
		{[]string{"--from", "10m"}, 1},
		{[]string{"--from", "2020-01-01T00:00:00Z"}, 1},
		{[]string{"--until", "10m"}, 0},
		{[]string{"--from", "2020-01-01T00:00:00Z", "--until", "2021-01-01T00:00:00+09:00"}, 0},
	} {
		if got := report(tc.args...).Alarms[0].Events; got != tc.events {
			t.Errorf("%v: %d Events, want %d", tc.args, got, tc.events)
		}
	}
	if got := report("--operator-namespace", ns).Alarms[0].Messages[0].Message.Cluster; !strings.HasPrefix(got, "cluster-") {
		t.Errorf("without an operator: got %q", got)
	}
	if err := checkpoint.NewStore(c.Client, ns).Named("prod").Write(t.Context(), checkpoint.Checkpoint{Epoch: "first"}); err != nil {
		t.Fatal(err)
	}
	if got := report("--operator-namespace", ns).Alarms[0].Messages[0].Message.Cluster; got != "prod" {
		t.Errorf("got %q, want the name that the operator uses", got)
	}
	if got := report("--operator-namespace", ns, "--cluster-name", "other").Alarms[0].Messages[0].Message.Cluster; got != "other" {
		t.Errorf("got %q, want that of the flag", got)
	}
}

func TestAlarmTestEvaluatesStatesNow(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t, nil)
	anHourAgo := metav1.NewTime(time.Now().Add(-time.Hour))
	for name, phase := range map[string]string{"bad": "Bad", "good": "Good"} {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Data: map[string]string{"phase": phase}}
		if err := c.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		object.ManagedFields[0].Manager, object.ManagedFields[0].Time = "earlier", &anHourAgo
		if err := c.Client.Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	file := manifest(t, "Alarm", "states", `
states:
- {resource: {resource: configmaps}, expression: "has(object.data) && 'phase' in object.data && object.data.phase == 'Bad'", forSeconds: 300}
- {resource: {resource: configmaps}, expression: "object.data.missing == ''"}
- {resource: {resource: secrets}, expression: has(object.metadata.labels.bad)}
- {resource: {resource: configmaps}, names: [bda], expression: "true"}
receivers: [{name: ops}]`)
	_, out, errOut := runs(t, "alarm", "test", "-f", file, "--kubeconfig", inContext(t, c, ns))
	for _, want := range []string{
		"spec.states[0]: true now for 1 of ", " configmaps: " + ns + "/bad (for 1h0m", "s at least). They are reported if this lasts for 5m0s",
		"spec.states[1]: true now for 0 of ", "The expression fails for some: spec.states[1].expression: no such key: missing",
		"spec.states[2]: true now for 0 of 0 secrets\n",
		" configmaps. names, objectSelector and namespaceSelector select none of them\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s%s", want, out, errOut)
		}
	}
}

// A resource that the operator cannot watch, or that the user may not list, is a failure.
func TestAlarmTestFailsForResourcesThatCannotBeWatched(t *testing.T) {
	c := cluster.Shared(t)
	c.AllowChanges(t, "bongsu-changes-builtin")
	ns := c.Namespace(t, nil)
	create(t, c, "AlarmReceiver", ns, "ops", "log: {}")
	create(t, c, "ClusterAlarmReceiver", "", ns, "log: {}")
	user := cluster.Kubeconfig(t, c.User(t, ns, cluster.Rule("events.k8s.io", "events", "list"), cluster.Rule("bongsu.io", "alarmreceivers", "get")))
	if err := c.Client.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "bongsu"}}); err != nil { // of an operator without rights
		t.Fatal(err)
	}
	admin := []string{"--kubeconfig", c.Kubeconfig()}
	const changes, states, reads = "changes: [{resource: {%}, operations: [Create]}]", "states: [{resource: {%}, expression: 'true'}]", "match: [{kinds: [ConfigMap]}]\nreadObjects: [{%}]"
	for name, tc := range map[string]struct {
		kind, spec, resource string
		args                 []string
		says                 string
	}{
		"a state of Nodes in an Alarm":  {"Alarm", states, "resource: nodes", admin, "spec.states[0].resource: objects of nodes have no namespace, and an Alarm is about one namespace: use a ClusterAlarm\n"},
		"changes of Nodes in an Alarm":  {"Alarm", changes, "resource: nodes", admin, "spec.changes[0].resource: objects of nodes have no namespace"},
		"a state of Nodes":              {"ClusterAlarm", states, "resource: nodes", admin, ""},
		"a state of a missing resource": {"Alarm", states, "apiGroup: example.com, resource: widgets", admin, "spec.states[0].resource: the API server serves no resource \"widgets\" in apiGroup \"example.com\": check the name"},
		"a misspelt resource":           {"Alarm", changes, "apiGroup: apps, resource: deploymets", admin, "spec.changes[0].resource: the API server serves no resource \"deploymets\" in apiGroup \"apps\": did you mean deployments?\n"},
		"no rights of the operator": {
			"ClusterAlarm", states, "apiGroup: apps, resource: deployments", []string{"--kubeconfig", c.Kubeconfig(), "--operator-namespace", ns},
			"spec.states[0].resource: the operator is not allowed to list and watch deployments.apps: create a ClusterRole with the label bongsu.io/aggregate-to-alarms: \"true\". Its rule is apiGroups: [\"apps\"], resources: [\"deployments\"], verbs: [list, watch]\n",
		},
		"objects of Nodes in an Alarm":  {"Alarm", reads, "resource: nodes", admin, "spec.readObjects[0]: objects of nodes have no namespace"},
		"objects of a missing resource": {"Alarm", reads, "resource: configmap", admin, "spec.readObjects[0]: the API server serves no resource \"configmap\" in apiGroup \"\": did you mean configmaps?\n"},
		"objects that the operator can list, but not get": {
			"Alarm", reads, "resource: configmaps", admin,
			"spec.readObjects[0]: the operator is not allowed to get configmaps: create a ClusterRole with the label bongsu.io/aggregate-to-alarms: \"true\". Its rule is apiGroups: [\"\"], resources: [\"configmaps\"], verbs: [get]\n",
		},
		"no rights of the user for a state": {"Alarm", states, "resource: configmaps", []string{"--kubeconfig", user}, "spec.states[0]: you may not list configmaps, which the author of an alarm on it must be allowed to"},
		"no rights of the user for changes": {"Alarm", "changes: [{resource: {%}}]", "resource: configmaps", []string{"--kubeconfig", user}, "spec.changes[0]: you may not list configmaps"},
	} {
		t.Run(name, func(t *testing.T) {
			receiver := "ops"
			if tc.kind == "ClusterAlarm" {
				receiver = ns
			}
			file := manifest(t, tc.kind, "it", strings.Replace(tc.spec, "%", tc.resource, 1)+"\nreceivers: [{name: "+receiver+"}]")
			code, out, errOut := runs(t, append([]string{"alarm", "test", "-f", file, "-n", ns}, tc.args...)...)
			if (code == command.ExitOK) != (tc.says == "") || !strings.Contains(errOut, tc.says) {
				t.Errorf("exit code %d: %s%s", code, out, errOut)
			}
		})
	}
}

// The test reads with the permissions of the user, and no object of a kind that the alarm does not name.
func TestAlarmTestReadsTheObjectsThatTheAlarmNames(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t, nil)
	create(t, c, "AlarmReceiver", ns, "ops", "log: {}")
	for _, o := range []client.Object{
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "settings", Labels: map[string]string{"team": "shop"}}},
		&corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "event"}, Reason: "Invalid", Count: 1, FirstTimestamp: metav1.Now(), LastTimestamp: metav1.Now(),
			InvolvedObject: corev1.ObjectReference{APIVersion: "v9", Kind: "ConfigMap", Namespace: ns, Name: "settings"},
		},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: ns}, Rules: []rbacv1.PolicyRule{cluster.Rule("", "configmaps", "get")}},
	} {
		if err := c.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	c.AllowChanges(t, ns)
	user := cluster.Kubeconfig(t, c.User(t, ns, cluster.Rule("events.k8s.io", "events", "list"), cluster.Rule("bongsu.io", "alarmreceivers", "get")))
	const match, reads = "match: [{kinds: [ConfigMap], objectSelector: {matchLabels: {team: %}}}]\nmessage: {title: 'of ${object.metadata.labels.team}'}\nreceivers: [{name: ops}]", "\nreadObjects: [{resource: configmaps}]"
	for name, tc := range map[string]struct {
		spec, kubeconfig string
		says             []string
	}{
		"it names them":             {strings.Replace(match, "%", "shop", 1) + reads, c.Kubeconfig(), []string{"1 matches", "    of shop\n"}},
		"they have other labels":    {strings.Replace(match, "%", "bank", 1) + reads, c.Kubeconfig(), []string{"none matches", "only in spec.match[0].objectSelector: team=shop\n"}},
		"it does not name them":     {strings.Replace(match, "%", "shop", 1), c.Kubeconfig(), []string{"Bongsu does not read objects of kind ConfigMap"}},
		"the user may not get them": {strings.Replace(match, "%", "shop", 1) + reads, user, []string{"note: you may not read configmaps: the test treats their fields as unknown; the operator may read them"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errOut := runs(t, "alarm", "test", "-f", manifest(t, "Alarm", "it", tc.spec), "-n", ns, "--kubeconfig", tc.kubeconfig)
			for _, want := range tc.says {
				if !strings.Contains(out, want) {
					t.Errorf("%q is missing in:\n%s%s", want, out, errOut)
				}
			}
			named := strings.Contains(tc.spec, reads)
			if code != command.ExitOK || named == strings.Contains(out, "does not read") || strings.Contains(out, "    of shop\n") != (name == "it names them") {
				t.Errorf("exit code %d: %s%s", code, out, errOut)
			}
		})
	}
}

func TestAlarmTestNotesFieldsWithoutAValueInAnyObject(t *testing.T) {
	c := cluster.Shared(t)
	c.AllowChanges(t, "bongsu-changes-configmaps")
	ns := c.Namespace(t, nil)
	create(t, c, "AlarmReceiver", ns, "ops", "log: {}")
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "settings"}, Data: map[string]string{"mode": "a"}}
	if err := c.Client.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	test := func(fields string) string {
		t.Helper()
		file := manifest(t, "Alarm", "it", "changes: [{resource: {resource: configmaps}, names: [settings], fields: ["+fields+"]}]\nreceivers: [{name: ops}]")
		code, out, errOut := runs(t, "alarm", "test", "-f", file, "-n", ns, "--kubeconfig", c.Kubeconfig())
		if code != command.ExitOK {
			t.Fatalf("exit code %d: %s%s", code, out, errOut)
		}
		return out
	}
	if out := test("data.mode, data.mod, dta"); !strings.Contains(out, "note: spec.changes[0].fields: no object of configmaps has a value in data.mod, dta (1 object read): check the spelling\n") {
		t.Error(out)
	}
	if out := test("data.mode, data, metadata.labels, \"data[*]\""); !strings.Contains(out, " has a value in metadata.labels (") {
		t.Error(out)
	}
	if out := test("data.mode"); strings.Contains(out, "has a value") {
		t.Error(out)
	}
}

const deploymentOf = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  template: {spec: {containers: [{name: web, image: "web:1.4"}]}}
`

// changeFile writes objects to a file, and returns its path.
func changeFile(t *testing.T, objects string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(path, []byte(objects), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAlarmTestComparesTwoFiles(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t, nil)
	create(t, c, "AlarmReceiver", ns, "ops", "log: {}")
	happen(t, c, ns, ns, "web-0", 1)
	user := cluster.Kubeconfig(t, c.User(t, ns, cluster.Rule("bongsu.io", "alarmreceivers", "get")))
	secret := "apiVersion: v1\nkind: Secret\nmetadata: {name: it}\ndata: {password: "
	const list = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n"
	for name, tc := range map[string]struct {
		spec, old, new string
		says           []string
	}{
		"a message": {
			"changes: [{resource: {apiGroup: apps, resource: deployments}, fields: [\"spec.template.spec.containers[*].image\"]}]",
			deploymentOf, strings.ReplaceAll(deploymentOf, "1.4", "1.5"),
			[]string{
				"Alarm " + ns + "/it: of 1 object, 1 matches, in 1 message\n", "Normal  Updated  Deployment " + ns + "/web  1      -      message 1\n",
				"    " + ns + "/web: Updated (Deployment)\n    image of container web: web:1.4 -> web:1.5\n",
			},
		},
		"an expression": {
			"changes: [{resource: {apiGroup: apps, resource: deployments}, fields: [spec.replicas], expression: object.spec.replicas < oldObject.spec.replicas}]",
			deploymentOf, strings.ReplaceAll(deploymentOf, "replicas: 2", "replicas: 1"),
			[]string{"    replicas: 2 -> 1\n"},
		},
		"another operator": {
			"changes: [{resource: {apiGroup: apps, resource: deployments}, fields: [spec.replicas], expression: object.spec.replicas < oldObject.spec.replicas}]",
			deploymentOf, strings.ReplaceAll(deploymentOf, "replicas: 2", "replicas: 3"),
			[]string{"of 1 object, none matches\n", "note: Deployment " + ns + "/web differs (replicas: 2 -> 3): spec.changes[0].expression is false\n"},
		},
		"another field": {
			"changes: [{resource: {apiGroup: apps, resource: deployments}, fields: [spec.replicas]}]",
			deploymentOf, strings.ReplaceAll(deploymentOf, "1.4", "1.5"),
			[]string{"note: Deployment " + ns + "/web differs (image of container web: web:1.4 -> web:1.5): no difference in spec.changes[0].fields (spec.replicas)\n"},
		},
		"no changes": {
			"states: [{resource: {apiGroup: apps, resource: deployments}, expression: 'true'}]", deploymentOf, strings.ReplaceAll(deploymentOf, "1.4", "1.5"),
			[]string{"note: the alarm has no spec.changes, so the files are not compared"},
		},
		"no difference": {
			"changes: [{resource: {apiGroup: apps, resource: deployments}}]", deploymentOf, deploymentOf,
			[]string{"note: Deployment " + ns + "/web does not differ: no difference in spec.changes[0].fields (*)\n"},
		},
		"another resource": {
			"changes: [{resource: {apiGroup: apps, resource: statefulsets}}]", deploymentOf, deploymentOf,
			[]string{"note: Deployment " + ns + "/web: spec.changes does not name deployments.apps\n"},
		},
		"created and deleted": {
			"changes: [{resource: {resource: configmaps}, operations: [Create, Delete]}]", list, strings.ReplaceAll(list, "{name: a}", "{name: b}"),
			[]string{"of 2 objects, 2 match, in 2 messages", ns + "/a: Deleted (ConfigMap)\n    deleted\n", ns + "/b: Created (ConfigMap)\n    created\n"},
		},
		"created, but not updated": {
			"changes: [{resource: {resource: configmaps}}]", "", list,
			[]string{"note: ConfigMap " + ns + "/a is created: spec.changes[0].operations does not contain Create\n"},
		},
		"names and labels": {
			"changes: [{resource: {apiGroup: apps, resource: statefulsets}}, {resource: {apiGroup: apps, resource: deployments}, names: [api-*], objectSelector: {matchLabels: {a: b}}}]",
			deploymentOf, strings.ReplaceAll(deploymentOf, "replicas: 2", "replicas: 3"),
			[]string{"(replicas: 2 -> 3): spec.changes[1].names does not match web; spec.changes[1].objectSelector does not select it\n"},
		},
		"another namespace": {
			"changes: [{resource: {apiGroup: apps, resource: deployments}}]",
			strings.ReplaceAll(deploymentOf, "name: web}\n", "name: web, namespace: other}\n"), "",
			[]string{"note: Deployment other/web is deleted: the alarm sees only objects of its own namespace; spec.changes[0].operations does not contain Delete\n"},
		},
		"a Secret": {
			"changes: [{resource: {resource: secrets}, fields: [metadata.labels]}]", secret + "b2xk}\n", secret + "bmV3}\n",
			[]string{"note: Secret " + ns + "/it differs: no difference in spec.changes[0].fields (metadata.labels)\n"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := manifest(t, "Alarm", "it", tc.spec+"\nreceivers: [{name: ops}]")
			code, out, errOut := runs(t, "alarm", "test", "-f", file, "--old", changeFile(t, tc.old), "--new", changeFile(t, tc.new), "-n", ns, "--kubeconfig", user)
			if code != command.ExitOK {
				t.Errorf("exit code %d", code)
			}
			for _, want := range tc.says {
				if !strings.Contains(out, want) {
					t.Errorf("%q is missing in:\n%s%s", want, out, errOut)
				}
			}
			for _, value := range []string{"b2xk", "bmV3", "BackOff"} {
				if strings.Contains(out+errOut, value) {
					t.Errorf("it contains %s:\n%s%s", value, out, errOut)
				}
			}
		})
	}
	file := manifest(t, "Alarm", "it", "changes: [{resource: {apiGroup: apps, resource: deployments}}]\nreceivers: [{name: ops}]")
	for content, says := range map[string]string{
		"apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\n": "new: the cluster has no kind Widget of example.com/v1",
		"kind: Deployment\nmetadata: {name: a}\n":                         `object "a": apiVersion, kind or metadata.name is missing`,
		"a: b: c": "mapping values are not allowed",
	} {
		code, _, errOut := runs(t, "alarm", "test", "-f", file, "--old", changeFile(t, deploymentOf), "--new", changeFile(t, content), "-n", ns, "--kubeconfig", user)
		if code != command.ExitError || !strings.Contains(errOut, says) {
			t.Errorf("%q: exit code %d: %s", content, code, errOut)
		}
	}
}

// The label of the namespace chooses the channel. Slack gets nothing.
func TestAlarmTestShowsTheChannelOfEachMessage(t *testing.T) {
	c := cluster.Shared(t)
	ns, other := c.Namespace(t, map[string]string{"slack-channel": "team-a"}), c.Namespace(t, map[string]string{"slack-channel": "executives"})
	create(t, c, "ClusterAlarmReceiver", "", ns, "slack: {channel: C0123, channelFrom: {namespaceLabel: slack-channel, allowed: [team-*]}, "+
		"tokenSecretRef: {namespace: "+ns+", name: hook, key: token}}")
	happen(t, c, ns, ns, "web-0", 1)
	happen(t, c, other, other, "web-0", 1)
	for by, want := range map[string][]string{
		"regarding.namespace": {
			" to ClusterAlarmReceiver " + ns + " in #team-a:\n    " + ns + "/web-0: BackOff (Pod)\n",
			" to ClusterAlarmReceiver " + ns + " in C0123:\n    " + other + "/web-0: BackOff (Pod)\n",
		},
		"reason": {
			" to ClusterAlarmReceiver " + ns + " in C0123:\n",
			"note: ClusterAlarmReceiver " + ns + " gets all messages in C0123, because a group can be about several namespaces: add regarding.namespace to spec.group.by",
		},
	} {
		file := manifest(t, "ClusterAlarm", "crashes", `
match: [{reasons: [BackOff], names: [web-0]}]
namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [`+ns+`, `+other+`]}]}
group: {by: [`+by+`]}
receivers: [{name: `+ns+`}]`)
		code, out, errOut := runs(t, "alarm", "test", "-f", file, "--kubeconfig", c.Kubeconfig())
		if code != command.ExitOK {
			t.Fatalf("exit code %d: %s", code, errOut)
		}
		for _, text := range want {
			if !strings.Contains(out, text) {
				t.Errorf("%q is missing in:\n%s", text, out)
			}
		}
	}
}

// The label of the namespace chooses the receivers.
func TestAlarmTestShowsTheReceiversOfEachMessage(t *testing.T) {
	c := cluster.Shared(t)
	shop, typo, none := c.Namespace(t, nil), c.Namespace(t, nil), c.Namespace(t, nil)
	label := shop // which other tests do not use
	for ns, value := range map[string]string{shop: "shop", typo: "shpo"} {
		o := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"`+label+`":"`+value+`"}}}`))
		if err := c.Client.Patch(t.Context(), o, patch); err != nil {
			t.Fatal(err)
		}
	}
	create(t, c, "ClusterAlarmReceiver", "", shop, "log: {}\nchosenBy: {namespaceLabel: "+label+", values: [shop]}")
	create(t, c, "ClusterAlarmReceiver", "", none, "log: {}")
	for _, ns := range []string{shop, typo, none} {
		happen(t, c, ns, ns, "web-0", 1)
	}
	file := manifest(t, "ClusterAlarm", "crashes", `
match: [{reasons: [BackOff], names: [web-0]}]
namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [`+shop+`, `+typo+`, `+none+`]}]}
receiversFrom: {namespaceLabel: `+label+`, default: {name: `+none+`}}`)
	code, out, errOut := runs(t, "alarm", "test", "-f", file, "--kubeconfig", c.Kubeconfig())
	if code != command.ExitOK {
		t.Fatalf("exit code %d: %s", code, errOut)
	}
	for _, text := range []string{
		" to ClusterAlarmReceiver " + shop + ":\n    " + shop + "/web-0: BackOff (Pod)\n",
		" to ClusterAlarmReceiver " + none + ":\n    " + typo + "/web-0: BackOff (Pod)\n",
		" to ClusterAlarmReceiver " + none + ":\n    " + none + "/web-0: BackOff (Pod)\n",
		"note: namespace " + typo + " has the label " + label + "=shpo, which chooses no receiver",
	} {
		if !strings.Contains(out, text) {
			t.Errorf("%q is missing in:\n%s", text, out)
		}
	}
	misspelt := manifest(t, "ClusterAlarm", "crashes", `
match: [{reasons: [BackOff]}]
receiversFrom: {namespaceLabel: `+label+`x, default: {name: `+none+`}}`)
	_, out, _ = runs(t, "alarm", "test", "-f", misspelt, "--kubeconfig", c.Kubeconfig())
	if want := "note: spec.receiversFrom: no namespace has the label " + label + "x: did you mean " + label + ": all messages go to the default\n"; !strings.Contains(out, want) {
		t.Errorf("%q is missing in:\n%s", want, out)
	}
	add(t, file, "ClusterAlarmReceiver", typo, "log: {}\nchosenBy: {namespaceLabel: "+label+", values: [shpo]}")
	code, out, errOut = runs(t, "alarm", "test", "-f", file, "--kubeconfig", c.Kubeconfig())
	if want := " to ClusterAlarmReceiver " + typo + ":\n    " + typo + "/web-0: BackOff (Pod)\n"; code != command.ExitOK || !strings.Contains(out, want) {
		t.Errorf("with the receiver in the file: exit code %d, %q is missing in:\n%s%s", code, want, out, errOut)
	}
	code, out, errOut = runs(t, "alarm", "send", "-f", file, "--to", none, "--kubeconfig", c.Kubeconfig())
	if code != command.ExitOK || !strings.Contains(errOut, "note: for this Event, spec.receiversFrom chooses ClusterAlarmReceiver ") {
		t.Errorf("exit code %d: %s%s", code, out, errOut)
	}
}
