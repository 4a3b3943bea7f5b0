package open_test

import (
	"context"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/cli/open"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// All simulated pods forward the port of Jupyter to one server, and port 8080 to another. The
// servers answer with the path and the query of the request.
func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	jupyter, stop := echo("")
	defer stop()
	other, stopOther := echo("HTTP ")
	defer stopOther()
	return cluster.Main(m, cluster.Whole(1), cluster.Forward(workload.NotebookPort, jupyter), cluster.Forward(8080, other))
}

// echo starts a server and returns its port.
func echo(name string) (port int32, stop func()) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, name+r.URL.RequestURI())
	}))
	return int32(server.Listener.Addr().(*net.TCPAddr).Port), server.Close
}

// patience is the time limit for a notebook to start. The machine may be busy.
const patience = 2 * time.Minute

// lab is a namespace with a Jupyter "nb".
type lab struct {
	*cluster.Cluster
	t         *testing.T
	g         *WithT
	namespace string
}

// newLab also creates the objects in the namespace.
func newLab(t *testing.T, spec string, objects ...client.Object) *lab {
	t.Helper()
	c, _ := cluster.SharedOperator(t)
	l := &lab{Cluster: c, t: t, g: NewWithT(t), namespace: c.Namespace(t, nil)}
	for _, o := range objects {
		o.SetNamespace(l.namespace)
		l.g.Expect(c.Client.Create(t.Context(), o)).To(Succeed())
	}
	l.g.Expect(c.Client.Create(t.Context(), cluster.Manifest(t, v1alpha1.KindJupyter, l.namespace, "nb", spec))).To(Succeed())
	return l
}

func (l *lab) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: l.namespace, Name: name}
}

// token returns the token of the notebook, which the operator creates.
func (l *lab) token() string {
	l.t.Helper()
	secret := &corev1.Secret{ObjectMeta: l.meta("nb-token")}
	l.g.Eventually(func() error { return l.Client.Get(l.t.Context(), client.ObjectKeyFromObject(secret), secret) }).Should(Succeed())
	return string(secret.Data["token"])
}

func (l *lab) patch(patch string) {
	l.t.Helper()
	j := &v1alpha1.Jupyter{ObjectMeta: l.meta("nb")}
	l.g.Expect(l.Client.Patch(l.t.Context(), j, client.RawPatch("application/merge-patch+json", []byte(patch)))).To(Succeed())
}

// opening is a call of open.Run.
type opening struct {
	l *lab
	// pages receives the paths of the files that the browser is opened with.
	pages      chan string
	lines, out cluster.Buffer
	ended      chan error
	stop       context.CancelFunc
}

func (l *lab) open(change func(*open.Config)) *opening {
	l.t.Helper()
	o := &opening{l: l, pages: make(chan string, 1), ended: make(chan error, 1)}
	config := open.Config{
		REST: l.RESTConfig(), Namespace: l.namespace, Name: "nb", Address: net.IPv4(127, 0, 0, 1),
		Browse: func(page string) error { o.pages <- page; return nil }, Out: &o.out, PodInterval: time.Second,
		Status: func(line string) { _, _ = fmt.Fprintln(&o.lines, line) }, Clock: clock.RealClock{},
	}
	if change != nil {
		change(&config)
	}
	ctx, stop := context.WithCancel(l.t.Context())
	o.stop = stop
	l.t.Cleanup(stop)
	go func() { o.ended <- open.Run(ctx, config) }()
	return o
}

// page returns the file that the browser was opened with.
func (o *opening) page() string {
	o.l.t.Helper()
	var page string
	o.l.g.Eventually(o.pages).WithTimeout(patience).Should(Receive(&page), o.lines.String)
	return page
}

// link returns the URL to which that file redirects.
func (o *opening) link() string {
	o.l.t.Helper()
	content, err := os.ReadFile(o.page())
	o.l.g.Expect(err).NotTo(HaveOccurred())
	return redirectOf(o.l.t, string(content))
}

// redirectOf returns the URL to which a page redirects.
func redirectOf(t *testing.T, page string) string {
	t.Helper()
	found := regexp.MustCompile(`<meta http-equiv="refresh" content="0; url=([^"]*)">`).FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("no redirect in %s", page)
	}
	return html.UnescapeString(found[1])
}

// address returns the local address of the notebook.
func (o *opening) address() string {
	o.l.t.Helper()
	found := regexp.MustCompile(`is at (http://\S+) until`)
	o.l.g.Eventually(o.lines.String).WithTimeout(patience).Should(MatchRegexp(found.String()))
	return found.FindStringSubmatch(o.lines.String())[1]
}

// fails waits until Run returns an error, and returns its text.
func (o *opening) fails() string {
	o.l.t.Helper()
	var err error
	o.l.g.Eventually(o.ended).WithTimeout(patience).Should(Receive(&err), o.lines.String)
	o.l.g.Expect(err).To(HaveOccurred(), o.lines.String)
	return err.Error()
}

// end stops Run as Ctrl-C does.
func (o *opening) end() {
	o.l.t.Helper()
	o.stop()
	o.l.g.Eventually(o.ended).Should(Receive(BeNil()))
}

// get returns the status and the body of an answer, after redirects.
func get(address string) (status int, body string) {
	resp, err := http.Get(address)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

func TestOnlyTheUserCanReadTheTokenForTheBrowser(t *testing.T) {
	l := newLab(t, "{}")
	o := l.open(nil)
	page, token := o.page(), l.token()
	l.g.Expect(page).NotTo(ContainSubstring(token))
	for path, want := range map[string]os.FileMode{page: 0o600, filepath.Dir(page): os.ModeDir | 0o700} {
		info, err := os.Stat(path)
		l.g.Expect(err).NotTo(HaveOccurred())
		l.g.Expect(info.Mode()).To(Equal(want))
	}
	content, err := os.ReadFile(page)
	l.g.Expect(err).NotTo(HaveOccurred())
	status, body := get(redirectOf(t, string(content)))
	l.g.Expect(status).To(Equal(http.StatusOK))
	l.g.Expect(body).To(Equal("/?token=" + token))

	_, body = get(o.address() + "lab")
	l.g.Expect(body).To(Equal("/lab"))
	o.end()
	l.g.Expect(filepath.Dir(page)).NotTo(BeADirectory())
	l.g.Expect(o.lines.String() + o.out.String()).NotTo(ContainSubstring(token))
}

func TestTheURLIsPrintedOnRequest(t *testing.T) {
	l := newLab(t, `{auth: {tokenSecretRef: {name: own, key: key}}}`, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "own"}, Data: map[string][]byte{"key": []byte("a b&c")},
	})
	o := l.open(func(c *open.Config) { c.Browse, c.PrintURL = nil, true })
	address := o.address()
	l.g.Eventually(o.out.String).Should(Equal(address + "?token=a+b%26c\n"))
	o.end()
	l.g.Expect(o.lines.String()).NotTo(Or(ContainSubstring("a b&c"), ContainSubstring("a+b%26c")))
}

func TestAnHTTPServerIsOpenedWithoutAToken(t *testing.T) {
	l := newLab(t, "{access: {path: /team}, server: {type: HTTP, port: 8080}}")
	user := l.User(t, l.namespace, cluster.Rule(v1alpha1.Group, "jupyters", "get"), cluster.Rule("", "pods/portforward", "create"))
	o := l.open(func(c *open.Config) { c.REST = user })
	_, body := get(o.link())
	l.g.Expect(body).To(Equal("HTTP /team/"))
	o.end()
}

func TestTheBrowserIsSentToThePathOfTheServer(t *testing.T) {
	l := newLab(t, "access: {path: /team/lab}")
	o := l.open(nil)
	_, body := get(o.link())
	l.g.Expect(body).To(Equal("/team/lab/?token=" + l.token()))
	l.g.Expect(o.address()).To(HaveSuffix("/team/lab/"))
	o.end()
}

// proxyOf returns a configuration that connects through a proxy without WebSocket. upgrades
// returns the protocols that it was asked for.
func proxyOf(t *testing.T, config *rest.Config) (through *rest.Config, upgrades func() []string) {
	t.Helper()
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	host, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(host)
	forward.Transport = &http.Transport{TLSClientConfig: tls}
	var mu sync.Mutex
	var seen []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		upgrade := r.Header.Get("Upgrade")
		if upgrade != "" {
			mu.Lock()
			seen = append(seen, upgrade)
			mu.Unlock()
		}
		if upgrade == "websocket" {
			http.Error(w, "no WebSocket here", http.StatusForbidden)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(server.CloseClientConnections)
	return &rest.Config{Host: server.URL}, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return seen
	}
}

func TestSPDYIsUsedWhereWebSocketIsRefused(t *testing.T) {
	l := newLab(t, "{}")
	through, upgrades := proxyOf(t, l.RESTConfig())
	o := l.open(func(c *open.Config) { c.REST = through })
	status, body := get(o.link())
	l.g.Expect(status).To(Equal(http.StatusOK), body)
	l.g.Expect(upgrades()).To(Equal([]string{"websocket", "SPDY/3.1"}))
	o.end()
}

func TestAReplacedPodIsConnectedAtTheSamePort(t *testing.T) {
	l := newLab(t, "{}")
	o := l.open(nil)
	address := o.address()
	l.g.Expect(l.Client.Delete(t.Context(), &corev1.Pod{ObjectMeta: l.meta("nb-0")}, client.GracePeriodSeconds(0))).To(Succeed())
	l.g.Eventually(o.lines.String).WithTimeout(patience).Should(ContainSubstring("connected to jupyter " + l.namespace + "/nb again"))
	status, body := get(address + "tree")
	l.g.Expect(status).To(Equal(http.StatusOK), body)
	l.g.Expect(body).To(Equal("/tree"))
	l.g.Expect(o.lines.String()).To(ContainSubstring("pod was replaced"))
	o.end()
	l.g.Expect(o.pages).To(HaveLen(1), "the browser was opened once")
}

func TestAnAddressThatChangesIsAnnounced(t *testing.T) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "own"}, Data: map[string][]byte{"key": []byte("old")}}
	l := newLab(t, "{access: {path: /old}, auth: {tokenSecretRef: {name: own, key: key}}, updateStrategy: {type: Recreate}}", secret)
	o := l.open(func(c *open.Config) { c.Browse, c.PrintURL = nil, true })
	before := o.address()
	after := strings.Replace(before, "/old/", "/new/", 1)
	secret.Data["key"] = []byte("new")
	l.g.Expect(l.Client.Update(t.Context(), secret)).To(Succeed())
	l.patch(`{"spec": {"access": {"path": "/new"}}}`)
	l.g.Eventually(o.lines.String).WithTimeout(patience).Should(ContainSubstring("/nb is at " + after + " until"))
	l.g.Eventually(o.out.String).Should(HaveSuffix(after + "?token=new\n"))
	l.g.Expect(o.out.String()).To(HavePrefix(before + "?token=old\n"))
	_, body := get(after + "tree")
	l.g.Expect(body).To(Equal("/new/tree"))
	o.end()
}

func TestASuspendedNotebookIsStartedOnRequest(t *testing.T) {
	l := newLab(t, "suspend: true")
	l.g.Expect(l.open(nil).fails()).To(Equal("jupyter " + l.namespace + "/nb is suspended: add --resume to start it"))
	l.patch(`{"metadata": {"annotations": {"bongsu.io/culled-at": "2026-11-20T19:54:16Z"}}}`)
	l.g.Expect(l.open(nil).fails()).To(ContainSubstring("is suspended because it was idle: add --resume"))

	l.patch(`{"metadata": {"annotations": {"bongsu.io/culled-reason": "CulledFailing"}}}`)
	l.g.Expect(l.open(nil).fails()).To(ContainSubstring("is suspended because it failed for too long: add --resume"))

	// A user who cannot connect does not start it.
	user := l.User(t, l.namespace, cluster.Rule(v1alpha1.Group, "jupyters", "get", "patch"))
	text := l.open(func(c *open.Config) { c.REST, c.Resume = user, true }).fails()
	l.g.Expect(text).To(ContainSubstring("you may not create pods/portforward"))
	j := &v1alpha1.Jupyter{ObjectMeta: l.meta("nb")}
	l.g.Expect(l.Client.Get(t.Context(), client.ObjectKeyFromObject(j), j)).To(Succeed())
	l.g.Expect(j.Spec.Suspend).To(BeTrue())

	o := l.open(func(c *open.Config) { c.Resume = true })
	status, body := get(o.link())
	l.g.Expect(status).To(Equal(http.StatusOK), body)
	l.patch(`{"spec": {"suspend": true}}`)
	l.g.Expect(o.fails()).To(ContainSubstring("is suspended: add --resume"))
}

func TestANotebookThatDoesNotStartIsExplained(t *testing.T) {
	l := newLab(t, `{schedulingGracePeriodSeconds: 0, resources: {requests: {cpu: "320"}}}`)
	text := l.open(nil).fails()
	for _, want := range []string{"jupyter " + l.namespace + "/nb does not start", "Insufficient cpu", "request less CPU", "bongsu explain jupyter/nb -n " + l.namespace} {
		l.g.Expect(text).To(ContainSubstring(want))
	}
}

func TestAStartingNotebookShowsItsProgress(t *testing.T) {
	l := newLab(t, "template: {metadata: {annotations: {bongsu-local/simulate: none}}}")
	o := l.open(nil)
	l.g.Eventually(o.lines.String).Should(ContainSubstring("waiting for jupyter " + l.namespace + "/nb: the notebook is starting\n"))
	o.end()
	l.g.Expect(strings.Count(o.lines.String(), "is starting\n")).To(Equal(1), "a line is not repeated")
}

func TestAMissingPermissionIsNamed(t *testing.T) {
	l := newLab(t, "{}")
	token := l.token()
	jupyters := cluster.Rule(v1alpha1.Group, "jupyters", "get")
	for missing, user := range map[string]*rest.Config{
		"you may not create pods/portforward in namespace " + l.namespace: l.User(t, l.namespace, jupyters, cluster.Rule("", "secrets", "get")),
		"you may not get secrets in namespace " + l.namespace:             l.User(t, l.namespace, jupyters, cluster.Rule("", "pods/portforward", "create")),
		"cannot get resource \"jupyters\"":                                l.User(t, l.namespace, cluster.Rule("", "pods", "get")),
	} {
		text := l.open(func(c *open.Config) { c.REST = user }).fails()
		l.g.Expect(text).To(ContainSubstring(missing))
		l.g.Expect(text).NotTo(ContainSubstring(token))
	}
	// These permissions are sufficient.
	user := l.User(t, l.namespace, jupyters, cluster.Rule("", "secrets", "get"), cluster.Rule("", "pods/portforward", "create"))
	o := l.open(func(c *open.Config) { c.REST = user })
	status, body := get(o.link())
	l.g.Expect(status).To(Equal(http.StatusOK), body)
	o.end()
}

func TestAPortInUseIsReported(t *testing.T) {
	l := newLab(t, "{}")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	l.g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = taken.Close() }()
	port := taken.Addr().(*net.TCPAddr).Port
	text := l.open(func(c *open.Config) { c.Port = uint16(port) }).fails()
	l.g.Expect(text).To(ContainSubstring(fmt.Sprintf("cannot listen on port %d of 127.0.0.1", port)))
	l.g.Expect(text).To(HaveSuffix("choose another port, or leave out --port"))
}

func TestADeletedNotebookEndsTheCommand(t *testing.T) {
	l := newLab(t, "{}")
	o := l.open(nil)
	o.address()
	l.g.Expect(l.Client.Delete(t.Context(), &v1alpha1.Jupyter{ObjectMeta: l.meta("nb")})).To(Succeed())
	l.g.Expect(o.fails()).To(ContainSubstring("not found"))
}
