package healthcheck_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bongsu-io/bongsu/pkg/healthcheck"
)

func proxied(h *healthcheck.HTTP) { h.Transport, h.IP = healthcheck.APIServer, "" }

// statusBody is what the API server says itself.
func statusBody(t *testing.T, err *apierrors.StatusError) http.HandlerFunc {
	t.Helper()
	s := err.Status()
	s.Kind, s.APIVersion = "Status", "v1"
	body, e := json.Marshal(s)
	if e != nil {
		t.Fatal(e)
	}
	return respond(int(s.Code), "application/json", string(body))
}

func TestAnswersThroughTheAPIServer(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for what, tc := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"200":               {respond(200, "text/plain", "ok"), "Passed"},
		"302":               {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/followed", http.StatusFound) }, "Passed"},
		"the app's 500":     {respond(500, "text/plain", "no database"), "Failed answered 500 Internal Server Error: no database"},
		"the app's 503":     {respond(503, "application/json", `{"kind": "Trouble"}`), `Failed answered 503 Service Unavailable: {"kind": "Trouble"}`},
		"the app's 403":     {respond(403, "text/plain", "go away"), "Failed answered 403 Forbidden: go away"},
		"the app's 404":     {respond(404, "text/html", "<p>"), "Failed answered 404 Not Found"},
		"not reached":       {statusBody(t, apierrors.NewServiceUnavailable("error trying to reach service: dial tcp 192.0.2.7:80: s3cret")), "Unreachable the API server could not reach the pod, or the pod refused the connection"},
		"forbidden":         {statusBody(t, apierrors.NewForbidden(pods, "web-0", io.EOF)), "Forbidden the operator may not get pods/proxy here"},
		"no such pod":       {statusBody(t, apierrors.NewNotFound(pods, "web-0")), "Unreachable the API server does not know the pod"},
		"no address":        {statusBody(t, apierrors.NewBadRequest("address not allowed")), "Unreachable the API server answered 400 instead of the pod"},
		"in trouble":        {statusBody(t, apierrors.NewInternalError(io.EOF)), "Unreachable the API server answered 500 instead of the pod"},
		"not known":         {statusBody(t, apierrors.NewUnauthorized("no")), "Unreachable the API server answered 401 instead of the pod"},
		"too much to do":    {respond(429, "text/plain", "Too many requests, please try again later.\n"), "Unreachable the API server, or the pod behind it, has too much to do"},
		"of another code":   {respond(500, "application/json", `{"kind": "Status", "apiVersion": "v1", "code": 503, "reason": "ServiceUnavailable"}`), `Failed answered 500 Internal Server Error: {"kind": "Status", "apiVersion": "v1", "code": 503, "reason": "ServiceUnavailable"}`},
		"a Status, healthy": {respond(200, "application/json", `{"kind": "Status", "apiVersion": "v1", "code": 200}`), "Passed"},
		"no answer":         {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "Unreachable there was no answer through the API server within 1 s; whether the pod was reached is not known"},
		"half an answer": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, "Failed did not answer within 1 s"},
		"hung up": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "Unreachable the API server could not be reached"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.URL.Path, "followed") {
					t.Error("the redirect was followed")
				}
				tc.answer(w, r)
			})
			expect(t, tc.want, run(t, checker(t, s.URL, nil, dialError(io.EOF)), get("/healthz", proxied)))
		})
	}
}

func TestTheRequestToTheAPIServer(t *testing.T) {
	const pod = "/api/v1/namespaces/team/pods/"
	for what, tc := range map[string]struct {
		base  string
		check healthcheck.Check
		want  string
	}{
		"a path and query":  {"", get("/a?b=c", proxied), "GET " + pod + "web-0:8080/proxy/a?b=c"},
		"nothing":           {"", get("", proxied), "GET " + pod + "web-0:8080/proxy/"},
		"by HTTPS":          {"", get("/a", proxied, https), "GET " + pod + "https:web-0:8080/proxy/a"},
		"behind a gateway":  {"/k8s/clusters/c-1", get("/a", proxied), "GET /k8s/clusters/c-1" + pod + "web-0:8080/proxy/a"},
		"an encoded path":   {"", get("/a%2Fb c", proxied), "GET " + pod + "web-0:8080/proxy/a%2Fb%20c"},
		"dots in a name":    {"", get("/a..b/.c", proxied), "GET " + pod + "web-0:8080/proxy/a..b/.c"},
		"a query with dots": {"", get("/a?../..", proxied), "GET " + pod + "web-0:8080/proxy/a?../.."},
		"a header":          {"", get("/", proxied, header("X-A", "1")), "GET " + pod + "web-0:8080/proxy/ X-A=1"},
	} {
		t.Run(what, func(t *testing.T) {
			got := ""
			s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
				got = r.Method + " " + r.RequestURI
				if a := r.Header.Get("X-A"); a != "" {
					got += " X-A=" + a
				}
				if r.Header.Get("Authorization") != "Bearer "+secret {
					t.Error("it is not asked with the operator's permissions")
				}
				if r.Host != r.Context().Value(http.LocalAddrContextKey).(interface{ String() string }).String() {
					t.Errorf("asked as %s", r.Host)
				}
			})
			expect(t, "Passed", run(t, checker(t, s.URL+tc.base, nil, nil), tc.check))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The author of a health check must not be able to use the operator's permissions.
func TestPathsThatMustNotReachTheAPIServer(t *testing.T) {
	for what, tc := range map[string]struct {
		check healthcheck.Check
		want  string
	}{
		"another user":          {get("/", proxied, header("Impersonate-User", "admin")), "header Impersonate-User"},
		"another group":         {get("/", proxied, header("impersonate-group", "system:masters")), "header Impersonate-Group"},
		"something more of one": {get("/", proxied, header("Impersonate-Extra-scopes", "x")), "header Impersonate-Extra-Scopes"},
		"a proxy's user":        {get("/", proxied, header("X-Remote-User", "admin")), "header X-Remote-User"},
		"other credentials":     {get("/", proxied, header("AUTHORIZATION", "Bearer x")), "header Authorization"},
		"another host":          {get("/", proxied, header("Host", "evil.example")), "header Host"},
		"a forwarded one":       {get("/", proxied, header("X-Forwarded-Host", "evil.example")), "header X-Forwarded-Host"},
		"an upgrade":            {get("/", proxied, header("Upgrade", "SPDY/3.1")), "header Upgrade"},
		"an audit's mark":       {get("/", proxied, header("Audit-ID", "x")), "header Audit-Id"},
		"up":                    {get("/../../../secrets/x", proxied), "a path"},
		"up, without a slash":   {get("..", proxied), "a path"},
		"here":                  {get("/a/./b", proxied), "a path"},
		"up, encoded":           {get("/%2e%2e/secrets", proxied), "a path"},
		"up, encoded twice":     {get("/%252e%252e/secrets", proxied), "a path"},
		"up, slashes encoded":   {get("/a%2f..%2fsecrets", proxied), "a path"},
		"up, slashes twice":     {get("/a%252f..%252fsecrets", proxied), "a path"},
		"up, backwards":         {get(`/a\..\b`, proxied), "a path"},
		"up, no encoding":       {get("/%zz/../x", proxied), "a path"},
	} {
		t.Run(what, func(t *testing.T) {
			s := serve(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("asked for %s", r.RequestURI) })
			got := brief(run(t, checker(t, s.URL, nil, nil), tc.check))
			if !strings.HasPrefix(got, "Unreachable "+tc.want) {
				t.Error(got)
			}
		})
	}
}
