package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/command"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

const hunter = "hunter2-is-a-secret"

// withSecret creates a namespace with a Secret that contains a header for a webhook.
func withSecret(t *testing.T, c *cluster.Cluster, labels map[string]string) string {
	t.Helper()
	ns := c.Namespace(t, labels)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "hook"}, StringData: map[string]string{"Authorization": hunter}}
	if err := c.Client.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	return ns
}

// accepted returns the only message that a sink has accepted.
func accepted(t *testing.T, s *sink.Sink) message.Message {
	t.Helper()
	requests := s.Accepted()
	if len(requests) != 1 || requests[0].Key == "" {
		t.Fatalf("%d messages", len(requests))
	}
	var m message.Message
	if err := json.Unmarshal(requests[0].Body, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestAlarmSendSendsTheNewestMatchAsATest(t *testing.T) {
	c, to := cluster.Shared(t), sink.New(t)
	ns := withSecret(t, c, nil)
	create(t, c, "ClusterAlarmReceiver", "", ns, "webhook: {url: '"+to.URL()+"', headersSecretRef: {namespace: "+ns+", name: hook}}\nallowedNamespaces: {}")
	happen(t, c, ns, ns, "web-0", 3)
	file := manifest(t, "Alarm", "crashes", `
match: [{reasons: [BackOff]}]
threshold: {count: 100, withinSeconds: 60}
receivers: [{kind: ClusterAlarmReceiver, name: `+ns+`}]`)

	code, out, errOut := runs(t, "alarm", "send", "-f", file, "--to", ns, "--kubeconfig", inContext(t, c, ns))
	if code != command.ExitOK || !strings.Contains(out, "ClusterAlarmReceiver "+ns+` accepted the message "[Test] `+ns+`/web-0: BackOff (Pod)", of the newest Event that matches.`) {
		t.Fatalf("exit code %d: %s%s", code, out, errOut)
	}
	m := accepted(t, to)
	if m.Title != "[Test] "+ns+"/web-0: BackOff (Pod)" || m.Count != 3 || m.Alarm.Name != "crashes-test" {
		t.Errorf("got %+v", m)
	}
	if to.Requests()[0].Header.Get("Authorization") != hunter || strings.Contains(out+errOut, hunter) {
		t.Errorf("the Secret was not used, or printed: %s%s", out, errOut)
	}
}

func TestAlarmSendUsesAnExampleEventIfNoneMatches(t *testing.T) {
	c, to := cluster.Shared(t), sink.New(t)
	ns := c.Namespace(t, nil)
	create(t, c, "ClusterAlarmReceiver", "", ns, "webhook: {url: '"+to.URL()+"'}")
	file := manifest(t, "ClusterAlarm", "nodes", `
match: [{kinds: [Node], reasons: [NoSuchReason], names: ["ip-*"]}]
message: {title: "${object.metadata.name} has ${object.node.capacity['cpu']} CPUs", text: "${object.metadata.labels['zone']}"}
receivers: [{name: `+ns+`}]`)
	code, out, errOut := runs(t, "alarm", "send", "-f", file, "--to", "clusteralarmreceiver/"+ns, "--kubeconfig", c.Kubeconfig())
	if code != command.ExitOK || !strings.Contains(out, "of an example Event, because no Event matches") || !strings.Contains(errOut, "note: an expression fails for the example: spec.message.text") {
		t.Fatalf("exit code %d: %s%s", code, out, errOut)
	}
	if m := accepted(t, to); m.Title != "[Test] ip-example has 4 CPUs" || m.Events[0].Reason != "NoSuchReason" {
		t.Errorf("got %+v", m)
	}
}

func TestAlarmSendHoldsAnAlarmReceiverToPublicAddresses(t *testing.T) {
	c, to := cluster.Shared(t), sink.New(t)
	ns := c.Namespace(t, nil)
	create(t, c, "AlarmReceiver", ns, "literal", "webhook: {url: '"+to.URL()+"'}")
	create(t, c, "AlarmReceiver", ns, "named", "webhook: {url: '"+strings.Replace(to.URL(), "127.0.0.1", "localhost", 1)+"'}")
	file, kubeconfig := manifest(t, "Alarm", "crashes", crashes), inContext(t, c, ns)
	for _, name := range []string{"literal", "AlarmReceiver/named"} {
		code, out, errOut := runs(t, "alarm", "send", "-f", file, "--to", name, "--kubeconfig", kubeconfig)
		if code != command.ExitError || !strings.Contains(errOut, "may not") || out != "" || len(to.Requests()) > 0 {
			t.Errorf("%s: exit code %d: %s%s", name, code, out, errOut)
		}
	}
	code, out, errOut := runs(t, "alarm", "send", "-f", file, "--to", "literal", "--kubeconfig", kubeconfig, "--allowed-receiver-addresses", "127.0.0.0/8")
	if code != command.ExitOK || len(to.Accepted()) != 1 {
		t.Errorf("with the range allowed: exit code %d: %s%s", code, out, errOut)
	}
}

func TestAlarmSendExplainsItsErrors(t *testing.T) {
	c, to := cluster.Shared(t), sink.New(t)
	to.Always(sink.Status(403, hunter))
	ns := withSecret(t, c, map[string]string{"alarms": "ops"})
	create(t, c, "ClusterAlarmReceiver", "", ns, "webhook: {url: '"+to.URL()+"', headersSecretRef: {namespace: "+ns+", name: hook}}\nallowedNamespaces: {matchLabels: {alarms: ops}}")
	create(t, c, "AlarmReceiver", ns, "broken", "webhook: {url: 'https://a.example', headersSecretRef: {name: none}}")
	user := cluster.Kubeconfig(t, c.User(t, "",
		cluster.Rule("events.k8s.io", "events", "list"), cluster.Rule("bongsu.io", "clusteralarmreceivers", "get"), cluster.Rule("", "namespaces", "get")))
	admin, another := inContext(t, c, ns), c.Namespace(t, nil)
	file := manifest(t, "Alarm", "crashes", crashes)
	for name, tc := range map[string]struct {
		args []string
		says string
	}{
		"refused":              {[]string{"--to", "ClusterAlarmReceiver/" + ns, "--kubeconfig", admin}, "ClusterAlarmReceiver " + ns + " did not accept the message: "},
		"an unreadable Secret": {[]string{"--to", "ClusterAlarmReceiver/" + ns, "--kubeconfig", user, "-n", ns}, "you may not read a Secret that ClusterAlarmReceiver " + ns + " names: ask an administrator for permission"},
		"a missing Secret":     {[]string{"--to", "broken", "--kubeconfig", admin}, "AlarmReceiver " + ns + "/broken: Secret " + ns + "/none does not exist"},
		"no receiver":          {[]string{"--to", "none", "--kubeconfig", admin}, "AlarmReceiver " + ns + "/none does not exist: create it, or name another"},
		"an unreadable receiver": {
			[]string{"--to", "AlarmReceiver/broken", "--kubeconfig", user, "-n", ns}, "you may not read AlarmReceiver " + ns + "/broken",
		},
		"a namespace that is not allowed": {
			[]string{"--to", "ClusterAlarmReceiver/" + ns, "--kubeconfig", admin, "-n", another}, "does not allow Alarms of namespace " + another,
		},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errOut := runs(t, append([]string{"alarm", "send", "-f", file}, tc.args...)...)
			if code != command.ExitError || !strings.Contains(errOut, tc.says) || out != "" || strings.Contains(errOut, hunter) {
				t.Errorf("exit code %d: %s%s", code, out, errOut)
			}
		})
	}
}

func TestAlarmSendCompletesReceivers(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t, nil)
	create(t, c, "AlarmReceiver", ns, "mine", "log: {}")
	create(t, c, "ClusterAlarmReceiver", "", ns, "log: {}")
	_, out, _ := runs(t, "__complete", "alarm", "send", "--kubeconfig", c.Kubeconfig(), "-n", ns, "--to", "")
	lines := strings.Fields(out)
	if !slices.Contains(lines, "AlarmReceiver/mine") || !slices.Contains(lines, "ClusterAlarmReceiver/"+ns) {
		t.Errorf("got %q", lines)
	}
	if _, out, _ := runs(t, "__complete", "alarm", "test", "-o", ""); out != "table\njson\nyaml\n:4\n" {
		t.Errorf("got %q", out)
	}
	if _, out, _ := runs(t, "__complete", "alarm", "test", "-f", ""); out != "yaml\nyml\njson\n:8\n" {
		t.Errorf("got %q", out)
	}
}
