package bench

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/controller/appservice/health"
	"github.com/bongsu-io/bongsu/internal/testing/size"
	"github.com/bongsu-io/bongsu/pkg/healthcheck"
	"github.com/bongsu-io/bongsu/pkg/probe"
)

const (
	// checkedPods is the number of pods. One in hangingOneIn never answers.
	checkedPods  = 5000
	hangingOneIn = 100
	checkPeriod  = 10 * time.Second
	// checksMeasured is the time of the measurement. It covers several periods, because
	// lateness is relative to the least late check of a pod.
	checksMeasured = 60 * time.Second
	// checksAtOnce is the limit of parallel checks in the controller of AppServices.
	checksAtOnce = 512
	// latenessLimit is the limit for the lateness of 99% of the checks.
	latenessLimit = time.Second
	// coresLimit is the limit for the CPU time of the checks, in cores.
	coresLimit = 1.0
)

// BenchmarkHealthChecks measures the cost of checking 5,000 pods over HTTP every ten
// seconds. 1% of them accept the request and never answer. The operator's pool and checker
// run in the process of the benchmark. So do the servers that stand in for pods, whose cost
// is part of the result.
func BenchmarkHealthChecks(b *testing.B) {
	pods := size.Scaled(checkedPods)
	for b.Loop() {
		h := newHealthBench(b, pods)
		ctx, stop := context.WithCancel(b.Context())
		ended := make(chan error, 1)
		before := memoryOf(b, os.Getpid())
		h.addChecks(b)
		go func() { ended <- h.pool.Start(ctx) }()
		time.Sleep(checkPeriod) // until each has been checked
		used, began := cpuTime(b), time.Now()
		time.Sleep(checksMeasured)
		cores := (cpuTime(b) - used).Seconds() / time.Since(began).Seconds()
		after := memoryOf(b, os.Getpid())
		stop()
		must(b, <-ended)
		h.report(b, cores, after.resident-before.resident)
	}
}

// healthBench contains the pods and the results of their checks.
type healthBench struct {
	pods    []*corev1.Pod
	checker *healthcheck.Checker
	pool    *probe.Pool[health.Observation]

	mu sync.Mutex
	// begun contains the start times of the checks of each pod, outcomes the number of each
	// outcome.
	begun    map[types.UID][]time.Time
	outcomes map[outcome]int
}

// outcome is the result of a check, and whether the pod hangs.
type outcome struct {
	hangs  bool
	result health.Outcome
}

func newHealthBench(b *testing.B, n int) *healthBench {
	b.Helper()
	h := &healthBench{begun: map[types.UID][]time.Time{}, outcomes: map[outcome]int{}}
	for i := range n {
		h.pods = append(h.pods, newCheckedPod(i))
	}
	answers := serve(b, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	hangs := serve(b, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	dial := func(ctx context.Context, _, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		to := answers
		if ip := net.ParseIP(host).To4(); isHanging(int(ip[2])<<8 | int(ip[3])) {
			to = hangs
		}
		return new(net.Dialer).DialContext(ctx, "tcp", to)
	}
	var err error
	h.checker, err = healthcheck.New(clock.RealClock{}, &rest.Config{Host: "http://unused.invalid"}, nil, dial)
	must(b, err)
	h.pool = probe.NewPool(checksAtOnce, clock.RealClock{}, h.record)
	return h
}

// newCheckedPod returns a pod whose address contains its number.
func newCheckedPod(i int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: fmt.Sprint("web-", i), UID: types.UID(fmt.Sprint(i))},
		Status:     corev1.PodStatus{PodIP: fmt.Sprintf("10.0.%d.%d", i>>8, i&0xff)},
	}
}

func isHanging(i int) bool { return i%hangingOneIn == 0 }

// serve starts a server and returns its address.
func serve(b *testing.B, handle http.HandlerFunc) string {
	b.Helper()
	server := httptest.NewServer(handle)
	b.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// addChecks adds a check of each pod to the pool.
func (h *healthBench) addChecks(b *testing.B) {
	b.Helper()
	var spec probe.Spec
	spec.HTTPGet, spec.TimeoutSeconds = &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(8080)}, 1
	for _, pod := range h.pods {
		check, err := spec.Check(pod)
		must(b, err)
		h.pool.Put(probe.Check[health.Observation]{
			Key: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, PodUID: pod.UID,
			Period: checkPeriod, Timeout: check.Limit(),
			Run: func(ctx context.Context) health.Observation {
				h.begin(pod.UID, time.Now())
				return h.checker.Run(ctx, check)
			},
			Overdue: func() health.Observation { return h.checker.Overdue(check) },
		})
	}
}

func (h *healthBench) begin(pod types.UID, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.begun[pod] = append(h.begun[pod], at)
}

// record receives the results from the pool.
func (h *healthBench) record(_ context.Context, _ types.NamespacedName, pod types.UID, o health.Observation) {
	var i int
	_, _ = fmt.Sscan(string(pod), &i)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.outcomes[outcome{isHanging(i), o.Outcome}]++
}

// lateness returns the lateness of all checks in ascending order, and the number of checks
// that were skipped. Lateness is relative to the least late check of the pod.
func (h *healthBench) lateness() (late []time.Duration, missed int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, begun := range h.begun {
		var ofPod []time.Duration
		last := 0
		for _, at := range begun {
			since := at.Sub(begun[0])
			period := int((since + checkPeriod/2) / checkPeriod)
			missed += max(0, period-last-1)
			last = period
			ofPod = append(ofPod, since-time.Duration(period)*checkPeriod)
		}
		for _, d := range ofPod {
			late = append(late, d-slices.Min(ofPod))
		}
	}
	slices.Sort(late)
	return late, missed
}

// report reports the metrics. It fails beyond the limits, and if a hanging pod has passed.
func (h *healthBench) report(b *testing.B, cores float64, grown int64) {
	b.Helper()
	late, missed := h.lateness()
	if len(h.begun) != len(h.pods) || h.outcomes[outcome{true, health.Passed}] > 0 {
		b.Fatalf("%d of %d pods were checked, or hanging pods passed: %v", len(h.begun), len(h.pods), h.outcomes)
	}
	p99 := late[len(late)*99/100]
	b.Logf("%d checks, %d skipped; outcomes: %v", len(late), missed, h.outcomes)
	b.ReportMetric(cores, "cores")
	b.ReportMetric(coresLimit, "limit-cores")
	b.ReportMetric(milliseconds(late[len(late)/2]), "p50-late-ms")
	b.ReportMetric(milliseconds(p99), "p99-late-ms")
	b.ReportMetric(milliseconds(latenessLimit), "limit-ms")
	b.ReportMetric(milliseconds(late[len(late)-1]), "max-late-ms")
	b.ReportMetric(float64(missed), "left-out")
	b.ReportMetric(float64(grown)/(1<<20), "MB")
	b.ReportMetric(0, "ns/op")
	if size.Exceeds(p99, latenessLimit) || size.Exceeds(cores, coresLimit) {
		b.Errorf("p99 of the lateness is %v and checks use %.2f cores, want at most %v and %v", p99, cores, latenessLimit, coresLimit)
	}
}

// cpuTime returns the CPU time of this process.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }
