package healthcheck

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// maxHeaderBytes bounds the header of an answer.
const maxHeaderBytes = 64 << 10

func (c *Checker) ask(ctx context.Context, check Check) result {
	if check.HTTP.Transport == v1alpha1.HealthCheckTransportAPIServer {
		return c.askProxy(ctx, check)
	}
	return c.askPod(ctx, check)
}

// askPod asks a pod by a connection of its own. Connections are not kept: the next
// check should find out whether the pod accepts one.
func (c *Checker) askPod(ctx context.Context, check Check) result {
	ip, err := netip.ParseAddr(check.HTTP.IP)
	if err != nil || !ip.IsGlobalUnicast() {
		return unreachable("the pod has no address that can be asked")
	}
	address := net.JoinHostPort(check.HTTP.IP, strconv.Itoa(int(check.HTTP.Port)))
	req, err := podRequest(ctx, address, check.HTTP)
	if err != nil {
		return unreachable(err.Error())
	}
	conn, err := c.dial(ctx, "tcp", address)
	if err != nil {
		return notConnected(err)
	}
	defer func() { _ = conn.Close() }()
	transport := transportOver(conn, check.HTTP.Scheme)
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return notAnswered(err, check.Timeout)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return notAnswered(err, check.Timeout)
	}
	return answered(resp, body)
}

func podRequest(ctx context.Context, address string, h *HTTP) (*http.Request, error) {
	path, rawPath, query := split(h.Path)
	return request(ctx, &url.URL{
		Scheme: scheme(h.Scheme), Host: address, Path: path, RawPath: rawPath, RawQuery: query,
	}, h.Headers)
}

func scheme(s corev1.URIScheme) string {
	if s == corev1.URISchemeHTTPS {
		return "https"
	}
	return "http"
}

// transportOver speaks over a connection that there is, and no other.
func transportOver(conn net.Conn, scheme corev1.URIScheme) *http.Transport {
	t := &http.Transport{
		DialContext:            func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		DisableKeepAlives:      true,
		DisableCompression:     true, // what is read is bounded as it is sent
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
	if scheme == corev1.URISchemeHTTPS {
		t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the kubelet does not verify either: pods have no names to verify
		t.ForceAttemptHTTP2 = true
	}
	return t
}

// answered judges a complete answer, or as much of one as is read.
func answered(resp *http.Response, body []byte) result {
	if resp.StatusCode >= 200 && resp.StatusCode < 400 {
		return passed()
	}
	message := "answered " + strconv.Itoa(resp.StatusCode)
	if text := http.StatusText(resp.StatusCode); text != "" {
		message += " " + text
	}
	if text := told(resp.Header.Get("Content-Type"), body); text != "" {
		message += ": " + text
	}
	return failed(message)
}

// notConnected is for a connection that did not come about. Who is told that nobody
// listens has reached the pod.
func notConnected(err error) result {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET):
		return failed("refused the connection")
	case isTimeout(err):
		return unreachable("the pod could not be reached in time; does a NetworkPolicy keep the operator from it?")
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return unreachable("there is no way to the pod")
	default:
		return unreachable("the pod could not be reached")
	}
}

// notAnswered is for an answer that did not come, or broke off. net/http's words hold
// addresses and what the pod sent, so they are not told.
func notAnswered(err error, timeout time.Duration) result {
	_, record := errors.AsType[tls.RecordHeaderError](err)
	_, alert := errors.AsType[tls.AlertError](err)
	switch {
	case errors.Is(err, context.Canceled):
		return unreachable("the check was ended")
	case isTimeout(err):
		return failed(fmt.Sprintf("did not answer within %d s", seconds(timeout)))
	case record:
		return failed("does not speak TLS")
	case alert:
		return failed("refused the TLS connection")
	case isBroken(err):
		return failed("broke the connection off")
	default:
		return failed("did not answer in HTTP")
	}
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return errors.Is(err, context.DeadlineExceeded) || ok && e.Timeout()
}

func isBroken(err error) bool {
	for _, broken := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, broken) {
			return true
		}
	}
	return false
}
