package localcluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// SimulateExec is the annotation of a simulated pod that answers commands, for example those of
// health checks: an [ExecAnswer] in JSON. Without it, commands fail.
const SimulateExec = "bongsu-local/exec"

// ExecAnswer is how a simulated pod answers each command. The command does not run.
type ExecAnswer struct {
	// ExitCode is the exit code, from 0 to 255.
	ExitCode int `json:"exitCode,omitempty"`
	// Output is what the command writes to its standard output.
	Output string `json:"output,omitempty"`
	// DelaySeconds is how long the command takes, from 0 to 3,600.
	DelaySeconds float64 `json:"delaySeconds,omitempty"`
}

// kubelet has the port at which the API server finds the kubelet of a simulated node.
const kubelet Component = "kubelet"

const (
	maxExitCode = 255
	maxDelay    = time.Hour
	// streamTimeout is how long the API server may take to open the streams of a command, and to read
	// the answer.
	streamTimeout = 30 * time.Second
	// execProtocol is the protocol of the streams. Its errors contain the exit code. The API server
	// translates newer protocols of clients to it.
	execProtocol = "v4.channel.k8s.io"
)

// kubeletServer is the kubelet of simulated nodes. It answers commands as an annotation says, and
// forwards other requests to KWOK, which would run commands on this machine.
type kubeletServer struct {
	server *http.Server
	getPod func(ctx context.Context, namespace, name string) (*corev1.Pod, error)
}

// startKubelet starts the kubelet of simulated nodes.
func (c *Cluster) startKubelet() error {
	client, err := c.client()
	if err != nil {
		return err
	}
	config, err := c.kubeletTLS()
	if err != nil {
		return err
	}
	kwok, err := c.probeClient(Kwok)
	if err != nil {
		return err
	}
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "https", Host: c.ports.address(Kwok)})
	forward.Transport, forward.FlushInterval = kwok.Transport, -1
	k := &kubeletServer{getPod: func(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
		return client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	}}
	mux := http.NewServeMux()
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", k.exec)
	mux.Handle("/", forward)
	k.server = &http.Server{
		Handler: mux, TLSConfig: config, ReadHeaderTimeout: streamTimeout, ErrorLog: log.New(io.Discard, "", 0),
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}, // streams need HTTP/1.1
	}
	l, err := net.Listen("tcp", c.ports.address(kubelet))
	if err != nil {
		return err
	}
	c.kubelet = k
	go func() { _ = k.server.ServeTLS(l, "", "") }() // it returns when the cluster stops
	return nil
}

// kubeletTLS accepts only the API server. Other users have certificates of the same authority.
func (c *Cluster) kubeletTLS() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(c.pki.cert(serverCert), c.pki.key(serverCert))
	if err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(c.pki.cert(kubeletClientCert), c.pki.key(kubeletClientCert))
	if err != nil {
		return nil, err
	}
	authorities := x509.NewCertPool()
	authorities.AddCert(c.pki.authorities[clusterCA].cert)
	return &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authorities,
		VerifyConnection: func(s tls.ConnectionState) error {
			if !bytes.Equal(s.PeerCertificates[0].Raw, pair.Certificate[0]) {
				return errors.New("only the API server may connect")
			}
			return nil
		},
	}, nil
}

func (k *kubeletServer) close() { _ = k.server.Close() }

// exec answers a command in a container.
func (k *kubeletServer) exec(w http.ResponseWriter, r *http.Request) {
	pod, err := k.getPod(r.Context(), r.PathValue("namespace"), r.PathValue("pod"))
	if err == nil {
		err = checkRunning(pod, r.PathValue("container"))
	}
	var answer *ExecAnswer
	if err == nil {
		answer, err = execAnswerOf(pod)
	}
	switch {
	case apierrors.IsNotFound(err):
		http.Error(w, err.Error(), http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case slices.Equal(r.URL.Query()["command"], shellCheck):
		notFound.serve(w, r)
	default:
		answer.serve(w, r)
	}
}

// shellCheck is the command by which package podexec finds out whether a container can run its
// watchdog. A simulated container has no programs.
var shellCheck = []string{"sh", "-c", "command -v sleep"}

// notFound is how a shell answers that there is no such program.
var notFound = &ExecAnswer{ExitCode: 127}

// checkRunning returns an error if the container does not run.
func checkRunning(pod *corev1.Pod, container string) error {
	statuses := slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses)
	if !slices.ContainsFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == container && s.State.Running != nil }) {
		return fmt.Errorf("container %q of pod %s/%s does not run", container, pod.Namespace, pod.Name)
	}
	return nil
}

// execAnswerOf reads the annotation of a pod.
func execAnswerOf(pod *corev1.Pod) (*ExecAnswer, error) {
	text, name := pod.Annotations[SimulateExec], pod.Namespace+"/"+pod.Name
	if text == "" {
		return nil, fmt.Errorf(`pod %s is simulated and runs no commands: set its annotation %s, for example to {"output": "ok"}`, name, SimulateExec)
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	answer := &ExecAnswer{}
	if err := decoder.Decode(answer); err != nil {
		return nil, fmt.Errorf("annotation %s of pod %s: %w: write for example {\"exitCode\": 1, \"output\": \"no\", \"delaySeconds\": 2}", SimulateExec, name, err)
	}
	if answer.ExitCode < 0 || answer.ExitCode > maxExitCode || answer.DelaySeconds < 0 || answer.DelaySeconds > maxDelay.Seconds() {
		return nil, fmt.Errorf("annotation %s of pod %s: exitCode must be from 0 to %d, and delaySeconds from 0 to %.0f", SimulateExec, name, maxExitCode, maxDelay.Seconds())
	}
	return answer, nil
}

// serve upgrades the connection and answers on its streams. After the upgrade, a client that goes
// away is the only error.
func (a *ExecAnswer) serve(w http.ResponseWriter, r *http.Request) {
	if _, err := httpstream.Handshake(r, w, []string{execProtocol}); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	wanted := expectedStreams(r.URL.Query())
	opened := make(chan httpstream.Stream, len(wanted))
	connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(stream httpstream.Stream, _ <-chan struct{}) error {
		select {
		case opened <- stream:
			return nil
		default:
			return errors.New("too many streams")
		}
	})
	if connection == nil { // the upgrader has answered
		return
	}
	defer func() { _ = connection.Close() }()
	streams := map[string]httpstream.Stream{}
	limit := time.NewTimer(streamTimeout)
	defer limit.Stop()
	for range wanted {
		select {
		case stream := <-opened:
			streams[stream.Headers().Get(corev1.StreamType)] = stream
		case <-limit.C:
			return
		case <-connection.CloseChan():
			return
		}
	}
	delay := time.NewTimer(time.Duration(a.DelaySeconds * float64(time.Second)))
	defer delay.Stop()
	select {
	case <-delay.C:
	case <-connection.CloseChan():
		return
	}
	if out := streams[corev1.StreamTypeStdout]; out != nil {
		_, _ = io.WriteString(out, a.Output)
	}
	if failure := streams[corev1.StreamTypeError]; failure != nil {
		_ = json.NewEncoder(failure).Encode(a.status())
	}
	// To close the connection resets its streams: the client could lose what it has not read. It
	// closes the connection itself when it has read each stream to the end.
	for _, stream := range streams {
		_ = stream.Close()
	}
	limit.Reset(streamTimeout)
	select {
	case <-connection.CloseChan():
	case <-limit.C:
	}
}

// expectedStreams are the types of the streams that the API server opens for a request.
func expectedStreams(query url.Values) []string {
	asked := func(name string) bool { return query.Get(name) == "1" || query.Get(name) == "true" }
	types := []string{corev1.StreamTypeError}
	for _, stream := range []struct{ parameter, kind string }{
		{corev1.ExecStdinParam, corev1.StreamTypeStdin}, {corev1.ExecStdoutParam, corev1.StreamTypeStdout},
		{corev1.ExecStderrParam, corev1.StreamTypeStderr}, {corev1.ExecTTYParam, corev1.StreamTypeResize},
	} {
		isMixed := stream.kind == corev1.StreamTypeStderr && asked(corev1.ExecTTYParam) // a terminal has one output
		if asked(stream.parameter) && !isMixed {
			types = append(types, stream.kind)
		}
	}
	return types
}

// status is what a kubelet reports about a command that has ended.
func (a *ExecAnswer) status() *metav1.Status {
	if a.ExitCode == 0 {
		return &metav1.Status{Status: metav1.StatusSuccess}
	}
	code := strconv.Itoa(a.ExitCode)
	return &metav1.Status{
		Status: metav1.StatusFailure, Reason: "NonZeroExitCode", Message: "command terminated with non-zero exit code: exit status " + code,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: "ExitCode", Message: code}}},
	}
}

// simulatesExec reports whether commands in pods are answered by their annotation.
func (c *Cluster) simulatesExec() bool {
	return slices.Contains(c.config.Components, Kwok) && c.config.ExecPath == ""
}

// kubeletPort is the port at which the API server reaches simulated nodes.
func (c *Cluster) kubeletPort() int {
	if c.simulatesExec() {
		return c.ports.of(kubelet)
	}
	return c.ports.of(Kwok)
}
