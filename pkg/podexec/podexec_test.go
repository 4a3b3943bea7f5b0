package podexec_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/pkg/localcluster"
	"github.com/bongsu-io/bongsu/pkg/podexec"
)

// long is a limit that no command of the tests reaches.
const long = time.Hour

func shell(script string) []string { return []string{"sh", "-c", script} }

func TestRun(t *testing.T) {
	for name, tc := range map[string]struct {
		command []string
		limit   time.Duration
		want    podexec.Result
		err     error
	}{
		"success":                              {command: shell("echo err >&2"), limit: long, want: podexec.Result{Output: "err\n"}},
		"exit code 3":                          {command: shell("echo out; exit 3"), limit: long, want: podexec.Result{Output: "out\n", ExitCode: 3}},
		"no such program":                      {command: []string{"/nonexistent"}, limit: long, want: podexec.Result{ExitCode: 127}},
		"exit code 126":                        {command: shell("exit 126"), limit: long, want: podexec.Result{ExitCode: 126}},
		"deadline":                             {command: shell("echo begun; sleep 60"), limit: 4 * time.Second, want: podexec.Result{Output: "begun\n"}, err: podexec.ErrDeadline},
		"background process is not waited for": {command: shell("sleep 120 & echo started"), limit: long, want: podexec.Result{Output: "started\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, e := NewWithT(t), newEnvironment(t)
			start := time.Now()
			got, err := e.Run(t.Context(), e.target, tc.command, tc.limit)
			if tc.err == nil {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(tc.err))
			}
			if tc.want.ExitCode != 127 { // the shell prints a message of its own
				g.Expect(got).To(Equal(tc.want))
			}
			g.Expect(got.ExitCode).To(Equal(tc.want.ExitCode))
			g.Expect(time.Since(start)).To(BeNumerically("<", 100*time.Second))
		})
	}
}

func TestRunFailsWithoutPermissionOrContainer(t *testing.T) {
	e := newEnvironment(t)
	allowed, createOnly, forbidden := e.runnerWith(t, "create", "get"), e.runnerWith(t, "create"), e.runnerWith(t)
	noPod, noContainer := e.target, e.target
	noPod.Pod, noContainer.Container = "other", "other"
	for name, tc := range map[string]struct {
		runner *podexec.Runner
		target podexec.Target
		want   error
	}{
		"allowed":                           {runner: allowed, target: e.target},
		"allowed to create only, uses SPDY": {runner: createOnly, target: e.target},
		"forbidden":                         {runner: forbidden, target: e.target, want: podexec.ErrForbidden},
		"no such pod":                       {runner: e.Runner, target: noPod, want: podexec.ErrNoContainer},
		"no such container":                 {runner: e.Runner, target: noContainer, want: podexec.ErrNoContainer},
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
}

func TestOutputIsBoundedAndCounted(t *testing.T) {
	g, e := NewWithT(t), newEnvironment(t)
	const size = 100 << 20
	got, err := e.Run(t.Context(), e.target, shell(fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x", size)), long)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Output).To(Equal(strings.Repeat("x", podexec.MaxOutput)))
	g.Expect(got.Dropped).To(BeEquivalentTo(size - podexec.MaxOutput))
}

func TestRunReturnsWhenTheCommandEndsNotItsContext(t *testing.T) {
	t.Parallel()
	g, e := NewWithT(t), newEnvironment(t)
	ctx, cancel := context.WithCancel(t.Context())
	dir := t.TempDir()
	begun, end := filepath.Join(dir, "begun"), filepath.Join(dir, "end")
	done := e.start(ctx, shell("echo >"+begun+"; until [ -e "+end+" ]; do sleep 0.1; done"), long)
	g.Eventually(begun).Should(BeAnExistingFile())
	cancel()
	g.Consistently(done, time.Second).ShouldNot(Receive())
	g.Expect(os.WriteFile(end, nil, 0o600)).To(Succeed())
	g.Eventually(done).Should(Receive(BeNil()))

	_, err := e.Run(ctx, e.target, shell("echo >"+begun+".again"), long)
	g.Expect(err).To(MatchError(context.Canceled))
	g.Expect(begun + ".again").NotTo(BeAnExistingFile())
}

func TestRunWaitsForTheCommandOfADeletedPod(t *testing.T) {
	t.Parallel()
	g, e := NewWithT(t), newEnvironment(t)
	begun := filepath.Join(t.TempDir(), "begun")
	done := e.start(t.Context(), shell("echo >"+begun+"; sleep 60"), 3*time.Second)
	g.Eventually(begun).Should(BeAnExistingFile())
	g.Expect(e.client.CoreV1().Pods(e.target.Namespace).Delete(t.Context(), e.target.Pod, metav1.DeleteOptions{})).To(Succeed())
	g.Eventually(done).Should(Receive(MatchError(podexec.ErrDeadline)))
	g.Eventually(func() error {
		_, err := e.Run(t.Context(), e.target, []string{"true"}, long)
		return err
	}).Should(MatchError(podexec.ErrNoContainer))
}

func TestRunReturnsErrLeakedWhenTheRunnerStops(t *testing.T) {
	t.Parallel()
	g, e := NewWithT(t), newEnvironment(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { _ = e.Start(ctx) }()
	begun := filepath.Join(t.TempDir(), "begun")
	done := e.start(t.Context(), shell("echo >"+begun+"; sleep 120"), long)
	g.Eventually(begun).Should(BeAnExistingFile())
	cancel()
	g.Eventually(done).Should(Receive(MatchError(podexec.ErrLeaked)))
}

// start runs a command in the background and sends the error of Run.
func (e *environment) start(ctx context.Context, command []string, limit time.Duration) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := e.Run(ctx, e.target, command, limit)
		done <- err
	}()
	return done
}

// The API server reports success for a command whose node it has lost. This test does not
// run in parallel, because it kills the node of all tests.
func TestBrokenStreamIsNotSuccess(t *testing.T) {
	g, e := NewWithT(t), newEnvironment(t)
	dir := t.TempDir()
	start := time.Now()
	done := e.start(t.Context(), shell("echo x >>"+dir+"/begun; sleep 2; echo x >>"+dir+"/done"), 4*time.Second)
	g.Eventually(dir + "/begun").Should(BeAnExistingFile())
	g.Expect(e.Kill(localcluster.Kwok)).To(Succeed())
	g.Eventually(done).Should(Receive(MatchError(podexec.ErrLost)))
	g.Expect(time.Since(start)).To(BeNumerically(">", 3500*time.Millisecond), "it may run until its deadline")
	g.Expect(os.ReadFile(dir + "/begun")).To(BeEquivalentTo("x\n"))

	_, err := e.Run(t.Context(), e.target, []string{"true", "hunter2"}, long)
	g.Expect(err).To(HaveOccurred(), "the node cannot be reached")
	g.Expect(err.Error()).NotTo(ContainSubstring("hunter2"))
	g.Expect(e.Restart(t.Context(), localcluster.Kwok)).To(Succeed())
	g.Expect(e.Run(t.Context(), e.target, []string{"true"}, long)).To(Equal(podexec.Result{}))
}

// This test does not run in parallel, because it removes the shell of all tests.
func TestWithoutAShell(t *testing.T) {
	g, e := NewWithT(t), newEnvironment(t)
	sh, err := filepath.EvalSymlinks(filepath.Join(tools, "sh"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.Remove(filepath.Join(tools, "sh"))).To(Succeed())
	t.Cleanup(func() { _ = os.Symlink(sh, filepath.Join(tools, "sh")) })

	g.Expect(e.Run(t.Context(), e.target, []string{"echo", "here"}, long)).To(Equal(podexec.Result{Output: "here\n"}))

	_, err = e.Run(t.Context(), e.target, []string{"/nonexistent", "hunter2"}, long)
	g.Expect(err).To(MatchError(ContainSubstring("/nonexistent")))
	g.Expect(err.Error()).NotTo(ContainSubstring("hunter2"))

	_, err = e.Run(t.Context(), e.target, []string{"sleep", "2"}, time.Second)
	g.Expect(err).To(MatchError(podexec.ErrDeadline), "it ended by itself, but late")

	// reading starts a command that ends with the test.
	reading := func(ctx context.Context, limit time.Duration) <-chan error {
		fifo := filepath.Join(t.TempDir(), "fifo")
		g.Expect(syscall.Mkfifo(fifo, 0o600)).To(Succeed())
		done := e.start(ctx, []string{"cat", fifo}, limit)
		other, err := os.OpenFile(fifo, os.O_WRONLY, 0) // returns when cat reads
		g.Expect(err).NotTo(HaveOccurred())
		t.Cleanup(func() { _ = other.Close() })
		return done
	}
	e.SetMaxWait(time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	done := reading(ctx, time.Second)
	cancel()
	g.Eventually(done).Should(Receive(MatchError(podexec.ErrLeaked)), "the command runs after its limit")

	p, config := startProxy(t, e.RESTConfig(), 0)
	e.Runner = runnerFor(t, config)
	e.SetMaxWait(time.Second)
	done = reading(t.Context(), long)
	p.cut()
	g.Eventually(done).Should(Receive(MatchError(podexec.ErrLeaked)), "the command still runs")
}
