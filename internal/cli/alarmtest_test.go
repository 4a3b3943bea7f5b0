package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/dryrun"
	"github.com/bongsu-io/bongsu/internal/command"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

// manifest writes an alarm to a file, and returns its path.
func manifest(t *testing.T, kind, name, spec string) string {
	t.Helper()
	text := "apiVersion: bongsu.io/v1alpha1\nkind: " + kind + "\nmetadata: {name: " + name + "}\nspec:\n  " +
		strings.ReplaceAll(strings.TrimSpace(spec), "\n", "\n  ") + "\n"
	path := filepath.Join(t.TempDir(), "alarm.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
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
		"Alarm " + ns + "/crashes: of 2 Events since 20", "2 match, in 1 message\n",
		"Pod " + ns + "/web-0  3      regarding.name=web-0  message 1\n",
		"Pod " + ns + "/web-1  1      regarding.name=web-1  held back by threshold\n",
		" to ClusterAlarmReceiver/" + ns + ":\n    web-0 crashes\n    Back-off of web-0\n",
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
	for _, want := range []string{"note: you may not create it: ", "note: you may not read nodes: ", "note: you may not read pods: "} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
	code, out, errOut = runs(t, "alarm", "test", "-f", manifest(t, "ClusterAlarm", "crashes", crashes), "--kubeconfig", user, "-n", own)
	if code != command.ExitError || !strings.Contains(errOut, "you may not list the Events of all namespaces, which a ClusterAlarm sees: ") || out != "" {
		t.Errorf("of a ClusterAlarm: exit code %d: %s%s", code, out, errOut)
	}

	code, out, _ = runs(t, "alarm", "test", "-f", manifest(t, "ClusterAlarm", "crashes", crashes), "--kubeconfig", c.Kubeconfig())
	if code != command.ExitOK || !strings.Contains(out, "Pod "+own+"/mine") || !strings.Contains(out, "Pod "+another+"/theirs") {
		t.Errorf("of a ClusterAlarm, as an administrator: exit code %d: %s", code, out)
	}
}

func TestAlarmTestPrintsJSONAndYAML(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t, nil)
	happen(t, c, ns, ns, "web-0", 2)
	for format, unmarshal := range map[string]func([]byte, any) error{
		"json": json.Unmarshal,
		"yaml": func(data []byte, into any) error { return yaml.UnmarshalStrict(data, into) },
	} {
		var report dryrun.Report
		code, out, errOut := runs(t, "alarm", "test", "-f", manifest(t, "Alarm", "crashes", crashes), "-n", ns, "--kubeconfig", c.Kubeconfig(), "-o", format)
		if err := unmarshal([]byte(out), &report); err != nil || code != command.ExitOK || len(report.Alarms) != 1 || len(report.Alarms[0].Matches) != 1 {
			t.Fatalf("%s: exit code %d: %s%s, %v", format, code, out, errOut, err)
		}
		a := report.Alarms[0]
		match, message := a.Matches[0], a.Messages[0]
		if a.Events != 1 || match.Outcome != dryrun.OutcomeSent || match.Count != 2 || match.Message != 1 ||
			message.Number != 1 || message.Message.Title != "BackOff: Pod "+ns+"/web-0" || message.Message.Count != 2 {
			t.Errorf("%s: got %s", format, out)
		}
	}
	if _, out, _ := runs(t, "alarm", "test", "-f", manifest(t, "Alarm", "none", strings.Replace(crashes, "BackOff", "Other", 1)), "-n", ns, "--kubeconfig", c.Kubeconfig()); !strings.Contains(out, "of 1 Event since") || !strings.Contains(out, "none matches") {
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
	root := New()
	root.SetIn(strings.NewReader(string(text)))
	root.SetOut(&out)
	root.SetArgs([]string{"alarm", "test", "-f", "-", "--kubeconfig", inContext(t, c, c.Namespace(t, nil))})
	if err := root.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), "note: spec.suspend is true") {
		t.Errorf("%v: %s", err, &out)
	}
}

func TestAlarmTestExplainsInvalidAlarms(t *testing.T) {
	c := cluster.Shared(t)
	inside := inContext(t, c, c.Namespace(t, nil))
	for name, tc := range map[string]struct{ spec, kubeconfig, says string }{
		"an expression, without a cluster": {
			"match: [{expression: evnt.count > 1}]\nreceivers: [{name: ops}]", "none",
			"spec.match[0].expression is invalid at column 1: undeclared reference to 'evnt'\n    evnt.count > 1\n    ^\n",
		},
		"a field, without a cluster":  {strings.Replace(crashes, "match", "macth", 1), "none", `unknown field "spec.macth"`},
		"a window, without a cluster": {crashes + "\nmute: [{timeZone: Mars/Olympus}]", "none", "spec.mute[0].timeZone is invalid"},
		"a violation that only the API server finds": {
			strings.Replace(crashes, "reasons: [BackOff]", "kinds: [pod]", 1), inside, "the API server refuses it: ",
		},
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
		"no duration":         {[]string{"test", "-f", good, "--since", "0s"}, command.ExitUsage, "--since is 0s"},
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
