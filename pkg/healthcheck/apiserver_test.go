package healthcheck_test

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/pkg/healthcheck"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

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
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	t.Attr("rerun", "allowed")
	const ns = "team"
	ip := ownAddress(t)
	c, api := startCluster(t, ns)
	open := serveAt(t, ip)
	closed := serveAt(t, "127.0.0.1") // no server listens at the requested address
	may, mayNot := userOf(t, c, api, ns, "pods/proxy"), userOf(t, c, api, ns, "pods")
	makePod(t, api, ns, "web-0", ip)
	makePod(t, api, ns, "starting", "")

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

// startCluster starts a cluster with a namespace, which only this test uses.
func startCluster(t *testing.T, namespace string) (*localcluster.Cluster, kubernetes.Interface) {
	t.Helper()
	c, err := localcluster.Start(t.Context(), localcluster.Config{Dir: t.TempDir(), UnsafeNoFsync: true, GCPercent: 200})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop(context.Background()) })
	api, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	created := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := api.CoreV1().Namespaces().Create(t.Context(), created, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := api.CoreV1().ServiceAccounts(namespace).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return c, api
}

// userOf returns the configuration of a user who may get a resource, once the API server allows it.
func userOf(t *testing.T, c *localcluster.Cluster, api kubernetes.Interface, namespace, resource string) *rest.Config {
	t.Helper()
	name := "user-of-" + strings.ReplaceAll(resource, "/", "-")
	meta := metav1.ObjectMeta{Name: name}
	_, err := api.RbacV1().Roles(namespace).Create(t.Context(), &rbacv1.Role{
		ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps", resource}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = api.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta,
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config, err := c.ClientConfigFor(name)
	if err != nil {
		t.Fatal(err)
	}
	user, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := user.CoreV1().ConfigMaps(namespace).Get(ctx, "none", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil // until then, it is forbidden
	})
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func makePod(t *testing.T, api kubernetes.Interface, ns, name, ip string) {
	t.Helper()
	pod, err := api.CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if ip == "" {
		return
	}
	pod.Status.PodIP, pod.Status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	if _, err := api.CoreV1().Pods(ns).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}
