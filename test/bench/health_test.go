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

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/appservice/health"
	"github.com/bongsu-io/bongsu/internal/controller/appservice/healthcheck"
	"github.com/bongsu-io/bongsu/pkg/probe"
)

const (
	// checkedPods are checked, of which every hangingOneIn-th never answers.
	checkedPods, shortCheckedPods = 5000, 500
	hangingOneIn                  = 100
	checkPeriod                   = 10 * time.Second
	// checksMeasured is for how long, which is some periods: the least late of a pod's
	// checks is the measure of the others.
	checksMeasured, shortChecksMeasured = 60 * time.Second, 30 * time.Second
	// checksAtOnce is how many the controller of AppServices has made at once.
	checksAtOnce = 512
	// latenessLimit is how late all but one in a hundred checks may begin.
	latenessLimit = time.Second
	// coresLimit is how much of the machine the checks may take.
	coresLimit = 1.0
)

// BenchmarkHealthChecks measures what it takes to check 5,000 pods every ten seconds
// over HTTP, of which 1% accept the question and never answer: the pool and the checks
// of the operator, in the benchmark's process, with servers beside them over loopback
// that play the pods. What these cost is in the figures.
func BenchmarkHealthChecks(b *testing.B) {
	pods, measured := checkedPods, checksMeasured
	if testing.Short() {
		pods, measured = shortCheckedPods, shortChecksMeasured
	}
	for b.Loop() {
		w := newWard(b, pods)
		ctx, stop := context.WithCancel(b.Context())
		ended := make(chan error, 1)
		before := memoryOf(b, os.Getpid())
		w.admit(b)
		go func() { ended <- w.pool.Start(ctx) }()
		time.Sleep(checkPeriod) // until each has been checked
		used, began := cpuTime(b), time.Now()
		time.Sleep(measured)
		cores := (cpuTime(b) - used).Seconds() / time.Since(began).Seconds()
		after := memoryOf(b, os.Getpid())
		stop()
		must(b, <-ended)
		w.report(b, cores, after.resident-before.resident)
	}
}

// ward is where pods are checked.
type ward struct {
	pods    []*corev1.Pod
	checker *healthcheck.Checker
	pool    *probe.Pool[health.Observation]

	mu sync.Mutex
	// begun are the times at which the checks of a pod began; outcomes what came of all.
	begun    map[types.UID][]time.Time
	outcomes map[outcome]int
}

// outcome is what a check came to, of a pod that hangs or not.
type outcome struct {
	hangs bool
	came  health.Outcome
}

func newWard(b *testing.B, n int) *ward {
	b.Helper()
	w := &ward{begun: map[types.UID][]time.Time{}, outcomes: map[outcome]int{}}
	for i := range n {
		w.pods = append(w.pods, newCheckedPod(i))
	}
	answers := serve(b, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	hangs := serve(b, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		to := answers
		if ip := net.ParseIP(host).To4(); isHanging(int(ip[2])<<8 | int(ip[3])) {
			to = hangs
		}
		return new(net.Dialer).DialContext(ctx, network, to)
	}
	var err error
	w.checker, err = healthcheck.New(clock.RealClock{}, &rest.Config{Host: "http://unused.invalid"}, nil, dial)
	must(b, err)
	w.pool = probe.NewPool(checksAtOnce, clock.RealClock{}, w.note)
	return w
}

// newCheckedPod is a pod whose address tells its number.
func newCheckedPod(i int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: fmt.Sprint("web-", i), UID: types.UID(fmt.Sprint(i))},
		Status:     corev1.PodStatus{PodIP: fmt.Sprintf("10.0.%d.%d", i>>8, i&0xff)},
	}
}

func isHanging(i int) bool { return i%hangingOneIn == 0 }

// serve returns the address of a server.
func serve(b *testing.B, handle http.HandlerFunc) string {
	b.Helper()
	server := httptest.NewServer(handle)
	b.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// admit has all pods checked.
func (w *ward) admit(b *testing.B) {
	b.Helper()
	spec := &v1alpha1.HealthCheck{
		HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(8080)}, TimeoutSeconds: 1,
	}
	for _, pod := range w.pods {
		check, err := healthcheck.For(spec, pod)
		must(b, err)
		w.pool.Put(probe.Check[health.Observation]{
			Key: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, PodUID: pod.UID,
			Period: checkPeriod, Timeout: check.Limit(),
			Run: func(ctx context.Context) health.Observation {
				w.begin(pod.UID, time.Now())
				return w.checker.Run(ctx, check)
			},
			Overdue: func() health.Observation { return w.checker.Overdue(check) },
		})
	}
}

func (w *ward) begin(pod types.UID, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun[pod] = append(w.begun[pod], at)
}

// note is what the pool reports to.
func (w *ward) note(_ context.Context, _ types.NamespacedName, pod types.UID, o health.Observation) {
	var i int
	_, _ = fmt.Sscan(string(pod), &i)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outcomes[outcome{isHanging(i), o.Outcome}]++
}

// lateness is by how much checks began later than the least late of their pod, in
// order, and how many were left out.
func (w *ward) lateness() (late []time.Duration, missed int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, begun := range w.begun {
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

// report fails beyond the limits, and for a pod that is not seen to hang.
func (w *ward) report(b *testing.B, cores float64, grown int64) {
	b.Helper()
	late, missed := w.lateness()
	if len(w.begun) != len(w.pods) || w.outcomes[outcome{true, health.Passed}] > 0 {
		b.Fatalf("%d of %d pods were checked: %v", len(w.begun), len(w.pods), w.outcomes)
	}
	p99 := late[len(late)*99/100]
	b.Logf("%d checks, %d left out; what they came to: %v", len(late), missed, w.outcomes)
	b.ReportMetric(cores, "cores")
	b.ReportMetric(coresLimit, "limit-cores")
	b.ReportMetric(milliseconds(late[len(late)/2]), "p50-late-ms")
	b.ReportMetric(milliseconds(p99), "p99-late-ms")
	b.ReportMetric(milliseconds(latenessLimit), "limit-ms")
	b.ReportMetric(milliseconds(late[len(late)-1]), "max-late-ms")
	b.ReportMetric(float64(missed), "left-out")
	b.ReportMetric(float64(grown)/(1<<20), "MB")
	b.ReportMetric(0, "ns/op")
	if p99 > latenessLimit || cores > coresLimit {
		b.Errorf("one check in a hundred begins %v late, and they take %.2f cores: beyond the limits of %v and %v", p99, cores, latenessLimit, coresLimit)
	}
}

// cpuTime is what the process has had of the machine's cores.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }
