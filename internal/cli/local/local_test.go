package local_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/cli/local"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

// run is one `bongsu local`, in this process.
type run struct {
	out, progress cluster.Buffer
	cancel        context.CancelFunc
	ended         chan struct{}
	err           error
}

func start(t *testing.T, change func(*local.Config)) *run {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &run{cancel: cancel, ended: make(chan struct{})}
	c := local.Config{
		Nodes: 1, Out: &r.out,
		Progress: func(line string) { _, _ = io.WriteString(&r.progress, line+"\n") },
		OpenLog:  func(string) (logr.Logger, io.Closer, error) { return logr.Discard(), io.NopCloser(nil), nil },
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
	}).WithTimeout(2 * time.Minute).Should(ContainSubstring("ready: "))
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

// kubeconfig is what the line tells.
func (r *run) kubeconfig(t *testing.T) string {
	t.Helper()
	line := strings.TrimSpace(r.out.String())
	path, found := strings.CutPrefix(line, "ready: KUBECONFIG=")
	if !found || !filepath.IsAbs(path) {
		t.Fatalf("output is %q, want only a line ready: KUBECONFIG=<absolute path>", line)
	}
	return path
}

// allowed asks the API server what the owner of a kubeconfig may do.
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

// processes that have something of the directory on their command line.
func processes(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(files) == 0 {
		t.Skip("no /proc to look for processes in")
	}
	var found []string
	for _, file := range files {
		line, _ := os.ReadFile(file) // it may have ended
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if strings.Contains(string(line), dir+"/") && pid != os.Getpid() {
			found = append(found, string(line))
		}
	}
	return found
}

func TestASecondStartFindsTheSameClusterAndNothingIsLeftRunning(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "a")
	r := start(t, func(c *local.Config) { c.Dir = dir })
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

	begin := time.Now()
	g.Expect(r.stop()).To(Succeed())
	t.Logf("stopped in %v", time.Since(begin).Round(time.Millisecond))
	g.Expect(time.Since(begin)).To(BeNumerically("<", time.Minute), "it has 9 s, and the machine may be busy")
	g.Expect(processes(t, dir)).To(BeEmpty())

	again := start(t, func(c *local.Config) { c.Dir, c.NoOperator = dir, true })
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
	g := NewWithT(t)
	parent := t.TempDir()
	a := start(t, func(c *local.Config) { c.Dir, c.NoOperator = filepath.Join(parent, "a"), true })
	b := start(t, func(c *local.Config) { c.Dir, c.NoOperator = filepath.Join(parent, "b"), true })
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

func TestAChildThatCrashesEndsAllAndIsReportedWithItsLog(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	dir := t.TempDir()
	r := start(t, func(c *local.Config) { c.Dir = dir })
	data, err := os.ReadFile(filepath.Join(dir, "run", "etcd.pid"))
	g.Expect(err).NotTo(HaveOccurred())
	pid, err := strconv.Atoi(string(data))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(syscall.Kill(pid, syscall.SIGKILL)).To(Succeed())

	g.Eventually(r.over).WithTimeout(2 * time.Minute).Should(BeTrue())
	child, ok := errors.AsType[*localcluster.ComponentError](r.err)
	g.Expect(ok).To(BeTrue(), "%v", r.err)
	g.Expect(child.Component).To(Equal(localcluster.Etcd))
	g.Expect(r.err.Error()).To(ContainSubstring(filepath.Join(dir, "logs", "etcd.log")))
	g.Expect(processes(t, dir)).To(BeEmpty())
}

// No endpoint is open unless a flag says so: the only ports are the cluster's.
func TestTheOperatorListensNowhereByDefault(t *testing.T) {
	r := start(t, func(c *local.Config) { c.Dir = t.TempDir() })
	defer func() { _ = r.stop() }()
	if ports := listening(t); len(ports) > 0 {
		t.Errorf("this process listens on %v", ports)
	}
}

// listening returns the sockets on which this process listens.
func listening(t *testing.T) []string {
	t.Helper()
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil || len(fds) == 0 {
		t.Skip("no /proc to look for sockets in")
	}
	mine := map[string]bool{}
	for _, fd := range fds {
		if link, err := os.Readlink(fd); err == nil {
			if inode, ok := strings.CutPrefix(link, "socket:["); ok {
				mine[strings.TrimSuffix(inode, "]")] = true
			}
		}
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
