package chaos

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// TestObjectsThatCannotBeReadDelayNoOtherNamespace lets all reads of the pods of one namespace
// fail, while its Events regard many of them. The other namespace has a pod and an alarm that
// needs it. In the end, the operator loses its disk, and the reads succeed again.
func TestObjectsThatCannotBeReadDelayNoOtherNamespace(t *testing.T) {
	const hostileEvents, victimEvents = 200, 15
	s := newFixture(t, cluster.Shared(t))
	hostile := s.Namespace(t, nil)
	victim, other := s.needingPod(s.namespace), s.needingPod(hostile)
	proxy := s.newProxy()
	m := newManager(s, "--allowed-receiver-addresses", "127.0.0.0/8", "--log-format=text")
	proxy.use(m)
	m.startReady()

	before := s.latencyOfPod(victim, "before", victimEvents)
	proxy.fail("/api/v1/namespaces/" + hostile + "/pods/")
	var expected []string
	for i := range hostileEvents {
		event := newEvent(hostile, fmt.Sprint("unread-", i))
		if i%2 == 0 {
			event.Regarding.Name = "web"
			expected = append(expected, event.Note)
		}
		s.create(event)
	}
	during := s.latencyOfPod(victim, "during", victimEvents)
	t.Attr("summary", fmt.Sprintf("median latency %v, %v during failures; %d failed reads for %d Events", before, during, proxy.failed(), hostileEvents))
	if during > 2*before+500*time.Millisecond {
		t.Errorf("the median latency is %v, and %v while reads fail", before, during)
	}

	s.awaitWaiting(other, hostileEvents)
	if n := proxy.failed(); n == 0 || n >= hostileEvents {
		t.Errorf("%d failed reads for %d Events, want fewer than one for each", n, hostileEvents)
	}
	if n := len(other.receipts()); n > 0 {
		t.Errorf("%d messages although the pod cannot be read", n)
	}
	m.kill()
	m.loseDisk()
	m.start()
	proxy.fail("")
	s.awaitAll(other, expected)
	s.awaitWaiting(other, 0)
	if report := other.Audit(expected, identify); len(report.Unexpected) > 0 {
		t.Errorf("messages about pods that do not exist: %q", head(report.Unexpected))
	}
	s.assertNone(other, other.repetitions())
}

// needingPod creates the pod web, and an Alarm that needs labels of the pod that an Event
// regards. It returns the Alarm's receiver.
func (s *fixture) needingPod(namespace string) *receiver {
	s.t.Helper()
	r := newReceiver(s.t, namespace)
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "needs-pod"}
	r.key = kube.Key{Kind: v1alpha1.KindAlarmReceiver, Namespace: namespace, Name: meta.Name}.String()
	s.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}}) // no controller creates it
	s.create(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "image"}}},
	})
	s.create(&v1alpha1.AlarmReceiver{
		ObjectMeta: meta, Spec: v1alpha1.AlarmReceiverSpec{Webhook: &v1alpha1.WebhookReceiver{HTTPServer: v1alpha1.HTTPServer{URL: v1alpha1.ServerURL(r.URL())}}},
	})
	s.create(&v1alpha1.Alarm{ObjectMeta: meta, Spec: v1alpha1.NamespacedAlarmSpec{
		AlarmSpec: v1alpha1.AlarmSpec{Match: []v1alpha1.EventMatch{{
			Reasons: []string{reason}, ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		}}},
		Receivers: []v1alpha1.ReceiverReference{{Name: meta.Name}},
	}})
	return r
}

// latencyOfPod creates Events of the pod web one after another, and returns the median time until
// the receiver has them.
func (s *fixture) latencyOfPod(r *receiver, name string, n int) time.Duration {
	s.t.Helper()
	var took []time.Duration
	for i := range n {
		event := newEvent(s.namespace, fmt.Sprint(name, "-", i))
		event.Regarding.Name = "web"
		begun := time.Now()
		s.create(event)
		s.awaitAll(r, []string{event.Note})
		took = append(took, r.receipts()[event.Note][0].Sub(begun))
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// awaitWaiting waits until the checkpoint has n occurrences that wait for a receiver.
func (s *fixture) awaitWaiting(r *receiver, n int) {
	s.t.Helper()
	gomega.NewWithT(s.t).Eventually(func() (int, error) {
		c, err := s.checkpoint()
		waiting := 0
		for id, held := range c.Waiting {
			if alarm.ReceiverKey(id) == r.key {
				waiting += len(held)
			}
		}
		return waiting, err
	}).WithTimeout(patience).Should(gomega.Equal(n), "occurrences in the checkpoint")
}

// proxy is between the operator and the API server. It answers some reads with 503.
type proxy struct {
	t   *testing.T
	url string
	ca  []byte

	mu       sync.Mutex
	prefix   string // of the paths that fail
	failures int
}

func (s *fixture) newProxy() *proxy {
	s.t.Helper()
	config := s.OperatorConfig(s.t)
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(config))
	if err != nil {
		s.t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		s.t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
	}
	p := &proxy{t: s.t}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.fails(r) {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	s.t.Cleanup(server.CloseClientConnections) // watches do not end
	p.url, p.ca = server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return p
}

// use makes an operator connect to the proxy.
func (p *proxy) use(m *manager) {
	p.t.Helper()
	path := m.args[1] // after --kubeconfig
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, c := range config.Clusters {
		c.Server, c.CertificateAuthorityData = p.url, p.ca
	}
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		p.t.Fatal(err)
	}
}

// fail makes reads of paths with this prefix fail, or none if it is empty.
func (p *proxy) fail(prefix string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prefix = prefix
}

func (p *proxy) fails(r *http.Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	fails := p.prefix != "" && r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, p.prefix)
	if fails {
		p.failures++
	}
	return fails
}

func (p *proxy) failed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failures
}
