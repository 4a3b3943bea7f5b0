package localcluster_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bongsu-io/bongsu/internal/testing/size"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

func TestStoppedClusterLeavesNoProcessAndNoFileOutsideItsDirectory(t *testing.T) {
	g := NewWithT(t)
	root := t.TempDir()
	dir, elsewhere := filepath.Join(root, "cluster"), filepath.Join(root, "elsewhere")
	g.Expect(os.Mkdir(elsewhere, 0o700)).To(Succeed())
	t.Setenv("HOME", elsewhere)
	t.Setenv("TMPDIR", elsewhere)

	c := start(t, localcluster.Config{Dir: dir, Components: localcluster.Everything()})
	processes := processesOf(dir)
	g.Expect(processes).To(HaveLen(5))
	g.Expect(filesOpenIn(processes)).To(HaveEach(HavePrefix(dir)))

	stop(t, c)
	g.Expect(processesOf(dir)).To(BeEmpty())
	g.Expect(filepath.Glob(filepath.Join(elsewhere, "*"))).To(BeEmpty())
	g.Expect(filepath.Glob(filepath.Join(root, "*"))).To(ConsistOf(dir, elsewhere))
	stop(t, c) // a second call does nothing
}

// filesOpenIn returns the regular files that the processes have open. It ignores files
// below /sys, which the Go runtime opens.
func filesOpenIn(pids []int) []string {
	files := []string{}
	for _, pid := range pids {
		links, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
		for _, link := range links {
			file, err := os.Readlink(link)
			info, statErr := os.Stat(file)
			if err == nil && statErr == nil && info.Mode().IsRegular() && !strings.HasPrefix(file, "/sys/") {
				files = append(files, file)
			}
		}
	}
	return files
}

func TestSecondStartContinuesTheClusterAtTheSameAddress(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	dir := t.TempDir()
	first := start(t, localcluster.Config{Dir: dir})
	mark(t, first, "before")
	stop(t, first)

	second := start(t, localcluster.Config{Dir: dir})
	g.Expect(second.RESTConfig().Host).To(Equal(first.RESTConfig().Host))
	g.Expect(marked(t, second, "before")()).To(Succeed())
	stop(t, second)

	// If another process uses the port, the cluster gets a new address.
	address, err := url.Parse(first.RESTConfig().Host)
	g.Expect(err).NotTo(HaveOccurred())
	taken, err := net.Listen("tcp", address.Host)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = taken.Close() }()

	third := start(t, localcluster.Config{Dir: dir})
	g.Expect(third.RESTConfig().Host).NotTo(Equal(first.RESTConfig().Host))
	g.Expect(marked(t, third, "before")()).To(Succeed())
	config, err := clientcmd.BuildConfigFromFlags("", third.Kubeconfig())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(config.Host).To(Equal(third.RESTConfig().Host))
}

func TestTwoClustersRunAtOnceButNotInOneDirectory(t *testing.T) {
	size.NotInTest(t, "it takes a cluster of its own, as four other tests do")
	t.Parallel()
	g := NewWithT(t)
	one := start(t, localcluster.Config{})
	other := start(t, localcluster.Config{})
	mark(t, one, "mine")
	g.Expect(marked(t, one, "mine")()).To(Succeed())
	g.Expect(apierrors.IsNotFound(marked(t, other, "mine")())).To(BeTrue())

	_, err := localcluster.Start(t.Context(), localcluster.Config{Dir: one.Dir()})
	g.Expect(err).To(MatchError(localcluster.ErrInUse))
	g.Expect(err).To(MatchError(ContainSubstring("started by process %d", os.Getpid())))
	g.Expect(marked(t, one, "mine")()).To(Succeed(), "the refused start disturbed the running one")
}

func TestCrashedComponentIsReportedAndCanBeRestarted(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := start(t, localcluster.Config{})
	mark(t, c, "before")

	g.Expect(syscall.Kill(pidOf(t, c.Dir(), localcluster.APIServer), syscall.SIGKILL)).To(Succeed())
	var failure error
	g.Eventually(c.Failed()).Should(Receive(&failure))
	child, ok := errors.AsType[*localcluster.ComponentError](failure)
	g.Expect(ok).To(BeTrue(), "got %v", failure)
	g.Expect(child.Component).To(Equal(localcluster.APIServer))
	g.Expect(child.Status).To(Equal("signal: killed"))
	g.Expect(child.LogTail).NotTo(BeEmpty())
	g.Expect(child.LogFile).To(BeARegularFile())

	g.Expect(c.Restart(t.Context(), localcluster.APIServer)).To(Succeed())
	g.Expect(marked(t, c, "before")()).To(Succeed())

	// Kill is not reported as a failure, and etcd keeps its data.
	g.Expect(c.Kill(localcluster.Etcd)).To(Succeed())
	g.Expect(c.Restart(t.Context(), localcluster.Etcd)).To(Succeed())
	g.Eventually(marked(t, c, "before")).Should(Succeed())
	g.Expect(c.Failed()).NotTo(Receive())
}

func TestClusterOfAKilledParentCanBeStarted(t *testing.T) {
	size.NotInTest(t, "it takes a cluster of its own, as four other tests do")
	t.Parallel()
	g := NewWithT(t)
	dir := t.TempDir()
	parent, out := startParent(t, dir)
	line, _ := bufio.NewReader(out).ReadString('\n')
	g.Expect(strings.TrimSpace(line)).To(Equal("ready"))
	etcd, apiServer := pidOf(t, dir, localcluster.Etcd), pidOf(t, dir, localcluster.APIServer)

	g.Expect(parent.Process.Kill()).To(Succeed())
	_ = parent.Wait()
	c := start(t, localcluster.Config{Dir: dir})
	mark(t, c, "mine")
	g.Expect(processesOf(dir)).To(ConsistOf(
		pidOf(t, dir, localcluster.Etcd), pidOf(t, dir, localcluster.APIServer)))
	g.Expect(processesOf(dir)).NotTo(ContainElements(etcd, apiServer))
}

// etcd does not start again if it was killed in the first milliseconds of its life.
func TestClusterThatIsKilledDuringItsFirstStartCanBeStarted(t *testing.T) {
	size.NotInTest(t, "it takes a cluster of its own, as four other tests do")
	t.Parallel()
	g := NewWithT(t)
	dir := t.TempDir()
	parent, _ := startParent(t, dir)
	g.Eventually(func() ([]string, error) { return filepath.Glob(filepath.Join(dir, "etcd/member/wal/*.wal")) }).
		WithPolling(time.Millisecond).ShouldNot(BeEmpty())
	g.Expect(syscall.Kill(pidOf(t, dir, localcluster.Etcd), syscall.SIGKILL)).To(Succeed())
	g.Expect(parent.Process.Kill()).To(Succeed())
	_ = parent.Wait()
	c := start(t, localcluster.Config{Dir: dir})
	mark(t, c, "mine")
	g.Expect(c.Restart(t.Context(), localcluster.Etcd)).To(Succeed())
	g.Eventually(marked(t, c, "mine")).Should(Succeed(), "the data of a complete start is kept")
}

// startParent starts a process that starts a cluster in a directory, and returns its output.
func startParent(t *testing.T, dir string) (*exec.Cmd, io.Reader) {
	t.Helper()
	needsControlPlane(t)
	g := NewWithT(t)
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentDirEnv+"="+dir)
	parent.Stderr = os.Stderr
	out, err := parent.StdoutPipe()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(parent.Start()).To(Succeed())
	t.Cleanup(func() { _ = parent.Process.Kill() })
	return parent, out
}

func TestNextStartKillsProcessesLeftBehind(t *testing.T) {
	size.NotInTest(t, "it takes a cluster of its own, as four other tests do")
	needsControlPlane(t)
	t.Parallel()
	g := NewWithT(t)
	assets, err := localcluster.DefaultAssets()
	g.Expect(err).NotTo(HaveOccurred())
	dir := t.TempDir()
	g.Expect(os.Mkdir(filepath.Join(dir, "run"), 0o700)).To(Succeed())
	orphan := exec.Command(filepath.Join(assets, "etcd"), "--data-dir="+filepath.Join(dir, "orphan"),
		"--listen-client-urls=http://127.0.0.1:0", "--listen-peer-urls=http://127.0.0.1:0",
		"--advertise-client-urls=http://127.0.0.1:0")
	stranger := exec.Command("sleep", "300")
	for name, cmd := range map[string]*exec.Cmd{"etcd": orphan, "kwok": stranger} {
		g.Expect(cmd.Start()).To(Succeed())
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		pid := strconv.Itoa(cmd.Process.Pid)
		g.Expect(os.WriteFile(filepath.Join(dir, "run", name+".pid"), []byte(pid), 0o600)).To(Succeed())
	}

	start(t, localcluster.Config{Dir: dir})
	defer time.AfterFunc(time.Minute, func() { _ = orphan.Process.Signal(syscall.SIGTERM) }).Stop()
	_ = orphan.Wait()
	g.Expect(orphan.ProcessState.String()).To(Equal("signal: killed"))
	g.Expect(stranger.Process.Signal(syscall.Signal(0))).To(Succeed(), "it ended a process that is not its own")
}

func TestUserHasThePermissionsOfRBAC(t *testing.T) {
	size.NotInTest(t, "it takes a cluster of its own, as four other tests do")
	t.Parallel()
	g := NewWithT(t)
	c := start(t, localcluster.Config{})
	config, err := c.ClientConfigFor("jane", "developers")
	g.Expect(err).NotTo(HaveOccurred())
	_, err = clientFor(t, config).CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
	g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)

	admin := clientFor(t, c.RESTConfig())
	_, err = admin.CoreV1().ServiceAccounts("default").Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	file := filepath.Join(c.Dir(), "robot.kubeconfig")
	g.Expect(c.WriteServiceAccountKubeconfig(t.Context(), "default", "robot", file)).To(Succeed())
	info, err := os.Stat(file)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o600)))
	config, err = clientcmd.BuildConfigFromFlags("", file)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = clientFor(t, config).CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
	g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	g.Expect(err).To(MatchError(ContainSubstring("system:serviceaccount:default:robot")))
	g.Expect(c.AuditLog()).To(BeARegularFile())
}

func TestStoreCanBeCompactedAndRestored(t *testing.T) {
	size.NotInTest(t, "it takes a cluster of its own, as four other tests do")
	t.Parallel()
	g := NewWithT(t)
	c := start(t, localcluster.Config{})
	client := clientFor(t, c.RESTConfig())
	mark(t, c, "before")
	old, err := client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	snapshot := filepath.Join(c.Dir(), "snapshot.db")
	g.Expect(c.SnapshotSave(t.Context(), snapshot)).To(Succeed())
	mark(t, c, "after")
	mark(t, c, "thereafter") // etcd keeps the last revision

	g.Expect(c.Compact(t.Context())).To(Succeed())
	watcher, err := client.CoreV1().Events("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: old.ResourceVersion})
	g.Expect(err).NotTo(HaveOccurred())
	defer watcher.Stop()
	var event watch.Event
	g.Eventually(watcher.ResultChan()).Should(Receive(&event))
	g.Expect(apierrors.IsResourceExpired(apierrors.FromObject(event.Object))).To(BeTrue(), "%v", event)

	g.Expect(c.SnapshotRestore(t.Context(), snapshot)).To(Succeed())
	g.Expect(marked(t, c, "before")()).To(Succeed())
	g.Expect(apierrors.IsNotFound(marked(t, c, "after")())).To(BeTrue())
	g.Expect(c.Failed()).NotTo(Receive())
}
