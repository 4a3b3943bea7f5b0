package podexec

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"
)

// Target is the container that a command runs in.
type Target struct{ Namespace, Pod, Container string }

// Result is what a command came to.
type Result struct {
	// ExitCode of the command.
	ExitCode int
	// Output is the beginning of what it wrote, to both of its streams; Dropped is how
	// many bytes more there were.
	Output  string
	Dropped int64
}

// Errors of Run, besides those of the network and the API server.
var (
	// ErrForbidden: the operator may not run commands in the pod.
	ErrForbidden = errors.New("running commands in the pod is forbidden")
	// ErrDeadline: the command was ended by its deadline.
	ErrDeadline = errors.New("the command did not end in time")
	// ErrLeaked: the command did not end in time, and could not be ended: there is no
	// shell in the image.
	ErrLeaked = errors.New("the command did not end in time and may still run")
)

// Runner runs commands.
type Runner struct {
	config *rest.Config
	pods   rest.Interface
}

// New returns a Runner with the rights of a configuration.
func New(config *rest.Config) (*Runner, error) {
	client, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &Runner{config: config, pods: client.RESTClient()}, nil
}

// Run runs a command for as long as limit at most. It returns when the command's
// streams have ended, or ctx does: in a pod of which it has not returned, nothing
// else should be started.
func (r *Runner) Run(ctx context.Context, t Target, command []string, limit time.Duration) (Result, error) {
	begun := time.Now()
	result, err := r.stream(ctx, t, guarded(command, limit))
	if hasNoShell(result, err) {
		result, err = r.stream(ctx, t, command)
		if ctx.Err() != nil {
			return result, ErrLeaked
		}
		return result, err
	}
	if err == nil && result.ExitCode == killed && time.Since(begun) >= limit {
		return result, ErrDeadline
	}
	return result, err
}

// killed is the exit code of a process that signal 9 ended.
const killed = 128 + 9

// stream runs what is given as it is.
func (r *Runner) stream(ctx context.Context, t Target, command []string) (Result, error) {
	executor, err := r.executor(t, command)
	if err != nil {
		return Result{}, err
	}
	var out output
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out, Stderr: &out})
	var result Result
	result.Output, result.Dropped = out.read()
	var exit exec.CodeExitError
	switch {
	case errors.As(err, &exit):
		result.ExitCode = exit.Code
		return result, nil
	case apierrors.IsForbidden(err):
		return result, fmt.Errorf("%w: %w", ErrForbidden, err)
	}
	return result, err
}

// executor speaks WebSocket, or SPDY where something on the way does not.
func (r *Runner) executor(t Target, command []string) (remotecommand.Executor, error) {
	address := r.address(t, command)
	socket, err := remotecommand.NewWebSocketExecutor(r.config, http.MethodGet, address.String())
	if err != nil {
		return nil, err
	}
	spdy, err := remotecommand.NewSPDYExecutor(r.config, http.MethodPost, address)
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(socket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}

func (r *Runner) address(t Target, command []string) *url.URL {
	return r.pods.Post().Resource("pods").Namespace(t.Namespace).Name(t.Pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: t.Container, Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec).
		URL()
}
