package healthcheck

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
	corev1 "k8s.io/api/core/v1"
)

// connectionHeaders belong to a connection, and to whoever makes it.
var connectionHeaders = []string{
	"Connection", "Content-Length", "Expect", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// request makes the request of a check.
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

// checkHeader refuses what cannot be sent, before net/http quotes it.
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

// checkProxied refuses headers and paths that mean something to the API server, or to
// what stands in front of it.
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

// isDots says whether a segment, maybe encoded once more, leads elsewhere.
func isDots(segment string) bool {
	if further, err := url.PathUnescape(segment); err == nil && further != segment {
		return slices.ContainsFunc(strings.FieldsFunc(further, isSlash), isDots)
	}
	return segment == "." || segment == ".."
}

// split returns the path of a check decoded and as it is, and its query. What is no
// encoding is taken as it reads, as the kubelet does.
func split(raw string) (path, rawPath, query string) {
	raw, _, _ = strings.Cut(raw, "#") // that is not sent
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

// escape encodes what cannot stand in the first line of a request, and leaves the rest
// as it is.
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
