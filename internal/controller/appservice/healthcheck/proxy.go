package healthcheck

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/internal/controller/appservice/health"
)

// askProxy has the API server ask a pod. The connection is the one that the operator
// has to it.
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

// notProxied is for an answer that did not begin. Whether the pod, the way to it or
// the API server is at fault is not known.
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

// statusOf returns what the API server says itself; nil if it passed an answer on.
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

// refused is for what the API server says itself. Its words name the operator's account
// and the addresses of nodes, so they are not told.
func refused(status *metav1.Status) result {
	switch status.Reason {
	case metav1.StatusReasonForbidden:
		return result{health.Forbidden, "the operator may not get pods/proxy here"}
	case metav1.StatusReasonServiceUnavailable:
		return unreachable("the API server could not reach the pod, or the pod refused the connection")
	case metav1.StatusReasonNotFound:
		return unreachable("the API server does not know the pod")
	default:
		return unreachable(fmt.Sprintf("the API server answered %d instead of the pod", status.Code))
	}
}
