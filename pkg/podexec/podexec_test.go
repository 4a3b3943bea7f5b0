package podexec_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"

	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
	"github.com/bongsu-io/bongsu/pkg/podexec"
)

// tools is a directory of all that commands in pods find.
var tools string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "bongsu-tools-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	tools = dir
	for _, from := range filepath.SplitList(os.Getenv("PATH")) {
		files, _ := filepath.Glob(filepath.Join(from, "*"))
		for _, file := range files {
			_ = os.Symlink(file, filepath.Join(dir, filepath.Base(file))) // the first one counts
		}
	}
	return cluster.Main(m, cluster.Exec(dir))
}

// Commands of the tests, and how long they may take: longer than any test.
const long = time.Hour

func shell(script string) []string { return []string{"sh", "-c", script} }

// world is a pod to run commands in, and who runs them.
type world struct {
	*cluster.Cluster
	*podexec.Runner
	target podexec.Target
}

func newWorld(t *testing.T) *world {
	t.Helper()
	c := cluster.Shared(t)
	pod := c.ExecPod(t, c.Namespace(t, nil), "it", "app")
	return &world{
		Cluster: c, Runner: runnerFor(t, c.RESTConfig()),
		target: podexec.Target{Namespace: pod.Namespace, Pod: pod.Name, Container: "app", UID: pod.UID},
	}
}

func runnerFor(t *testing.T, config *rest.Config) *podexec.Runner {
	t.Helper()
	r, err := podexec.New(config)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return r
}

func TestRun(t *testing.T) {
	for name, tc := range map[string]struct {
		command []string
		limit   time.Duration
		want    podexec.Result
		err     error
	}{
		"a command that ends well":   {command: shell("echo err >&2"), limit: long, want: podexec.Result{Output: "err\n"}},
		"another exit code":          {command: shell("echo out; exit 3"), limit: long, want: podexec.Result{Output: "out\n", ExitCode: 3}},
		"no such program":            {command: []string{"/nonexistent"}, limit: long, want: podexec.Result{ExitCode: 127}},
		"exit code 126 is one":       {command: shell("exit 126"), limit: long, want: podexec.Result{ExitCode: 126}},
		"a command that hangs":       {command: shell("echo begun; sleep 60"), limit: time.Second, want: podexec.Result{Output: "begun\n"}, err: podexec.ErrDeadline},
		"a daemon is not waited for": {command: shell("sleep 20 & echo started"), limit: long, want: podexec.Result{Output: "started\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, w := NewWithT(t), newWorld(t)
			begun := time.Now()
			got, err := w.Run(t.Context(), w.target, tc.command, tc.limit)
			if tc.err == nil {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(tc.err))
			}
			if tc.want.ExitCode != 127 { // a shell's own words
				g.Expect(got).To(Equal(tc.want))
			}
			g.Expect(got.ExitCode).To(Equal(tc.want.ExitCode))
			g.Expect(time.Since(begun)).To(BeNumerically("<", 15*time.Second))
		})
	}
}

func TestRunIsRefused(t *testing.T) {
	g, w := NewWithT(t), newWorld(t)
	pods := cluster.Rule("", "pods", "get")
	mayNot := runnerFor(t, w.User(t, w.target.Namespace, pods))
	mayCreate := runnerFor(t, w.User(t, w.target.Namespace, cluster.Rule("", "pods/exec", "create")))
	may := runnerFor(t, w.User(t, w.target.Namespace, rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"pods/exec"}, Verbs: []string{"create", "get"},
	}))
	noPod, noContainer := w.target, w.target
	noPod.Pod, noContainer.Container = "other", "other"
	for name, tc := range map[string]struct {
		runner *podexec.Runner
		target podexec.Target
		want   error
	}{
		"allowed": {runner: may, target: w.target},
		"without the right to get, by WebSocket, it is done by SPDY": {runner: mayCreate, target: w.target},
		"forbidden":         {runner: mayNot, target: w.target, want: podexec.ErrForbidden},
		"no such pod":       {runner: w.Runner, target: noPod, want: podexec.ErrNoContainer},
		"no such container": {runner: w.Runner, target: noContainer, want: podexec.ErrNoContainer},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tc.runner.Run(t.Context(), tc.target, []string{"true", "hunter2"}, long)
			if tc.want == nil {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
				return
			}
			NewWithT(t).Expect(err).To(MatchError(tc.want))
			NewWithT(t).Expect(err.Error()).NotTo(ContainSubstring("hunter2"))
		})
	}
	g.Expect(w.Client.Get(t.Context(), keyOf(w.target), podOf(w.target))).To(Succeed())
}

func TestOutputIsBoundedAndCounted(t *testing.T) {
	g, w := NewWithT(t), newWorld(t)
	const size = 100 << 20
	most := heapWhile(func() {
		got, err := w.Run(t.Context(), w.target, shell(fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x", size)), long)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(got.Output).To(Equal(strings.Repeat("x", podexec.MaxOutput)))
		g.Expect(got.Dropped).To(BeEquivalentTo(size - podexec.MaxOutput))
	})
	g.Expect(most).To(BeNumerically("<", 32<<20))
}

// heapWhile returns by how much the heap has grown at most.
func heapWhile(f func()) (most uint64) {
	var before, m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	for {
		select {
		case <-done:
			return most
		case <-time.After(50 * time.Millisecond):
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc-min(m.HeapAlloc, before.HeapAlloc))
		}
	}
}

// The end of a context does not end the command, so it must not end Run.
func TestRunReturnsWithTheCommandAndNotWithItsContext(t *testing.T) {
	t.Parallel()
	g, w := NewWithT(t), newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	begun := filepath.Join(t.TempDir(), "begun")
	done := w.start(ctx, shell("echo >"+begun+"; sleep 60"), 4*time.Second)
	g.Eventually(begun).Should(BeAnExistingFile())
	cancel()
	g.Consistently(done, time.Second).ShouldNot(Receive())
	g.Eventually(done).Should(Receive(MatchError(podexec.ErrDeadline)))

	_, err := w.Run(ctx, w.target, shell("echo >"+begun+".again"), long)
	g.Expect(err).To(MatchError(context.Canceled))
	g.Expect(begun + ".again").NotTo(BeAnExistingFile())
}

func TestRunOutlastsItsPod(t *testing.T) {
	t.Parallel()
	g, w := NewWithT(t), newWorld(t)
	begun := filepath.Join(t.TempDir(), "begun")
	done := w.start(t.Context(), shell("echo >"+begun+"; sleep 60"), 3*time.Second)
	g.Eventually(begun).Should(BeAnExistingFile())
	g.Expect(w.Client.Delete(t.Context(), podOf(w.target))).To(Succeed())
	g.Eventually(done).Should(Receive(MatchError(podexec.ErrDeadline)))
	g.Eventually(func() error {
		_, err := w.Run(t.Context(), w.target, []string{"true"}, long)
		return err
	}).Should(MatchError(podexec.ErrNoContainer))
}

func TestRunIsNotHeldUpByWhatStillRunsWhenTheProcessIsToEnd(t *testing.T) {
	t.Parallel()
	g, w := NewWithT(t), newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { _ = w.Start(ctx) }()
	begun := filepath.Join(t.TempDir(), "begun")
	done := w.start(t.Context(), shell("echo >"+begun+"; sleep 20"), long)
	g.Eventually(begun).Should(BeAnExistingFile())
	cancel()
	g.Eventually(done, 2*time.Second).Should(Receive(MatchError(podexec.ErrLeaked)))
}

// start runs a command in the background.
func (w *world) start(ctx context.Context, command []string, limit time.Duration) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := w.Run(ctx, w.target, command, limit)
		done <- err
	}()
	return done
}

// The API server says of a command whose node it has lost that it ended well. This one
// is alone with its cluster.
func TestABrokenStreamIsNoSuccess(t *testing.T) {
	g, w := NewWithT(t), newWorld(t)
	dir := t.TempDir()
	begun := time.Now()
	done := w.start(t.Context(), shell("echo x >>"+dir+"/begun; sleep 2; echo x >>"+dir+"/done"), 4*time.Second)
	g.Eventually(dir + "/begun").Should(BeAnExistingFile())
	g.Expect(w.Kill(localcluster.Kwok)).To(Succeed())
	g.Eventually(done).Should(Receive(MatchError(podexec.ErrLost)))
	g.Expect(time.Since(begun)).To(BeNumerically(">", 3500*time.Millisecond), "it may run until its deadline")
	g.Expect(os.ReadFile(dir + "/begun")).To(BeEquivalentTo("x\n"))

	_, err := w.Run(t.Context(), w.target, []string{"true", "hunter2"}, long)
	g.Expect(err).To(HaveOccurred(), "the node can not be reached")
	g.Expect(err.Error()).NotTo(ContainSubstring("hunter2"))
	g.Expect(w.Restart(t.Context(), localcluster.Kwok)).To(Succeed())
	g.Expect(w.Run(t.Context(), w.target, []string{"true"}, long)).To(Equal(podexec.Result{}))
}

// Without a shell nothing ends a command. The tests after this one have theirs again.
func TestWithoutAShell(t *testing.T) {
	g, w := NewWithT(t), newWorld(t)
	sh, err := filepath.EvalSymlinks(filepath.Join(tools, "sh"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.Remove(filepath.Join(tools, "sh"))).To(Succeed())
	t.Cleanup(func() { _ = os.Symlink(sh, filepath.Join(tools, "sh")) })

	g.Expect(w.Run(t.Context(), w.target, []string{"echo", "here"}, long)).To(Equal(podexec.Result{Output: "here\n"}))

	_, err = w.Run(t.Context(), w.target, []string{"/nonexistent", "hunter2"}, long)
	g.Expect(err).To(MatchError(ContainSubstring("/nonexistent")))
	g.Expect(err.Error()).NotTo(ContainSubstring("hunter2"))

	_, err = w.Run(t.Context(), w.target, []string{"sleep", "2"}, time.Second)
	g.Expect(err).To(MatchError(podexec.ErrDeadline), "it has ended, but late")

	w.SetPatience(time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	begun := time.Now()
	_, err = w.Run(ctx, w.target, []string{"sleep", "5"}, time.Second)
	g.Expect(err).To(MatchError(podexec.ErrLeaked))
	g.Expect(time.Since(begun)).To(BeNumerically("~", 2*time.Second, time.Second))

	p, config := startProxy(t, w.RESTConfig(), 0)
	w.Runner = runnerFor(t, config)
	w.SetPatience(time.Second)
	fifo := filepath.Join(t.TempDir(), "fifo")
	g.Expect(syscall.Mkfifo(fifo, 0o600)).To(Succeed())
	done := w.start(t.Context(), []string{"cat", fifo}, long)
	other, err := os.OpenFile(fifo, os.O_WRONLY, 0) // returns when cat reads
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = other.Close() }()
	p.cut()
	g.Eventually(done).Should(Receive(MatchError(podexec.ErrLeaked)), "it runs, and nobody could know")
}
