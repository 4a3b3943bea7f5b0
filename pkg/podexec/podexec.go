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

// Margin is how much longer than its limit a command may take to be seen at its end:
// the shell counts whole seconds, from when it has started. Whoever gives up a Run
// some time after its context ended lets that live for the limit and this.
const Margin = 5 * time.Second

const (
	// patience is how long Run waits for a command that nothing ends, after its context
	// has ended or its stream has broken.
	patience = 10 * time.Minute
	// draining is how long Run waits, once the command has ended, for what it has
	// written, and for those that it has left behind with its streams.
	draining = time.Second
)

// Target is the container that a command runs in.
type Target struct {
	Namespace, Pod, Container string
	// UID of the pod. What is known of a container's image is not believed of one in
	// another pod of the same name.
	UID types.UID
}

// Result is what a command came to.
type Result struct {
	// ExitCode of the command. Another one than 0 is not an error.
	ExitCode int
	// Output is the beginning of what it wrote, to both of its streams; Dropped is how
	// many bytes more there were.
	Output  string
	Dropped int64
}

// Runner runs commands. It is for use by any number of goroutines.
type Runner struct {
	config   *rest.Config
	pods     rest.Interface
	shells   shells
	patience time.Duration
	stopping chan struct{}
	stop     func()
}

// New returns a Runner with the rights of a configuration: it needs get and create on
// pods/exec.
func New(config *rest.Config) (*Runner, error) {
	client, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	stopping := make(chan struct{})
	return &Runner{
		config: config, pods: client.RESTClient(), patience: patience,
		stopping: stopping, stop: sync.OnceFunc(func() { close(stopping) }),
	}, nil
}

// Start waits for the context to end, after which no Run waits for anything: each
// returns ErrLeaked if its command may still run. It is a manager.Runnable, and all
// that it is needed for is not to hold up the end of the process.
func (r *Runner) Start(ctx context.Context) error {
	<-ctx.Done()
	r.stop()
	return nil
}

// Run runs a command for as long as limit at most, in whole seconds: 1 at least. As
// long as the command may still run, Run does not return, so that whoever waits for it
// never has two of them in a container. In particular
//
//   - the end of ctx ends neither the command nor Run. Before the command is started,
//     it is an error;
//   - a command whose stream has broken is left the time that the watchdog leaves it;
//   - without a watchdog, the command ends when it likes.
//
// Only if a command has not ended, or its stream has broken, without anything to end
// it, and ten minutes have gone by since (since the end of ctx, or since the stream
// broke), or if the Runner is to stop, does Run return although it may still run: with
// ErrLeaked.
//
// What the command's children do after it has ended is not looked at. In an error,
// nothing is quoted of the command's arguments, nor of its output.
func (r *Runner) Run(ctx context.Context, t Target, command []string, limit time.Duration) (Result, error) {
	if len(command) == 0 {
		return Result{}, errors.New("no command to run")
	}
	result, err := r.run(ctx, t, command, limit)
	if err != nil && !errors.Is(err, ErrDeadline) {
		r.shells.forget(t) // it may be another image by now
	}
	return result, err
}

// run runs the command at one place only: never twice.
func (r *Runner) run(ctx context.Context, t Target, command []string, limit time.Duration) (Result, error) {
	shell, err := r.hasShell(ctx, t)
	if err == nil {
		err = ctx.Err()
	}
	switch {
	case err != nil:
		return Result{}, err
	case shell:
		return r.guarded(ctx, t, command, limit)
	}
	return r.plain(ctx, t, command, limit)
}

// guarded runs a command with the watchdog around it.
func (r *Runner) guarded(ctx context.Context, t Target, command []string, limit time.Duration) (Result, error) {
	inTime, cancel := context.WithTimeout(context.WithoutCancel(ctx), whole(limit))
	defer cancel()
	mark := rand.Text()
	s := r.open(ctx, t, guarded(mark, command, limit), mark)
	o := r.await(ctx, s)
	result, begun, e := s.close()
	switch {
	case e != nil && e.late:
		return result, ErrDeadline
	case e != nil:
		result.ExitCode = e.code
		return result, nil
	case o.ending == leaked:
		return result, ErrLeaked
	case o.ending == refused, o.ending == told && !begun:
		return result, o.err
	case o.ending == exited && o.code != 0: // of the shell, which was killed: with the container, probably
		return result, ErrLost
	}
	if !r.pause(inTime) {
		return result, leakedBy(o)
	}
	return result, lost(o)
}

// plain runs a command as it is.
func (r *Runner) plain(ctx context.Context, t Target, command []string, limit time.Duration) (Result, error) {
	inTime, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	s := r.open(ctx, t, command, rand.Text())
	o := r.await(ctx, s)
	result, _, _ := s.close()
	switch o.ending {
	case exited:
		result.ExitCode = o.code
		if inTime.Err() != nil {
			return result, ErrDeadline
		}
		return result, nil
	case refused, told:
		return result, o.err
	case broken:
		over, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.patience)
		defer cancel()
		r.pause(over)
	case leaked:
	}
	return result, leakedBy(o)
}

// await returns when a stream has ended, or is not to be waited for any longer.
func (r *Runner) await(ctx context.Context, s *stream) outcome {
	if o, ok := r.first(ctx, s); ok {
		return o
	}
	over, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.patience)
	defer cancel()
	o, _ := r.first(over, s)
	return o
}

// first waits for a stream for as long as a context lives.
func (r *Runner) first(ctx context.Context, s *stream) (o outcome, ok bool) {
	select {
	case o := <-s.done:
		return o, true
	case <-s.sieve.ended:
		return drain(ctx, s), true
	case <-r.stopping:
		return outcome{ending: leaked}, true
	case <-ctx.Done():
		return outcome{ending: leaked}, false
	}
}

// drain gives the stream of a command that has ended a moment to end as well.
func drain(ctx context.Context, s *stream) outcome {
	over, cancel := context.WithTimeout(context.WithoutCancel(ctx), draining)
	defer cancel()
	select {
	case o := <-s.done:
		return o
	case <-over.Done():
		return outcome{ending: leaked}
	}
}

// pause waits for a context's end, and says whether it could.
func (r *Runner) pause(until context.Context) bool {
	select {
	case <-until.Done():
		return true
	case <-r.stopping:
		return false
	}
}

func lost(o outcome) error {
	if o.err == nil {
		return ErrLost
	}
	return fmt.Errorf("%w: %w", ErrLost, o.err)
}

func leakedBy(o outcome) error {
	if o.err == nil {
		return ErrLeaked
	}
	return fmt.Errorf("%w: %w", ErrLeaked, o.err)
}
