package healthcheck

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// maxHeaderBytes limits the header of an answer.
const maxHeaderBytes = 64 << 10

func (c *Checker) ask(ctx context.Context, check Check) result {
	if check.HTTP.Transport == APIServer {
		return c.askProxy(ctx, check)
	}
	return c.askPod(ctx, check)
}

// askPod sends the request over a new connection: the next check must find out whether the
// pod still accepts one.
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
	conn, err := c.dial(ctx, check.HTTP.Node, address)
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
	if resp.StatusCode == http.StatusSwitchingProtocols { // the body is the connection: no context would end a read
		return answered(resp, nil)
	}
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

// transportOver uses one existing connection, with HTTP/1.1: in HTTP/2, a pod could keep the checker busy
// with pings.
func transportOver(conn net.Conn, scheme corev1.URIScheme) *http.Transport {
	t := &http.Transport{
		DialContext:            func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		DisableKeepAlives:      true,
		DisableCompression:     true, // the limit applies to the bytes that are sent
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
	if scheme == corev1.URISchemeHTTPS {
		t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the kubelet does not verify either: pods have no names to verify
	}
	return t
}

// answered evaluates an answer, or the part of it that was read.
func answered(resp *http.Response, body []byte) result {
	if resp.StatusCode >= 200 && resp.StatusCode < 400 {
		return passed()
	}
	message := "answered " + strconv.Itoa(resp.StatusCode)
	if text := http.StatusText(resp.StatusCode); text != "" {
		message += " " + text
	}
	if text := bodyText(resp.Header.Get("Content-Type"), body); text != "" {
		message += ": " + text
	}
	return failed(message)
}

// notConnected is the result if there is no connection. A refused connection proves that
// the pod was reached.
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

// notAnswered is the result if there is no complete answer. The errors of net/http contain
// addresses and data of the pod, so they are not shown.
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

// askProxy sends the request through the API server, over the operator's connection to it.
func (c *Checker) askProxy(ctx context.Context, check Check) result {
	req, err := c.proxyRequest(ctx, check)
	if err != nil {
		return unreachable(err.Error())
	}
	resp, err := c.api.RoundTrip(req)
	if err != nil {
		return notProxied(err, check)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return notAnswered(err, check.Timeout)
	}
	if resp.StatusCode == http.StatusTooManyRequests { // the API server says that without a Status
		return unreachable("the API server, or the pod behind it, has too much to do")
	}
	if status := statusOf(resp, body); status != nil {
		return refused(status)
	}
	return answered(resp, body)
}

func (c *Checker) proxyRequest(ctx context.Context, check Check) (*http.Request, error) {
	if err := checkProxied(check.HTTP); err != nil {
		return nil, err
	}
	target := check.Pod + ":" + strconv.Itoa(int(check.HTTP.Port))
	if check.HTTP.Scheme == corev1.URISchemeHTTPS {
		target = "https:" + target
	}
	prefix := strings.TrimSuffix(c.apiURL.Path, "/") + "/api/v1/namespaces/" + check.Namespace + "/pods/" + target + "/proxy"
	path, rawPath, query := split(check.HTTP.Path)
	to := &url.URL{Scheme: c.apiURL.Scheme, Host: c.apiURL.Host, Path: prefix + path, RawQuery: query}
	if rawPath != "" {
		to.RawPath = (&url.URL{Path: prefix}).EscapedPath() + rawPath
	}
	return request(ctx, to, check.HTTP.Headers)
}

// notProxied is the result if no answer began. It is not known whether the pod, the
// network or the API server is the cause.
func notProxied(err error, check Check) result {
	switch {
	case errors.Is(err, context.Canceled):
		return unreachable("the check was ended")
	case isTimeout(err):
		return unreachable(fmt.Sprintf(
			"there was no answer through the API server within %d s; whether the pod was reached is not known", seconds(check.Timeout)))
	default:
		return unreachable("the API server could not be reached")
	}
}

// Health checks with transport: APIServer reach pods through the API server.
// +kubebuilder:rbac:groups="",resources=pods/proxy,verbs=get

// statusOf returns the API server's own answer; nil if the answer is the pod's.
func statusOf(resp *http.Response, body []byte) *metav1.Status {
	mediaType, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode < 400 || err != nil || mediaType != "application/json" {
		return nil
	}
	var status metav1.Status
	if json.Unmarshal(body, &status) != nil {
		return nil
	}
	if status.Kind != "Status" || status.APIVersion != "v1" || int(status.Code) != resp.StatusCode {
		return nil
	}
	return &status
}

// refused is the result for the API server's own answer. Its message names the operator's
// account and addresses of nodes, so it is not shown.
func refused(status *metav1.Status) result {
	switch status.Reason {
	case metav1.StatusReasonForbidden:
		return result{Forbidden, "the operator may not get pods/proxy here"}
	case metav1.StatusReasonServiceUnavailable:
		return unreachable("the API server could not reach the pod, or the pod refused the connection")
	case metav1.StatusReasonNotFound:
		return unreachable("the API server does not know the pod")
	default:
		return unreachable(fmt.Sprintf("the API server answered %d instead of the pod", status.Code))
	}
}

// connectionHeaders belong to a connection, and are set by its client.
var connectionHeaders = []string{
	"Connection", "Content-Length", "Expect", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// request builds the request of a check.
func request(ctx context.Context, to *url.URL, headers []corev1.HTTPHeader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://pod", http.NoBody)
	if err != nil {
		return nil, err
	}
	req.URL, req.Host = to, ""
	req.Header.Set("User-Agent", "bongsu")
	req.Header.Set("Accept", "*/*")
	given := http.Header{}
	for _, h := range headers {
		if err := checkHeader(h); err != nil {
			return nil, err
		}
		given.Add(h.Name, h.Value)
	}
	maps.Copy(req.Header, given)
	req.Host = given.Get("Host")
	req.Header.Del("Host")
	return req, nil
}

// checkHeader refuses headers that cannot be sent, before net/http quotes them.
func checkHeader(h corev1.HTTPHeader) error {
	if !httpguts.ValidHeaderFieldName(h.Name) {
		return errors.New("a header of httpGet has a name that cannot be sent")
	}
	name := http.CanonicalHeaderKey(h.Name)
	host := name == "Host" && h.Value != "" && !httpguts.ValidHostHeader(h.Value)
	if host || !httpguts.ValidHeaderFieldValue(h.Value) {
		return fmt.Errorf("header %s of httpGet has a value that cannot be sent", name)
	}
	if slices.Contains(connectionHeaders, name) {
		return fmt.Errorf("header %s of httpGet belongs to the connection: leave it out", name)
	}
	return nil
}

// checkProxied refuses headers and paths with a meaning for the API server or a load
// balancer.
func checkProxied(h *HTTP) error {
	for i := range h.Headers {
		name := http.CanonicalHeaderKey(h.Headers[i].Name)
		switch {
		case name == "Host", name == "Authorization", name == "Audit-Id", name == "Forwarded",
			strings.HasPrefix(name, "Impersonate-"), strings.HasPrefix(name, "X-Remote-"), strings.HasPrefix(name, "X-Forwarded-"):
			return fmt.Errorf("header %s of httpGet cannot be sent through the API server: leave it out, or use transport PodIP", name)
		}
	}
	decoded, _, _ := split(h.Path)
	if slices.ContainsFunc(strings.FieldsFunc(decoded, isSlash), isDots) {
		return errors.New("a path of httpGet with . or .. cannot be asked for through the API server")
	}
	return nil
}

func isSlash(r rune) bool { return r == '/' || r == '\\' }

// isDots reports whether a segment is . or .., also if it is encoded again.
func isDots(segment string) bool {
	if further, err := url.PathUnescape(segment); err == nil && further != segment {
		return slices.ContainsFunc(strings.FieldsFunc(further, isSlash), isDots)
	}
	return segment == "." || segment == ".."
}

// split returns the decoded path of a check, the path as given, and the query. Invalid
// encodings are used literally, as the kubelet does.
func split(raw string) (path, rawPath, query string) {
	raw, _, _ = strings.Cut(raw, "#") // the fragment is not sent
	rawPath, query, _ = strings.Cut(raw, "?")
	if !strings.HasPrefix(rawPath, "/") {
		rawPath = "/" + rawPath
	}
	path, err := url.PathUnescape(rawPath)
	if err != nil {
		return rawPath, "", escape(query)
	}
	return path, escape(rawPath), escape(query)
}

// escape encodes bytes that the first line of a request must not contain.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

const (
	// maxMessage is the limit of a message, in bytes.
	maxMessage = 512
	// maxBody is the part of an answer that is read, in bytes.
	maxBody = 8 << 10
)

// line converts a text to one line.
func line(s string) string { return plaintext.Cut(plaintext.Line(s), maxMessage) }

// bodyText is the part of a body that a message shows: plain text and JSON, but no pages.
func bodyText(contentType string, body []byte) string {
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil && contentType != "" || !utf8.Valid(trimRune(body)) {
		return ""
	}
	switch {
	case mediaType == "", mediaType == "text/plain", mediaType == "application/json", strings.HasSuffix(mediaType, "+json"):
		return line(string(body))
	}
	return ""
}

// trimRune removes an incomplete rune at the end of a body that was cut.
func trimRune(body []byte) []byte {
	if len(body) < maxBody {
		return body
	}
	for range utf8.UTFMax - 1 {
		if r, size := utf8.DecodeLastRune(body); r != utf8.RuneError || size != 1 {
			break
		}
		body = body[:len(body)-1]
	}
	return body
}
