package probe_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bongsu-io/bongsu/pkg/localcluster"
	"github.com/bongsu-io/bongsu/pkg/probe"
)

// healthKey is where the ConfigMap of the test contains the health of its pod, as a status
// would.
const healthKey = "health"

// configMaps is an operator whose owners are ConfigMaps, each with a pod of the same name.
type configMaps struct {
	client     client.Client
	prober     *probe.Prober
	spec       probe.Spec
	reconciles atomic.Int32
}

func (c *configMaps) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	c.reconciles.Add(1)
	var owner corev1.ConfigMap
	var pod corev1.Pod
	if err := c.client.Get(ctx, req.NamespacedName, &owner); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if err := c.client.Get(ctx, req.NamespacedName, &pod); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	var stored []probe.PodHealth
	_ = json.Unmarshal([]byte(owner.Data[healthKey]), &stored)
	health, err := json.Marshal(c.prober.Probe(req.NamespacedName, &c.spec, []*corev1.Pod{&pod}, stored))
	if err != nil || owner.Data[healthKey] == string(health) {
		return reconcile.Result{}, err
	}
	owner.Data = map[string]string{healthKey: string(health)}
	return reconcile.Result{}, c.client.Update(ctx, &owner)
}

// startConfigMaps runs the operator until stop is called.
func startConfigMaps(t *testing.T, cluster *localcluster.Cluster, how corev1.ProbeHandler) (c *configMaps, stop func()) {
	t.Helper()
	g := NewWithT(t)
	mgr, err := ctrl.NewManager(cluster.RESTConfig(), ctrl.Options{
		Metrics:    server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	g.Expect(err).NotTo(HaveOccurred())
	c = &configMaps{client: mgr.GetClient()}
	c.spec.ProbeHandler, c.spec.PeriodSeconds, c.spec.FailureThreshold = how, 1, 2
	c.prober, err = probe.ForManager(mgr)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).WatchesRawSource(c.prober).Complete(c)).To(Succeed())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	return c, func() {
		cancel()
		g.Expect(<-ended).To(Succeed())
	}
}

// asking is a request to the port of a pod.
func asking(port int32) corev1.ProbeHandler {
	return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(port)}}
}

// answeringAt starts a server at the address of this machine, which acts as a pod.
func answeringAt(t *testing.T, ip string, code *atomic.Int32) (port int32) {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(code.Load()))
	})}
	go func() { _ = s.Serve(listener) }()
	t.Cleanup(func() { _ = s.Close() })
	return int32(listener.Addr().(*net.TCPAddr).Port)
}

// ownAddress returns an address of this machine that can be that of a pod.
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

func TestProberIsASourceOfAController(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	t.Attr("rerun", "allowed")
	g := NewWithT(t)
	ip := ownAddress(t)
	cluster, err := localcluster.Start(t.Context(), localcluster.Config{Dir: t.TempDir(), UnsafeNoFsync: true, GCPercent: 200})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = cluster.Stop(context.Background()) })
	api, err := client.New(cluster.RESTConfig(), client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	meta := metav1.ObjectMeta{Namespace: "default", Name: "cache"}
	g.Expect(api.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}})).To(Succeed())
	pod := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.com/app:1"}}}}
	g.Expect(api.Create(t.Context(), pod)).To(Succeed())
	status := runningPod("cache").Status
	status.PodIP, status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	status.ContainerStatuses[0].Image, status.ContainerStatuses[0].Ready = "example.com/app:1", true
	pod.Status = status
	g.Expect(api.Status().Update(t.Context(), pod)).To(Succeed())
	owner := &corev1.ConfigMap{ObjectMeta: meta}
	g.Expect(api.Create(t.Context(), owner)).To(Succeed())

	var code atomic.Int32
	code.Store(http.StatusOK)
	port := answeringAt(t, ip, &code)
	_, stop := startConfigMaps(t, cluster, asking(port))
	stored := func() string {
		g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(owner), owner)).To(Succeed())
		return owner.Data[healthKey]
	}
	await := func(want string) {
		t.Helper()
		g.Eventually(stored).WithTimeout(time.Minute).WithPolling(50 * time.Millisecond).Should(ContainSubstring(want))
	}
	await(`"health":"Healthy"`)
	code.Store(http.StatusInternalServerError)
	await(`"reason":"HealthCheckFailed"`)
	stop()

	before := stored()
	operator, stop := startConfigMaps(t, cluster, asking(port))
	g.Eventually(operator.prober.Len).WithTimeout(time.Minute).Should(Equal(1))
	// Enough checks for the failure to be confirmed, which is one more reconcile.
	g.Eventually(operator.reconciles.Load).WithTimeout(time.Minute).Should(BeNumerically(">=", 2))
	stop()
	g.Expect(stored()).To(Equal(before))

	// A simulated pod is not asked, although a server is at its address.
	pod.Annotations = map[string]string{localcluster.Simulate: localcluster.SimulateNone} // its status is the test's
	g.Expect(api.Update(t.Context(), pod)).To(Succeed())
	code.Store(http.StatusOK)
	_, stop = startConfigMaps(t, cluster, asking(port))
	await(`"message":"the pod is simulated: it has no network"`)
	stop()
	pod.Annotations = nil
	g.Expect(api.Update(t.Context(), pod)).To(Succeed())
	pod.Status.ContainerStatuses[0].ContainerID = "simulated://1"
	g.Expect(api.Status().Update(t.Context(), pod)).To(Succeed())
	owner.Data = nil // an entry differs only if the health or the reason does
	g.Expect(api.Update(t.Context(), owner)).To(Succeed())
	_, stop = startConfigMaps(t, cluster, corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}})
	await(`"message":"the pod is simulated: it runs no commands"`)
	stop()
}
