// Package podexec runs commands in containers. It is for operators whose health checks or
// backups run a command and need to know reliably how it ended.
//
//	runner, err := podexec.New(restConfig)
//	if err != nil {
//		return err
//	}
//	target := podexec.Target{Namespace: "shop", Pod: "web-0", UID: pod.UID, Container: "app"}
//	result, err := runner.Run(ctx, target, []string{"pg_isready"}, 10*time.Second)
//	switch {
//	case errors.Is(err, podexec.ErrDeadline): // it was killed after ten seconds
//	case err == nil && result.ExitCode != 0: // result.Output may say why
//	}
//
// Add the runner to a controller-runtime manager, or call [Runner.Start] yourself. A
// runner never runs a command twice. The client needs get and create on pods/exec.
//
// # How the end of a command is known
//
// Closing the connection does not end a command. If the API server loses the connection
// to the node, it reports success. For these reasons, Run wraps the command in a small
// shell script, the watchdog. It kills the command at its deadline and reports on the
// stream how the command ended. Without such a report, Run returns no success.
//
// # Limits
//
//   - The watchdog needs sh and sleep in the image. Run checks this once for each
//     container. Without them, the command runs directly: nothing ends it, and a broken
//     connection can look like exit code 0.
//   - Deadlines are whole seconds, at least one.
//   - At most 8 KiB of the output are stored.
//   - Commands have no standard input and no terminal.
package podexec

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// Margin is how much longer than its limit a command may take until Run sees its end. The
// watchdog counts whole seconds from the moment it starts. If you give up on a Run whose
// context has ended, allow for the limit plus Margin.
const Margin = 5 * time.Second

const (
	// maxWait is how long Run waits for a command that nothing ends, from the end of its
	// context or its stream.
	maxWait = 10 * time.Minute
	// drainTime is how long Run waits for the remaining output of a command that has
	// ended. Child processes can keep its streams open.
	drainTime = time.Second
)

// Target is the container to run a command in.
type Target struct {
	Namespace, Pod, Container string
	// UID of the pod. It distinguishes pods of the same name, whose images may differ.
	UID types.UID
}

// Result is the result of a command.
type Result struct {
	// ExitCode of the command. A code other than 0 is not an error.
	ExitCode int
	// Output is the beginning of standard output and standard error, at most 8 KiB.
	// Dropped is the number of bytes that were cut off.
	Output  string
	Dropped int64
}

// Health checks and backups by command run in the app's containers.
// +kubebuilder:rbac:groups="",resources=pods/exec,verbs=get;create

// Runner runs commands. It is safe for concurrent use.
type Runner struct {
	config   *rest.Config
	pods     rest.Interface
	shells   shellCache
	maxWait  time.Duration
	stopping chan struct{}
	stop     func()
}

// New returns a Runner with the permissions of config. It needs get and create on
// pods/exec.
func New(config *rest.Config) (*Runner, error) {
	client, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	stopping := make(chan struct{})
	return &Runner{
		config: config, pods: client.RESTClient(), maxWait: maxWait,
		stopping: stopping, stop: sync.OnceFunc(func() { close(stopping) }),
	}, nil
}

// Start blocks until ctx ends. After that, no Run waits any longer, and each returns
// ErrLeaked if its command may still run. It implements manager.Runnable. Without it, a
// Run can delay the end of the process.
func (r *Runner) Start(ctx context.Context) error {
	<-ctx.Done()
	r.stop()
	return nil
}

// Run runs a command for at most limit, rounded up to whole seconds. It returns when the
// command has ended, so that a caller that waits for it never has two commands in a
// container:
//
//   - The end of ctx ends neither the command nor Run. If ctx ends before the command
//     starts, Run returns its error.
//   - If the stream breaks, Run waits until the watchdog has ended the command.
//   - Without a watchdog, nothing ends the command.
//
// In two cases, Run returns ErrLeaked although the command may still run. One is that the
// Runner stops. The other is that nothing has ended the command within ten minutes of the
// end of ctx or of the stream.
//
// Run ignores child processes that outlive the command. Errors contain neither the
// arguments of the command nor its output.
func (r *Runner) Run(ctx context.Context, t Target, command []string, limit time.Duration) (Result, error) {
	if len(command) == 0 {
		return Result{}, errors.New("no command to run")
	}
	result, err := r.run(ctx, t, command, limit)
	if err != nil && !errors.Is(err, ErrDeadline) {
		r.shells.forget(t) // the container may have another image now
	}
	return result, err
}

// run never runs the command twice.
func (r *Runner) run(ctx context.Context, t Target, command []string, limit time.Duration) (Result, error) {
	shell, err := r.hasShell(ctx, t)
	if err == nil {
		err = ctx.Err()
	}
	switch {
	case err != nil:
		return Result{}, err
	case shell:
		return r.runWithWatchdog(ctx, t, command, limit)
	}
	return r.runDirectly(ctx, t, command, limit)
}

// runWithWatchdog runs the command under the watchdog.
func (r *Runner) runWithWatchdog(ctx context.Context, t Target, command []string, limit time.Duration) (Result, error) {
	inTime, cancel := context.WithTimeout(context.WithoutCancel(ctx), wholeSeconds(limit))
	defer cancel()
	mark := rand.Text()
	s := r.open(ctx, t, withWatchdog(mark, command, limit), mark)
	o := r.wait(ctx, s)
	result, begun, e := s.close()
	switch {
	case e != nil && e.timedOut:
		return result, ErrDeadline
	case e != nil:
		result.ExitCode = e.code
		return result, nil
	case o.ending == leaked:
		return result, ErrLeaked
	case o.ending == refused, o.ending == failed && !begun:
		return result, o.err
	case o.ending == exited && o.code != 0: // the shell was killed, probably with the container
		return result, ErrLost
	}
	if !r.sleepUntil(inTime) {
		return result, leakedError(o)
	}
	return result, lostError(o)
}

// runDirectly runs the command without a watchdog.
func (r *Runner) runDirectly(ctx context.Context, t Target, command []string, limit time.Duration) (Result, error) {
	inTime, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	s := r.open(ctx, t, command, rand.Text())
	o := r.wait(ctx, s)
	result, _, _ := s.close()
	switch o.ending {
	case exited:
		result.ExitCode = o.code
		if inTime.Err() != nil {
			return result, ErrDeadline
		}
		return result, nil
	case refused, failed:
		return result, o.err
	case broken:
		over, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.maxWait)
		defer cancel()
		r.sleepUntil(over)
	case leaked:
	}
	return result, leakedError(o)
}

// wait waits for the end of the stream. After the end of ctx, it waits for at most
// maxWait.
func (r *Runner) wait(ctx context.Context, s *stream) outcome {
	if o, ok := r.waitUntil(ctx, s); ok {
		return o
	}
	over, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.maxWait)
	defer cancel()
	o, _ := r.waitUntil(over, s)
	return o
}

// waitUntil waits for the end of the stream while ctx lives.
func (r *Runner) waitUntil(ctx context.Context, s *stream) (o outcome, ok bool) {
	select {
	case o := <-s.done:
		return o, true
	case <-s.reports.ended:
		return drain(ctx, s), true
	case <-r.stopping:
		return outcome{ending: leaked}, true
	case <-ctx.Done():
		return outcome{ending: leaked}, false
	}
}

// drain waits a moment for the stream of a command that has ended.
func drain(ctx context.Context, s *stream) outcome {
	over, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	select {
	case o := <-s.done:
		return o
	case <-over.Done():
		return outcome{ending: leaked}
	}
}

// sleepUntil waits for the end of a context. It returns false if the Runner stops first.
func (r *Runner) sleepUntil(until context.Context) bool {
	select {
	case <-until.Done():
		return true
	case <-r.stopping:
		return false
	}
}

func lostError(o outcome) error {
	if o.err == nil {
		return ErrLost
	}
	return fmt.Errorf("%w: %w", ErrLost, o.err)
}

func leakedError(o outcome) error {
	if o.err == nil {
		return ErrLeaked
	}
	return fmt.Errorf("%w: %w", ErrLeaked, o.err)
}
