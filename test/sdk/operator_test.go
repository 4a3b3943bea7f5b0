package sdk

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

// operator is the operator of the docs, with its own role, on a control plane.
type operator struct {
	*workshop
	cluster    *localcluster.Cluster
	kubeconfig string
	process    *exec.Cmd
	log        bytes.Buffer
}

func newOperator(t *testing.T) *operator {
	t.Helper()
	o := &operator{workshop: newWorkshop(t)}
	cluster, err := localcluster.Start(t.Context(), localcluster.Config{
		Dir: t.TempDir(), Assets: filepath.Join(o.checkout, "bin", "k8s"), Components: localcluster.Everything(), Nodes: 1, UnsafeNoFsync: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop(context.Background()) })
	o.cluster, o.kubeconfig = cluster, filepath.Join(cluster.Dir(), "operator.kubeconfig")
	o.scaffold()
	o.env = append(o.env, "KUBECONFIG="+cluster.Kubeconfig(), "PATH="+filepath.Join(o.checkout, "bin", "k8s")+":"+lastPath(o.env))
	o.run(`go build -o bin/manager ./cmd
		kubectl apply -f config/crd/bases -f config/rbac/role.yaml
		kubectl create serviceaccount operator
		kubectl create clusterrolebinding operator --clusterrole=manager-role --serviceaccount=default:operator
		kubectl create clusterrole developer --verb=get,list --resource=memcacheds.cache.example.com,events,events.events.k8s.io
		kubectl create clusterrolebinding developer --clusterrole=developer --user=developer
		kubectl wait --for=condition=Established crd --all`)
	if err := cluster.WriteServiceAccountKubeconfig(t.Context(), "default", "operator", o.kubeconfig); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		o.kill()
		if t.Failed() {
			t.Log(o.log.String())
		}
	})
	o.start()
	return o
}

func lastPath(env []string) (path string) {
	for _, e := range env {
		if value, ok := strings.CutPrefix(e, "PATH="); ok {
			path = value
		}
	}
	return path
}

func (o *operator) start() {
	o.t.Helper()
	o.process = exec.Command(filepath.Join(o.dir, "bin", "manager"), "--kubeconfig", o.kubeconfig, "--health-probe-bind-address=0")
	o.process.Stdout, o.process.Stderr = &o.log, &o.log
	if err := localcluster.StartChild(o.process); err != nil {
		o.t.Fatal(err)
	}
}

func (o *operator) kill() {
	_ = o.process.Process.Kill()
	_ = o.process.Wait()
}

// create returns the script that creates a Memcached with a number of pods.
func create(namespace, name string, size int) string {
	return fmt.Sprintf(`kubectl apply -f - <<END
apiVersion: cache.example.com/v1alpha1
kind: Memcached
metadata: {namespace: %s, name: %s}
spec: {size: %d}
END`, namespace, name, size)
}

func (o *operator) wait(namespace, name, event string) {
	o.t.Helper()
	o.run("kubectl wait --timeout=1m -n " + namespace + " --for=" + event + " memcached/" + name)
}

// describe returns what a user sees who can read the kind and Events alone.
func (o *operator) describe(name string) string {
	o.t.Helper()
	return o.run("kubectl --as=developer describe memcached " + name)
}

// warnings returns the names of the Warning Events of objects.
func (o *operator) warnings(names ...string) (events []string) {
	o.t.Helper()
	for _, name := range names {
		events = append(events, strings.Fields(o.run("kubectl get events -o name --field-selector type=Warning,involvedObject.kind=Memcached,involvedObject.name="+name))...)
	}
	slices.Sort(events)
	return events
}

func TestTheOperatorReportsFiveFailuresAndRepeatsNothingIfItIsKilled(t *testing.T) {
	o, g := newOperator(t), NewWithT(t)
	g.SetDefaultEventuallyTimeout(time.Minute)
	g.SetDefaultEventuallyPollingInterval(time.Second)

	failures := []struct{ name, breakIt, reason string }{
		{"taken", "kubectl create deployment taken --image=other\n" + create("default", "taken", 1), "ResourceConflict"},
		{"cordoned", "kubectl cordon node-0; kubectl scale memcached cordoned --replicas=2", "FailedScheduling"},
		{"crash", "kubectl annotate pod -l app.kubernetes.io/instance=crash bongsu-local/simulate=crash", "CrashLoopBackOff"},
		{"oom", "kubectl annotate pod -l app.kubernetes.io/instance=oom bongsu-local/simulate=oom", "OOMKilled"},
		{"quota", "kubectl create quota none --hard=pods=0; kubectl scale memcached quota --replicas=2", "QuotaExceeded"},
	}
	for _, f := range failures[1:] {
		o.run(create("default", f.name, 1))
	}
	for _, f := range failures[1:] {
		o.wait("default", f.name, "condition=Ready")
	}
	for _, f := range failures {
		o.run(f.breakIt)
		g.Eventually(func() string { return o.describe(f.name) }).Should(And(
			MatchRegexp(`Reason: +`+f.reason+`\n +Status: +False\n +Type: +Ready`), MatchRegexp(`Warning +`+f.reason+` `)), f.name)
	}
	before := o.warnings("quota", "taken") // whose causes do not change

	// A backup is a Job, whose pod needs a node. The quota is not that of this namespace.
	o.run("kubectl uncordon node-0 && kubectl create namespace backups")
	const kills = 10
	for i := range kills {
		name := fmt.Sprintf("deleted-%d", i)
		o.run(create("backups", name, 0))
		o.wait("backups", name, "condition=Ready")
		o.run("kubectl delete --wait=false -n backups memcached " + name)
		time.Sleep(time.Duration(i) * 50 * time.Millisecond) // to kill it at different moments of the backup
		o.kill()
		o.start()
	}
	for i := range kills {
		o.wait("backups", fmt.Sprintf("deleted-%d", i), "delete")
	}
	jobs := o.run(`kubectl get jobs -n backups -o jsonpath='{range .items[*]}{.metadata.labels.app\.kubernetes\.io/instance} {.status.succeeded}{"\n"}{end}' | sort`)
	for i := range kills {
		if n := strings.Count(jobs, fmt.Sprintf("deleted-%d 1\n", i)); n != 1 {
			t.Errorf("deleted-%d has %d backups:\n%s", i, n, jobs)
		}
	}
	if after := o.warnings("quota", "taken"); !slices.Equal(before, after) || len(after) != 2 {
		t.Errorf("there were the Events %v, and after %d restarts there are %v", before, kills, after)
	}
	if crashes := o.warnings("crash"); len(crashes) != 1 {
		t.Errorf("a crash loop is more than one Event: %v", crashes)
	}
	o.failABackup(g)
}

// failABackup lets the Job of a backup fail. Another one makes the backup.
func (o *operator) failABackup(g *WithT) {
	o.run("kubectl cordon node-0\n" + create("backups", "failed", 0))
	o.wait("backups", "failed", "condition=Ready")
	o.run("kubectl delete --wait=false -n backups memcached failed")
	describe := func() string { return o.run("kubectl --as=developer describe -n backups memcached failed") }
	job := func(output string) string {
		return o.run("kubectl get jobs -n backups -l app.kubernetes.io/instance=failed -o " + output)
	}
	g.Eventually(describe).Should(MatchRegexp(`Warning +BackupPending .*the deletion waits: Job backup-`))
	const uidAndSuccess = "jsonpath='{range .items[*]}{.metadata.uid} {.status.succeeded}{end}'"
	first := job(uidAndSuccess)
	o.run("kubectl patch -n backups " + strings.TrimSpace(job("name")) + ` --patch '{"spec": {"activeDeadlineSeconds": 1}}'`)
	g.Eventually(describe).Should(MatchRegexp(`Warning +BackupFailed .*the deletion waits for another attempt: .*longer than specified deadline`))
	o.run("kubectl uncordon node-0")
	o.wait("backups", "failed", "delete")
	g.Expect(job(uidAndSuccess)).To(And(HaveSuffix(" 1"), Not(HavePrefix(strings.TrimSpace(first)))), "one Job, which is another one")
}

func TestRunStartsTheOperatorOnAControlPlane(t *testing.T) {
	w := newWorkshop(t)
	w.scaffold()
	w.env = append(w.env, "PATH="+filepath.Join(w.checkout, "bin", "k8s")+":"+lastPath(w.env), "KUBECONFIG="+filepath.Join(w.dir, "bin", "local", "kubeconfig"))
	taken, err := net.Listen("tcp", ":8081") // the default port of kubebuilder, as another operator uses it
	if err == nil {
		t.Cleanup(func() { _ = taken.Close() })
	}
	w.run(`bongsu-sdk run >run.log 2>&1 &
		trap 'kill -INT $!; wait $! || { cat run.log; exit 1; }' EXIT
		for second in $(seq 60); do
			grep -q "Starting workers" run.log && break
			sleep 1
		done
		kubectl apply -k config/samples
		kubectl wait --for=condition=Ready --timeout=1m memcached/memcached-sample
		kubectl wait --for=jsonpath='{.status.pods[0].message}'="the pod is simulated: it runs no commands" --timeout=1m memcached/memcached-sample`)
}
