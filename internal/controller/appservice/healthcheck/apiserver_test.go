package healthcheck_test

import (
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/controller/appservice/healthcheck"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// ownAddress is an address of this machine that the API server takes for a pod's.
func ownAddress(t *testing.T) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	t.Skip("this machine has no address but those of its loopback interface")
	return ""
}

// serveAt starts a server that acts as the pod at an address.
func serveAt(t *testing.T, ip string) (port int32) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.URL.Query().Get("code"))
		w.Header().Set("Location", "/elsewhere")
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(code)
		_, _ = w.Write([]byte(r.URL.EscapedPath() + " Authorization=" + r.Header.Get("Authorization")))
	})}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return int32(l.Addr().(*net.TCPAddr).Port)
}

func TestAnswersOfTheAPIServerAreDistinguishedFromThoseOfTheApp(t *testing.T) {
	c := cluster.Shared(t)
	ns, ip := c.Namespace(t, nil), ownAddress(t)
	open := serveAt(t, ip)
	closed := serveAt(t, "127.0.0.1") // no server listens at the requested address
	may := c.User(t, ns, cluster.Rule("", "pods/proxy", "get"))
	mayNot := c.User(t, ns, cluster.Rule("", "pods", "get"))
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "default"}}
	if err := c.Client.Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	makePod(t, c, ns, "web-0", ip)
	makePod(t, c, ns, "starting", "")

	for what, tc := range map[string]struct {
		config *rest.Config
		pod    string
		port   int32
		path   string
		header [2]string
		want   string
	}{
		"200":        {config: may, port: open, path: "/?code=200", want: "Passed"},
		"302":        {config: may, port: open, path: "/?code=302", want: "Passed"},
		"500":        {config: may, port: open, path: "/a/b?code=500", want: "Failed answered 500 Internal Server Error: /a/b Authorization="},
		"503":        {config: may, port: open, path: "/?code=503", want: "Failed answered 503 Service Unavailable: / Authorization="},
		"403":        {config: may, port: open, path: "/?code=403", want: "Failed answered 403 Forbidden: / Authorization="},
		"no server":  {config: may, port: closed, want: "Unreachable the API server could not reach the pod, or the pod refused the connection"},
		"no address": {config: may, pod: "starting", port: open, want: "Unreachable the API server answered 400 instead of the pod"},
		"no pod":     {config: may, pod: "gone", port: open, want: "Unreachable the API server does not know the pod"},
		"forbidden":  {config: mayNot, port: open, want: "Forbidden the operator may not get pods/proxy here"},
		"a page is wanted": {
			config: mayNot, port: open, header: [2]string{"Accept", "text/html"}, want: "Forbidden the operator may not get pods/proxy here",
		},
	} {
		t.Run(what, func(t *testing.T) {
			checks, err := healthcheck.New(clock.RealClock{}, tc.config, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			check := get(tc.path, proxied)
			if tc.header[0] != "" {
				header(tc.header[0], tc.header[1])(check.HTTP)
			}
			check.Namespace, check.Pod, check.HTTP.Port, check.Timeout = ns, "web-0", tc.port, 30*time.Second
			if tc.pod != "" {
				check.Pod = tc.pod
			}
			if got := brief(checks.Run(t.Context(), check)); got != strings.TrimSpace(tc.want) {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

func makePod(t *testing.T, c *cluster.Cluster, ns, name, ip string) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app"}}},
	}
	if err := c.Client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if ip == "" {
		return
	}
	pod.Status.PodIP, pod.Status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	if err := c.Client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
}
