package appservice

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
	"github.com/bongsu-io/bongsu/pkg/podexec"
)

// Pauses between the runs of a command that fails.
const (
	retryAtFirst = 10 * time.Second
	retryAtMost  = 10 * time.Minute
)

// runner runs commands in pods.
type runner interface {
	Run(ctx context.Context, t podexec.Target, command []string, limit time.Duration) (podexec.Result, error)
}

// backups runs the commands of backups, outside of every reconcile, and has those
// looked at again whose command has ended.
type backups struct {
	clock     clock.PassiveClock
	runner    runner
	lookAgain func(ctx context.Context, name types.NamespacedName)

	mu   sync.Mutex
	ctx  context.Context //nolint:containedctx // of Start: runs last as long as it does
	runs map[types.NamespacedName]*commandRun
	all  sync.WaitGroup
}

// commandRun is one run of a command, or the last.
type commandRun struct {
	uid types.UID
	// ended is zero while it runs.
	ended   time.Time
	message string
	err     error
	// counted: the status knows of it.
	counted bool
	cancel  context.CancelFunc
}

// retryAt is when a command may be run again that has failed so often.
func (c commandRun) retryAt(attempts int32) time.Time {
	pause := retryAtFirst << min(max(attempts-1, 0), 6)
	return c.ended.Add(min(pause, retryAtMost))
}

func newBackups(clk clock.PassiveClock, r runner, lookAgain func(context.Context, types.NamespacedName)) *backups {
	return &backups{clock: clk, runner: r, lookAgain: lookAgain, runs: map[types.NamespacedName]*commandRun{}}
}

// Start lets commands run until the context ends. It is a manager.Runnable.
func (b *backups) Start(ctx context.Context) error {
	b.mu.Lock()
	b.ctx = ctx
	b.mu.Unlock()
	<-ctx.Done()
	b.all.Wait()
	return nil
}

// look returns the run of an AppService's command, if there was one.
func (b *backups) look(name types.NamespacedName, uid types.UID) (commandRun, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if run := b.runs[name]; run != nil && run.uid == uid {
		return *run, true
	}
	return commandRun{}, false
}

// count notes that the status knows of the last run.
func (b *backups) count(name types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if run := b.runs[name]; run != nil {
		run.counted = true
	}
}

// begin runs a command. There is none running of that AppService.
func (b *backups) begin(name types.NamespacedName, uid types.UID, t podexec.Target, command []string, limit time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx == nil || b.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithCancel(b.ctx)
	run := &commandRun{uid: uid, cancel: cancel}
	b.runs[name] = run
	b.all.Go(func() {
		defer cancel()
		result, err := b.runner.Run(ctx, t, command, limit)
		b.end(run, result, err)
		b.lookAgain(ctx, name)
	})
}

func (b *backups) end(run *commandRun, result podexec.Result, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	run.ended = b.clock.Now()
	switch {
	case err != nil:
		run.err, run.message = err, err.Error()
	case result.ExitCode != 0:
		run.err = fmt.Errorf("exit code %d", result.ExitCode)
		run.message = run.err.Error() + outputOf(result)
	default:
		run.message = "the command ended with exit code 0"
	}
}

// forget ends the run of an AppService that is gone.
func (b *backups) forget(name types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if run := b.runs[name]; run != nil {
		run.cancel()
		delete(b.runs, name)
	}
}

// podToBackUp is the first of the pods that are ready, or else that run.
func (a *app) podToBackUp() *corev1.Pod {
	var found *corev1.Pod
	container := a.Spec.Backup.Exec.Container
	for _, pod := range a.pods {
		if running(pod, container) == nil {
			continue
		}
		if kube.IsPodReady(pod) {
			return pod
		}
		if found == nil {
			found = pod
		}
	}
	return found
}

func targetIn(pod *corev1.Pod, check *v1alpha1.ExecCheck) podexec.Target {
	return podexec.Target{Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID, Container: check.Container}
}

// outputOf is the first line of what a command wrote, to be added to a message.
func outputOf(result podexec.Result) string {
	if line := plaintext.Cut(plaintext.Line(result.Output), maxMessage/2); line != "" {
		return ": " + line
	}
	return ""
}
