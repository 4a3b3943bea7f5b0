package podexec

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
)

// handshake is how long a connection may take to be made. Once there is one, it is
// kept alive by pings, and breaks a minute after they are not answered any more.
const handshake = 30 * time.Second

// How a stream came to its end.
type ending int

const (
	// exited: with an exit code.
	exited ending = iota
	// refused: the command was not run.
	refused
	// told: the node, or the API server in its place, says that something failed.
	told
	// broken: nobody says anything.
	broken
	// leaked: it was not waited for any longer.
	leaked
)

// outcome is what a stream came to.
type outcome struct {
	ending ending
	code   int
	err    error
}

// stream is the run of one command, as it is given.
type stream struct {
	command []string
	output  output
	sieve   *sieve
	done    chan outcome
	cancel  context.CancelFunc

	// sent: somebody may have begun with what was asked for.
	sent atomic.Bool
	// status is what the last upgrade was refused with, if it was.
	status atomic.Int32
}

// open begins to run a command. Nothing but close ends the stream from this side. The
// watchdog's reports are recognised by the mark.
func (r *Runner) open(ctx context.Context, t Target, command []string, mark string) *stream {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &stream{command: command, done: make(chan outcome, 1), cancel: cancel}
	s.sieve = newSieve(&s.output, mark)
	go func() { s.done <- s.run(ctx, r.config, r.address(t, command)) }()
	return s
}

// close hangs up, and returns what the command has written.
func (s *stream) close() (result Result, begun bool, e *end) {
	s.cancel()
	begun, e = s.sieve.close()
	result.Output, result.Dropped = s.output.read()
	return result, begun, e
}

func (s *stream) run(ctx context.Context, config *rest.Config, address *url.URL) outcome {
	dialing, connected := context.WithTimeout(ctx, handshake)
	defer connected()
	context.AfterFunc(dialing, func() {
		if errors.Is(dialing.Err(), context.DeadlineExceeded) {
			s.cancel()
		}
	})
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			resp, err := next.RoundTrip(req)
			s.answered(resp, err, connected)
			return resp, err
		})
	})
	executor, err := executorFor(config, address)
	if err != nil {
		return outcome{ending: refused, err: err}
	}
	return s.outcome(executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &s.output, Stderr: s.sieve}))
}

// answered notes what became of an upgrade.
func (s *stream) answered(resp *http.Response, err error, connected func()) {
	switch {
	case err == nil && resp.StatusCode == http.StatusSwitchingProtocols:
		s.sent.Store(true)
		connected()
		return
	case err != nil:
		s.sent.Store(!neverSent(err))
	}
	if status := statusOf(resp, err); status != 0 {
		s.status.Store(int32(status))
	}
}

func (s *stream) outcome(err error) outcome {
	var exit exec.CodeExitError
	switch {
	case err == nil:
		return outcome{ending: exited}
	case errors.As(err, &exit):
		return outcome{ending: exited, code: exit.Code}
	case !s.sent.Load():
		return outcome{ending: refused, err: s.explain(err)}
	// client-go makes an error without a cause of what it is told on the stream.
	case errors.Unwrap(err) == nil && !errors.Is(err, context.Canceled):
		return outcome{ending: told, err: hush(err, s.command)}
	}
	return outcome{ending: broken, err: hush(err, s.command)}
}

// explain returns the error of a run that was refused. The status tells most: SPDY's
// errors have no type.
func (s *stream) explain(err error) error {
	err = hush(err, s.command)
	if known := byStatus(int(s.status.Load())); known != nil {
		return fmt.Errorf("%w: %w", known, err)
	}
	return err
}

// executorFor speaks WebSocket, or SPDY where something on the way does not.
func executorFor(config *rest.Config, address *url.URL) (remotecommand.Executor, error) {
	socket, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, address.String())
	if err != nil {
		return nil, err
	}
	spdy, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, address)
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(socket, spdy, isRefusal)
}

func (r *Runner) address(t Target, command []string) *url.URL {
	return r.pods.Post().Resource("pods").Namespace(t.Namespace).Name(t.Pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: t.Container, Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec).
		URL()
}

// roundTripper makes a http.RoundTripper of a function.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
