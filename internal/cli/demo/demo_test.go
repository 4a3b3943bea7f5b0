package demo_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/bongsu-io/bongsu/internal/cli/demo"
	"github.com/bongsu-io/bongsu/internal/testing/audit"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// expected are the messages on the terminal: the reason, the object and the alarm.
var expected = []string{
	`NodeReady: spot-1 joined test  \(test, ClusterAlarm node-joined\)`,
	`m6i.xlarge in local-[abc]: 4 CPUs, 16Gi of memory, 110 pods`,
	`test has \d nodes now`,
	`NodeNotReady: Node spot-2  \(test, ClusterAlarm node-not-ready\)`,
	`Created: Pod shop/web-\S+  \(test, ClusterAlarm container-created\)`,
	`Started: Pod shop/web-\S+  \(test, ClusterAlarm container-started\)`,
	`Killing: Pod shop/web-\S+  \(test, ClusterAlarm container-killing\)`,
	`SuccessfulCreate: ReplicaSet shop/web-\S+  \(test, ClusterAlarm replicaset-create\)`,
	`SuccessfulDelete: ReplicaSet shop/web-\S+  \(test, ClusterAlarm replicaset-delete\)`,
	`ScalingReplicaSet: Deployment shop/web  \(test, ClusterAlarm deployment-scaling\)`,
	`SuccessfulRescale: HorizontalPodAutoscaler shop/web  \(test, ClusterAlarm autoscaler-rescale\)`,
	`FailedScheduling: Pod shop/forecast  \(test, ClusterAlarm scheduling-failed\)`,
	`BackOff: Pod shop/payments  \(test, ClusterAlarm crash\)`,
	`Cause: container "payments" was killed because it used more memory than its limit of 256Mi: `,
	`BackOff: Pod team-a/report  \(test, ClusterAlarm image-pull\)`,
	`Failed: Pod team-a/report  \(test, Alarm team-a/namespace-warnings\)`,
	`HealthCheckFailed: AppService shop/status  \(test, ClusterAlarm appservice-health\)`,
}

// TestDemo runs the whole demo on a real control plane. It checks the messages on the
// terminal and in Slack, and the suggested commands. It also checks that the operator's
// role suffices, and that an idle operator sends no requests.
func TestDemo(t *testing.T) {
	c := cluster.Start(t, cluster.Whole(1))
	operator := c.StartOperator(t)
	slack := sink.New(t)

	var out cluster.Buffer
	err := demo.Run(t.Context(), c, demo.Config{Out: &out, SlackWebhookURL: slack.URL()})
	if err != nil {
		t.Fatalf("%v\nlog of the operator:\n%s", err, operator.Out)
	}
	t.Run("every alarm is on the terminal", func(t *testing.T) { checkOutput(t, operator.Out.String()) })
	t.Run("alarms are in Slack", func(t *testing.T) { checkSlack(t, slack) })
	t.Run("the suggested commands work", func(t *testing.T) { checkSuggestions(t, c) })
	t.Run("the role suffices", func(t *testing.T) { checkPermissions(t, c) })
	t.Run("the idle operator is quiet", func(t *testing.T) { checkQuiet(t, c) })
}

func checkOutput(t *testing.T, text string) {
	for _, pattern := range expected {
		if !regexp.MustCompile(pattern).MatchString(text) {
			t.Errorf("nothing like %q in:\n%s", pattern, text)
		}
	}
}

// inSlack are the messages that must reach Slack, alone or in a digest. A digest names
// reasons, not alarms. Only namespace-warnings reports the reason Failed.
var inSlack = []string{
	`NodeReady: spot-1|NodeReady Node`,
	`\bCreated:? Pod`,
	`\bSuccessfulRescale:? HorizontalPodAutoscaler`,
	`\bBackOff:? Pod`,
	`\bFailedScheduling:? Pod`,
	`\bFailed:? Pod`,
	`\bNodeNotReady:? Node`,
}

func checkSlack(t *testing.T, slack *sink.Sink) {
	for _, pattern := range inSlack {
		expression := regexp.MustCompile(pattern)
		ok := slack.Wait(time.Minute, func(requests []sink.Request) bool {
			return slices.ContainsFunc(requests, func(r sink.Request) bool { return r.Accepted && expression.Match(r.Body) })
		})
		if !ok {
			t.Errorf("nothing like %q reached Slack", pattern)
		}
	}
}

// checkSuggestions runs the commands that Show prints in a shell.
func checkSuggestions(t *testing.T, c *cluster.Cluster) {
	assets, err := localcluster.DefaultAssets()
	if err != nil {
		t.Fatal(err)
	}
	script := demo.Suggest(demo.ShowOptions{Kubectl: filepath.Join(assets, "kubectl"), Kubeconfig: c.Kubeconfig()})
	script = strings.SplitN(script, "\n\n", 2)[1] // without the first sentence
	cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", script)
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, output)
	}
	NewWithT(t).Eventually(func() string {
		cmd := exec.CommandContext(t.Context(), filepath.Join(assets, "kubectl"), "--kubeconfig", c.Kubeconfig(), "describe", "clusteralarm", "crash")
		output, _ := cmd.CombinedOutput()
		return string(output)
	}).Should(And(
		MatchRegexp(`Reason: +InvalidExpression`),
		MatchRegexp(`Warning +InvalidExpression .* clusteralarm-controller `),
	))
}

func checkPermissions(t *testing.T, c *cluster.Cluster) {
	requests := audit.Requests(t, c.AuditLog(), audit.Operator)
	if len(requests) == 0 {
		t.Error("the audit log holds no request of the operator")
	}
	for _, r := range requests {
		if r.Forbidden {
			t.Errorf("forbidden: %v", r)
		}
	}
}

// checkQuiet removes the failing objects, and waits for a period in which the audit log
// contains only watches and leases of the operator.
func checkQuiet(t *testing.T, c *cluster.Cluster) {
	const quiet = 20 * time.Second
	for _, namespace := range []string{"shop", "team-a"} {
		remove(t, c, namespace)
	}
	var last time.Time
	NewWithT(t).Eventually(func() time.Duration {
		for _, r := range audit.Requests(t, c.AuditLog(), audit.Operator) {
			if r.Verb != "watch" && r.Resource != "leases" && r.Received.After(last) {
				last = r.Received
			}
		}
		return time.Since(last)
	}).WithTimeout(2*time.Minute).WithPolling(time.Second).Should(BeNumerically(">", quiet), "the operator keeps sending requests")
}

func remove(t *testing.T, c *cluster.Cluster, namespace string) {
	t.Helper()
	assets, err := localcluster.DefaultAssets()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(assets, "kubectl"), "--kubeconfig", c.Kubeconfig(), "delete", "namespace", namespace)
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
}
