package demo_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/bongsu-io/bongsu/internal/cli/demo"
	"github.com/bongsu-io/bongsu/internal/testing/audit"
	"github.com/bongsu-io/bongsu/internal/testing/binary"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// expected are the messages on the terminal: the object or its owner, the cause or the reason, and the alarm.
var expected = []string{
	`NodeReady: spot-1 joined local  \(local, ClusterAlarm node-joined\)`,
	`m6i.xlarge in local-[abc]: 4 CPUs, 16Gi of memory, 110 pods`,
	`local has \d nodes now`,
	`spot-2: NodeNotReady \(Node\)  \(local, ClusterAlarm node-not-ready\)`,
	`shop/web: Created \(Pod web-\S+\)  \(local, ClusterAlarm container-created\)`,
	`shop/web: Started \(Pod web-\S+\)  \(local, ClusterAlarm container-started\)`,
	`shop/web: Killing \(Pod web-\S+\)  \(local, ClusterAlarm container-killing\)`,
	`shop/web: SuccessfulCreate \(ReplicaSet web-\S+\)  \(local, ClusterAlarm replicaset-create\)`,
	`shop/web: SuccessfulDelete \(ReplicaSet web-\S+\)  \(local, ClusterAlarm replicaset-delete\)`,
	`shop/web: ScalingReplicaSet \(Deployment\)  \(local, ClusterAlarm deployment-scaling\)`,
	`shop/web: SuccessfulRescale \(HorizontalPodAutoscaler\)  \(local, ClusterAlarm autoscaler-rescale\)`,
	`shop/forecast: no node can take the pod.* \(Pod\)  \(local, ClusterAlarm scheduling-failed\)`,
	`shop/payments: container "payments" was killed because .* \(Pod\)  \(local, ClusterAlarm crash\)`,
	`Cause: container "payments" was killed because it used more memory than its limit of 256Mi: `,
	`team-a/report: image ".*" of container "report" cannot be pulled.* \(Pod\)  \(local, ClusterAlarm image-pull\)`,
	`team-a/report: image ".*" of container "report" cannot be pulled.* \(Pod\)  \(local, Alarm team-a/namespace-warnings\)`,
	`shop/web: Updated \(Deployment\)  \(local, ClusterAlarm replicas-changed\)`,
	`replicas: 3 -> 1 \(by \S+\)`,
	`shop/web: Updated \(Deployment\)  \(local, ClusterAlarm image-changed\)`,
	`image of container web: \S+:1\.4 -> \S+:1\.5 \(by \S+\)`,
	`ClusterRoleBinding demo-admins grants cluster-admin  \(local, ClusterAlarm cluster-admin-granted\)`,
	`shop/status: HealthCheckFailed \(AppService\)  \(local, ClusterAlarm appservice-health\)`,
	`Pod status-\S+ is unhealthy: .*no answer`,
	`shop/status: RestartedUnhealthyPod \(AppService\)  \(local, ClusterAlarm appservice-health\)`,
}

// TestDemo runs the whole demo with both commands. It checks that the demo ends with success,
// and the messages on the terminal and in Slack. It then starts the same cluster again. There
// it checks the suggested commands, that the operator's role suffices, and that an idle
// operator sends no requests.
func TestDemo(t *testing.T) {
	cluster.Needed(t)
	assets, err := localcluster.DefaultAssets()
	if err != nil {
		t.Fatal(err)
	}
	slack := sink.New(t)
	bin := t.TempDir()
	binary.Operator(t, bin)
	l := &local{kubectl: filepath.Join(assets, "kubectl"), dir: filepath.Join(t.TempDir(), "cluster"), command: binary.Bongsu(t, bin)}
	l.environment = append(os.Environ(), "BONGSU_ASSETS="+assets, "SLACK_WEBHOOK_URL="+slack.URL())
	t.Cleanup(func() {
		if err := audit.Save(audit.SaveDir(), l.auditLog()); err != nil {
			t.Error(err)
		}
	})

	if err := l.start(t, "--demo", "--exit").wait(); err != nil {
		t.Fatalf("%v\n%s", err, &l.out)
	}
	checkOutput(t, l.out.String())

	again := l.start(t)
	again.awaitReady()
	t.Run("alarms are in Slack", func(t *testing.T) { checkSlack(t, slack) })
	t.Run("the suggested commands work", func(t *testing.T) { checkSuggestions(t, l) })
	t.Run("the role suffices", func(t *testing.T) { checkPermissions(t, l) })
	t.Run("the idle operator is quiet", func(t *testing.T) { checkQuiet(t, l) })
	if err := again.stop(); err != nil {
		t.Errorf("bongsu local: %v", err)
	}
}

// local is a directory in which `bongsu local` runs.
type local struct {
	command, dir, kubectl string
	environment           []string
	out                   cluster.Buffer
}

func (l *local) kubeconfig() string { return filepath.Join(l.dir, "kubeconfig") }

func (l *local) auditLog() string { return filepath.Join(l.dir, "audit.log") }

// run is a run of `bongsu local`.
type run struct {
	l     *local
	t     *testing.T
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // set before ended is closed
}

// start starts `bongsu local`, which stops at the latest when the test ends.
func (l *local) start(t *testing.T, flags ...string) *run {
	t.Helper()
	r := &run{l: l, t: t, ended: make(chan struct{})}
	r.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), l.command, append([]string{"local", "--dir", l.dir}, flags...)...)
	r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr = l.environment, &l.out, &l.out
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.ended)
		r.err = r.cmd.Wait()
	}()
	t.Cleanup(func() { _ = r.stop() })
	return r
}

func (r *run) wait() error {
	<-r.ended
	return r.err
}

func (r *run) stop() error {
	_ = r.cmd.Process.Signal(syscall.SIGTERM) // fails only if it has ended
	return r.wait()
}

// awaitReady waits until the output ends with the line that the cluster is ready.
func (r *run) awaitReady() {
	r.t.Helper()
	ready := "ready: KUBECONFIG=" + r.l.kubeconfig() + "\n"
	NewWithT(r.t).Eventually(func() string {
		select {
		case <-r.ended:
			return fmt.Sprintf("bongsu local ended: %v\n%s", r.err, ready)
		default:
			return r.l.out.String()
		}
	}).Should(And(HaveSuffix(ready), Not(HavePrefix("bongsu local ended"))))
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
	`\bCreated \(?Pod`,
	`\bSuccessfulRescale \(?HorizontalPodAutoscaler`,
	`Back-off restarting|\bBackOff Pod`,
	`no node can take the pod|\bFailedScheduling Pod`,
	`Failed to pull image|\bFailed Pod`,
	`\bNodeNotReady \(?Node`,
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
func checkSuggestions(t *testing.T, l *local) {
	script := demo.Suggest(demo.ShowOptions{Kubectl: l.kubectl, Kubeconfig: l.kubeconfig()})
	script = strings.SplitN(script, "\n\n", 2)[1] // without the first sentence
	cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", script)
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, output)
	}
	NewWithT(t).Eventually(func() string {
		cmd := exec.CommandContext(t.Context(), l.kubectl, "--kubeconfig", l.kubeconfig(), "describe", "clusteralarm", "crash")
		output, _ := cmd.CombinedOutput()
		return string(output)
	}).Should(And(
		MatchRegexp(`Reason: +InvalidExpression`),
		MatchRegexp(`Warning +InvalidExpression .* clusteralarm-controller `),
	))
}

func checkPermissions(t *testing.T, l *local) {
	requests := audit.Requests(t, l.auditLog(), audit.Operator)
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
func checkQuiet(t *testing.T, l *local) {
	const quiet = 20 * time.Second
	for _, namespace := range []string{"shop", "team-a"} {
		remove(t, l, namespace)
	}
	var last time.Time
	NewWithT(t).Eventually(func() time.Duration {
		for _, r := range audit.Requests(t, l.auditLog(), audit.Operator) {
			if r.Verb != "watch" && r.Resource != "leases" && r.Received.After(last) {
				last = r.Received
			}
		}
		return time.Since(last)
	}).WithTimeout(10*time.Minute).WithPolling(time.Second).Should(BeNumerically(">", quiet), "the operator keeps sending requests")
}

func remove(t *testing.T, l *local, namespace string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), l.kubectl, "--kubeconfig", l.kubeconfig(), "delete", "namespace", namespace)
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
}
