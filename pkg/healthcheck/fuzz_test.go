package healthcheck_test

import (
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/bongsu-io/bongsu/pkg/healthcheck"
)

// FuzzPath looks for paths that would make more of a request than its path, or lead
// elsewhere through the API server.
func FuzzPath(f *testing.F) {
	for _, p := range []string{"", "/healthz?a=b", "/a%2Fb c", "//evil/x", "/%252e%252e%252f", "/a/..;/b", "/%zz/../", "/\r\nX: 1", "?/..", "/%5c..%5c", "/é"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		uri, err := healthcheck.URI(raw)
		if err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		if !strings.HasPrefix(uri, "/") || strings.ContainsFunc(uri, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			t.Errorf("%q asks for %q", raw, uri)
		}
		if !healthcheck.Proxied(raw) {
			return
		}
		asked, _, _ := strings.Cut(uri, "?")
		for range 5 {
			if cleaned := path.Clean("/a/b/proxy" + strings.ReplaceAll(asked, `\`, "/")); !strings.HasPrefix(cleaned+"/", "/a/b/proxy/") {
				t.Fatalf("%q leads to %q", raw, cleaned)
			}
			decoded, err := url.PathUnescape(asked)
			if err != nil {
				return
			}
			asked = decoded
		}
	})
}
