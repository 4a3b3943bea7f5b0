package local_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/cli/check"
	"github.com/bongsu-io/bongsu/internal/cli/local"
	"github.com/bongsu-io/bongsu/internal/cli/preflight"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/testing/binary"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/size"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

// dirEnv makes the test binary run a cluster in this directory, with the operator of
// operatorEnv.
const dirEnv, operatorEnv = "BONGSU_LOCAL_DIR", "BONGSU_LOCAL_OPERATOR"

// patience is how long tests wait for what must happen. How long it takes depends on the
// machine, so only the time limit of the package is shorter.
const patience = time.Hour

// binaries is a directory for bongsu-operator.
var binaries string

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	if dir := os.Getenv(dirEnv); dir != "" {
		err := local.Run(context.Background(), local.Config{
			Dir: dir, Operator: os.Getenv(operatorEnv), Out: os.Stdout, Progress: func(string) {},
		})
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "bongsu-")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binaries = dir
	return m.Run()
}

var build sync.Once

// operatorBinary returns the path of bongsu-operator.
func operatorBinary(t *testing.T) string {
	t.Helper()
	build.Do(func() { binary.Operator(t, binaries) })
	return filepath.Join(binaries, "bongsu-operator")
}

// run is `bongsu local` in this process.
type run struct {
	out, progress cluster.Buffer
	cancel        context.CancelFunc
	ended         chan struct{}
	err           error
}

func start(t *testing.T, change func(*local.Config)) *run {
	t.Helper()
	cluster.Needed(t)
	ctx, cancel := context.WithCancel(context.Background())
	r := &run{cancel: cancel, ended: make(chan struct{})}
	c := local.Config{
		Nodes: 1, Out: &r.out,
		Progress: func(line string) { _, _ = io.WriteString(&r.progress, line+"\n") },
	}
	change(&c)
	go func() {
		defer close(r.ended)
		r.err = local.Run(ctx, c)
	}()
	t.Cleanup(func() { _ = r.stop() })
	NewWithT(t).Eventually(func() string {
		if r.over() {
			return "ended: ready: "
		}
		return r.out.String()
	}).WithTimeout(patience).Should(ContainSubstring("ready: "))
	return r
}

func (r *run) over() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

func (r *run) stop() error {
	r.cancel()
	<-r.ended
	return r.err
}

// kubeconfig returns the path in the output.
func (r *run) kubeconfig(t *testing.T) string {
	t.Helper()
	line := strings.TrimSpace(r.out.String())
	path, found := strings.CutPrefix(line, "ready: KUBECONFIG=")
	if !found || !filepath.IsAbs(path) {
		t.Fatalf("output is %q, want only a line ready: KUBECONFIG=<absolute path>", line)
	}
	return path
}

// allowed asks the API server whether the user of a kubeconfig has a permission.
func allowed(t *testing.T, kubeconfig, verb, group, resource string) bool {
	t.Helper()
	config, err := kube.Config(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.ClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource},
	}}
	if err := c.Create(t.Context(), review); err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

// processes returns the command lines of other processes, by ID, that name a file in the
// directory.
func processes(t *testing.T, dir string) map[int]string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(files) == 0 {
		t.Skip("this system has no /proc")
	}
	found := map[int]string{}
	for _, file := range files {
		line, _ := os.ReadFile(file) // the process may have ended
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if strings.Contains(string(line), dir+"/") && pid != os.Getpid() {
			found[pid] = string(line)
		}
	}
	return found
}

// operatorProcess returns the process ID of the operator.
func operatorProcess(t *testing.T, dir string) int {
	t.Helper()
	for pid, line := range processes(t, dir) {
		if strings.HasPrefix(line, filepath.Join(binaries, "bongsu-operator")) {
			return pid
		}
	}
	t.Fatal("no operator runs")
	return 0
}

func TestASecondStartFindsTheSameClusterAndNothingIsLeftRunning(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "a")
	r := start(t, func(c *local.Config) { c.Dir, c.Operator = dir, operatorBinary(t) })
	kubeconfig := r.kubeconfig(t)
	g.Expect(kubeconfig).To(Equal(filepath.Join(dir, "kubeconfig")))
	g.Expect(allowed(t, kubeconfig, "delete", "", "nodes")).To(BeTrue(), "the administrator's")
	operator := filepath.Join(dir, "operator.kubeconfig")
	g.Expect(allowed(t, operator, "list", "events.k8s.io", "events")).To(BeTrue())
	g.Expect(allowed(t, operator, "delete", "", "nodes")).To(BeFalse(), "the operator is no administrator")

	config, err := kube.Config(kubeconfig)
	g.Expect(err).NotTo(HaveOccurred())
	c, err := cluster.ClientFor(config)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "mine"}})).To(Succeed())

	checker, err := check.New(config, clock.RealClock{}, "bongsu-system")
	g.Expect(err).NotTo(HaveOccurred())
	results, err := checker.Run(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	for _, result := range results {
		g.Expect(result.Level).To(Equal(preflight.OK), "%+v", result)
	}

	g.Expect(r.stop()).To(Succeed())
	g.Expect(processes(t, dir)).To(BeEmpty())

	again := start(t, func(c *local.Config) { c.Dir = dir })
	config, err = kube.Config(again.kubeconfig(t))
	g.Expect(err).NotTo(HaveOccurred())
	c, err = cluster.ClientFor(config)
	g.Expect(err).NotTo(HaveOccurred())
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}
	g.Expect(c.Get(t.Context(), client.ObjectKeyFromObject(ns), ns)).To(Succeed())
	g.Expect(again.stop()).To(Succeed())
}

func TestWithoutTheOperatorAllIsInstalledAndASecondClusterRunsBeside(t *testing.T) {
	t.Parallel()
	size.NotInTest(t, "it takes two whole clusters, and the locks of pkg/localcluster have tests of their own")
	g := NewWithT(t)
	parent := t.TempDir()
	a := start(t, func(c *local.Config) { c.Dir = filepath.Join(parent, "a") })
	b := start(t, func(c *local.Config) { c.Dir = filepath.Join(parent, "b") })
	for _, r := range []*run{a, b} {
		config, err := kube.Config(r.kubeconfig(t))
		g.Expect(err).NotTo(HaveOccurred())
		c, err := cluster.ClientFor(config)
		g.Expect(err).NotTo(HaveOccurred())
		wrong := cluster.Manifest(t, "ClusterAlarm", "", "wrong", "match: []\nreceivers: [{name: ops}]")
		g.Expect(c.Create(t.Context(), wrong)).To(MatchError(ContainSubstring("spec.match: Invalid value")))
		g.Expect(filepath.Join(filepath.Dir(r.kubeconfig(t)), "operator.kubeconfig")).To(BeAnExistingFile())
		g.Expect(filepath.Join(filepath.Dir(r.kubeconfig(t)), "data")).NotTo(BeAnExistingFile(), "the operator's data")
	}
	_, err := os.Stat(filepath.Join(parent, "a", "kubeconfig"))
	g.Expect(err).NotTo(HaveOccurred())
	err = local.Run(t.Context(), local.Config{Dir: filepath.Join(parent, "a"), Out: io.Discard, Progress: func(string) {}})
	g.Expect(err).To(MatchError(localcluster.ErrInUse))
}

func TestACrashOfAComponentStopsEverythingAndIsReported(t *testing.T) {
	t.Parallel()
	size.NotInTest(t, "it takes a whole cluster, and TestCrashedComponentIsReportedAndCanBeRestarted of pkg/localcluster checks the report")
	g := NewWithT(t)
	dir := t.TempDir()
	r := start(t, func(c *local.Config) { c.Dir, c.Operator = dir, operatorBinary(t) })
	data, err := os.ReadFile(filepath.Join(dir, "run", "etcd.pid"))
	g.Expect(err).NotTo(HaveOccurred())
	pid, err := strconv.Atoi(string(data))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(syscall.Kill(pid, syscall.SIGKILL)).To(Succeed())

	g.Eventually(r.over).WithTimeout(patience).Should(BeTrue())
	child, ok := errors.AsType[*localcluster.ComponentError](r.err)
	g.Expect(ok).To(BeTrue(), "%v", r.err)
	g.Expect(child.Component).To(Equal(localcluster.Etcd))
	g.Expect(r.err.Error()).To(ContainSubstring(filepath.Join(dir, "logs", "etcd.log")))
	g.Expect(processes(t, dir)).To(BeEmpty())
}

func TestTheEndOfTheOperatorStopsEverythingAndIsReported(t *testing.T) {
	t.Parallel()
	size.NotInTest(t, "it takes a whole cluster for an operator that is killed, which no change of alarms or controllers affects")
	g := NewWithT(t)
	dir := t.TempDir()
	r := start(t, func(c *local.Config) { c.Dir, c.Operator = dir, operatorBinary(t) })
	g.Expect(syscall.Kill(operatorProcess(t, dir), syscall.SIGKILL)).To(Succeed())
	g.Eventually(r.over).WithTimeout(patience).Should(BeTrue())
	g.Expect(r.err).To(MatchError(And(
		HavePrefix("the operator ended unexpectedly (signal: killed); last lines of its log "+filepath.Join(dir, "logs", "operator.log")),
		ContainSubstring(`"msg"`))))
	g.Expect(processes(t, dir)).To(BeEmpty())
}

func TestAnOperatorThatCannotStartIsReportedWithItsError(t *testing.T) {
	t.Parallel()
	size.NotInTest(t, "it takes a whole cluster for an operator that ends at once")
	g := NewWithT(t)
	dir := t.TempDir()
	r := start(t, func(c *local.Config) {
		c.Dir, c.Operator, c.LogArgs = dir, operatorBinary(t), []string{"--log-format=xml"}
	})
	g.Expect(r.stop()).To(MatchError(And(
		HavePrefix("the operator ended unexpectedly (exit status 2)"), ContainSubstring(`--log-format is "xml"`))))
	g.Expect(r.out.String()).NotTo(ContainSubstring("ready"))
}

func TestTheOperatorEndsWithAProcessThatIsKilled(t *testing.T) {
	t.Parallel()
	size.NotInTest(t, "it takes a whole cluster for a command that is killed")
	cluster.Needed(t)
	g := NewWithT(t)
	dir := t.TempDir()
	self, err := os.Executable()
	g.Expect(err).NotTo(HaveOccurred())
	var out cluster.Buffer
	parent := exec.Command(self)
	parent.Env = append(os.Environ(), dirEnv+"="+dir, operatorEnv+"="+operatorBinary(t))
	parent.Stdout = &out
	g.Expect(parent.Start()).To(Succeed())
	g.Eventually(out.String).WithTimeout(patience).Should(ContainSubstring("ready: "))
	operatorProcess(t, dir) // it runs
	g.Expect(parent.Process.Kill()).To(Succeed())
	_ = parent.Wait() // it was killed
	g.Eventually(func() map[int]string { return processes(t, dir) }).WithTimeout(patience).Should(BeEmpty())
}

func TestFindOperatorLooksInThePathAndSaysWhatToDo(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if _, err := local.FindOperator(); err == nil || err.Error() !=
		"bongsu-operator not found beside bongsu or in $PATH: install both from one build (make build), or pass --no-operator" {
		t.Errorf("got %v", err)
	}
	want := filepath.Join(dir, "bongsu-operator")
	if err := os.WriteFile(want, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := local.FindOperator(); got != want || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// Endpoints are open only if a flag says so. The only ports are those of the cluster.
func TestTheOperatorDoesNotListen(t *testing.T) {
	size.NotInTest(t, "it takes a whole cluster, and the options of the operator have tests of their own")
	t.Parallel()
	dir := t.TempDir()
	start(t, func(c *local.Config) { c.Dir, c.Operator = dir, operatorBinary(t) })
	if addresses := listening(t, operatorProcess(t, dir)); len(addresses) > 0 {
		t.Errorf("the operator listens on %v", addresses)
	}
}

// listening returns the addresses on which a process listens.
func listening(t *testing.T, pid int) []string {
	t.Helper()
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(fds) == 0 {
		t.Fatalf("no file descriptors of process %d: %v", pid, err)
	}
	mine := map[string]bool{}
	for _, fd := range fds {
		if link, err := os.Readlink(fd); err == nil {
			if inode, ok := strings.CutPrefix(link, "socket:["); ok {
				mine[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	if len(mine) == 0 {
		t.Fatal("the operator has no sockets, although it uses the API server")
	}
	const stateListen, columnAddress, columnState, columnInode = "0A", 1, 3, 9
	var found []string
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		data, _ := os.ReadFile(table) // no IPv6, no file
		for line := range strings.Lines(string(data)) {
			f := strings.Fields(line)
			if len(f) > columnInode && f[columnState] == stateListen && mine[f[columnInode]] {
				found = append(found, f[columnAddress])
			}
		}
	}
	return found
}
