package podexec

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
)

// handshakeTimeout limits the time to connect. Later, pings keep the connection alive. It
// breaks after a minute without an answer.
const handshakeTimeout = 30 * time.Second

// ending is how a stream ended.
type ending int

const (
	// exited: with an exit code.
	exited ending = iota
	// refused: the command was not run.
	refused
	// failed: the node or the API server reported an error.
	failed
	// broken: the connection broke without a report.
	broken
	// leaked: Run stopped waiting.
	leaked
)

// outcome is the end of a stream.
type outcome struct {
	ending ending
	code   int
	err    error
}

// stream is one run of a command.
type stream struct {
	command []string
	output  output
	reports *reportFilter
	done    chan outcome
	cancel  context.CancelFunc

	// sent: the request may have reached the node.
	sent atomic.Bool
	// status is the HTTP status of the last refused upgrade, or 0.
	status atomic.Int32
}

// open starts a command. From this side, only close ends the stream. The reports of the
// watchdog begin with mark.
func (r *Runner) open(ctx context.Context, t Target, command []string, mark string) *stream {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &stream{command: command, done: make(chan outcome, 1), cancel: cancel}
	s.reports = newReportFilter(&s.output, mark)
	go func() { s.done <- s.run(ctx, r.config, r.execURL(t, command)) }()
	return s
}

// close closes the stream and returns what the command has written.
func (s *stream) close() (result Result, begun bool, e *commandExit) {
	s.cancel()
	begun, e = s.reports.close()
	result.Output, result.Dropped = s.output.read()
	return result, begun, e
}

func (s *stream) run(ctx context.Context, config *rest.Config, address *url.URL) outcome {
	dialing, connected := context.WithTimeout(ctx, handshakeTimeout)
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
			s.recordUpgrade(resp, err, connected)
			return resp, err
		})
	})
	executor, err := newExecutor(config, address)
	if err != nil {
		return outcome{ending: refused, err: err}
	}
	return s.outcomeOf(executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &s.output, Stderr: s.reports}))
}

// recordUpgrade records the response to an upgrade request.
func (s *stream) recordUpgrade(resp *http.Response, err error, connected func()) {
	switch {
	case err == nil && resp.StatusCode == http.StatusSwitchingProtocols:
		s.sent.Store(true)
		connected()
		return
	case err != nil:
		s.sent.Store(!notSent(err))
	}
	if status := statusOf(resp, err); status != 0 {
		s.status.Store(int32(status))
	}
}

func (s *stream) outcomeOf(err error) outcome {
	var exit exec.CodeExitError
	switch {
	case err == nil:
		return outcome{ending: exited}
	case errors.As(err, &exit):
		return outcome{ending: exited, code: exit.Code}
	case !s.sent.Load():
		return outcome{ending: refused, err: s.refusalError(err)}
	// client-go returns errors that were sent on the stream without a cause.
	case errors.Unwrap(err) == nil && !errors.Is(err, context.Canceled):
		return outcome{ending: failed, err: redact(err, s.command)}
	}
	return outcome{ending: broken, err: redact(err, s.command)}
}

// refusalError returns the error of a command that was not run. It uses the HTTP status,
// because errors of SPDY have no type.
func (s *stream) refusalError(err error) error {
	err = redact(err, s.command)
	code := int(s.status.Load())
	if known := errorForStatus(code); known != nil {
		return fmt.Errorf("%w: %w", known, err)
	}
	if isUnreached(code) {
		return unreachedError{err}
	}
	return err
}

// newExecutor returns an executor that uses WebSocket, and SPDY if the server or a proxy
// does not support WebSocket.
func newExecutor(config *rest.Config, address *url.URL) (remotecommand.Executor, error) {
	socket, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, address.String())
	if err != nil {
		return nil, err
	}
	spdy, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, address)
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(socket, spdy, isUpgradeRefused)
}

func (r *Runner) execURL(t Target, command []string) *url.URL {
	return r.pods.Post().Resource("pods").Namespace(t.Namespace).Name(t.Pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: t.Container, Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec).
		URL()
}

// roundTripper is a function that implements http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// maxOutput limits the stored output of a command, in bytes.
const maxOutput = 8 << 10

// output stores the beginning of the data and counts the rest. Write never blocks,
// because that would block the command. It may be called after the end of the stream.
type output struct {
	mu      sync.Mutex
	kept    []byte
	dropped int64
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	room := min(maxOutput-len(o.kept), len(p))
	o.kept = append(o.kept, p[:room]...)
	o.dropped += int64(len(p) - room)
	return len(p), nil
}

func (o *output) read() (kept string, dropped int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.kept), o.dropped
}
