package open

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
)

const (
	// maxFailures is the number of consecutive connections that may fail.
	maxFailures = 8
	// maxPause is the longest time between two attempts to connect.
	maxPause = 10 * time.Second
)

var (
	// errListen means that the local port cannot be used.
	errListen = errors.New("cannot listen")
	// errReplaced means that the pod to which the port was forwarded no longer exists.
	errReplaced = errors.New("the notebook's pod was replaced")
)

// forward forwards the port until ctx ends. When a connection to the pod breaks, it waits
// until the notebook is ready and connects again. It fails if the user may not do so any more.
func (s *session) forward(ctx context.Context) error {
	failures := 0
	for {
		established, err := s.forwardOnce(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errListen), apierrors.IsForbidden(err):
			return err
		case established:
			failures = 0
			s.say("lost the connection to %s (%v); connecting again", s, err)
		default:
			if failures++; failures == maxFailures {
				return fmt.Errorf("cannot connect to %s: %w", s, err)
			}
			s.say("cannot connect to %s; trying again: %v", s, err)
		}
		if err := s.sleep(ctx, min(polling<<failures, maxPause)); err != nil {
			return err
		}
		j, err := s.awaitReady(ctx, proceed)
		if err != nil {
			return err
		}
		if token, err := s.readToken(ctx, j); err == nil {
			s.token = token
		} else {
			s.say("cannot read the token again, which may have changed: %v", err)
		}
	}
}

// forwardOnce forwards the port until the connection breaks, or the pod is replaced. It
// returns whether there was a connection.
func (s *session) forwardOnce(ctx context.Context) (established bool, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	j, err := s.read(ctx)
	if err != nil {
		return false, err
	}
	server, err := s.server(ctx, j)
	if err != nil {
		return false, err
	}
	dialer, err := newDialer(s.REST, s.pod(j))
	if err != nil {
		return false, err
	}
	ready := make(chan struct{})
	var problems bytes.Buffer
	forwarder, err := portforward.NewOnAddressesForStreamingWithContext(ctx, dialer, []string{s.Address.String()},
		[]string{fmt.Sprintf("%d:%d", s.localPort, server.port)}, ready, io.Discard, &problems)
	if err != nil {
		return false, err
	}
	if server.pod != "" {
		go s.watchPod(ctx, s.pod(j), server.pod, stop)
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		if problems.Len() > 0 {
			return false, fmt.Errorf("%w on port %d of %s: %s: choose another port, or leave out --port", errListen, s.localPort, s.Address, problems.String())
		}
		return false, err
	case <-ctx.Done(): // the upgrade may hang
		return false, context.Cause(ctx)
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		return false, err
	}
	s.localPort = ports[0].Local
	s.connected(ctx, server.prefix)
	err = <-ended
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return true, err
}

// running is the server that runs. It can differ from the spec until the notebook restarts.
type running struct {
	// pod is empty if the user may not read the pod.
	pod types.UID
	// prefix of all paths, without a slash at the end.
	prefix string
	port   int32
}

// server returns the server in the pod, or that of the spec if the user may not read the pod.
func (s *session) server(ctx context.Context, j *v1alpha1.Jupyter) (running, error) {
	server := running{prefix: j.Spec.Access.Path, port: workload.SpecPort(j)}
	var pod corev1.Pod
	if err := s.api.Get(ctx, s.pod(j), &pod); err != nil {
		if apierrors.IsForbidden(err) {
			err = nil
		}
		return server, err
	}
	server.pod, server.port = pod.UID, workload.ServerPort(&pod)
	if workload.IsJupyter(j) { // other pods do not contain their prefix
		server.prefix = workload.NotebookPrefix(&pod)
	}
	return server, nil
}

// watchPod stops the forwarding when the pod is replaced, or when the user may not read it
// any more. The connection to a former pod can stay open.
func (s *session) watchPod(ctx context.Context, name client.ObjectKey, known types.UID, stop context.CancelCauseFunc) {
	for s.sleep(ctx, s.PodInterval) == nil {
		var pod corev1.Pod
		err := s.api.Get(ctx, name, &pod)
		switch {
		case apierrors.IsForbidden(err):
			stop(fmt.Errorf("check the notebook's pod: %w", err))
			return
		case apierrors.IsNotFound(err), err == nil && pod.UID != known:
			stop(errReplaced)
			return
		}
	}
}

// newDialer returns a dialer that uses WebSocket, and SPDY if the server or a proxy does not
// support WebSocket.
func newDialer(config *rest.Config, pod client.ObjectKey) (httpstream.Dialer, error) {
	core, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	address := core.RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	socket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(address, config)
	if err != nil {
		return nil, err
	}
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	fallback := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, address)
	return portforward.NewFallbackDialerForStreaming(socket, fallback, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}
