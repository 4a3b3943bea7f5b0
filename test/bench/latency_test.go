package bench

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
	"github.com/bongsu-io/bongsu/internal/testing/size"
)

const (
	steadyRate = 300 // Events per second
	steadyFor  = 25 * time.Second
	// deliveredShare is the limit for the rate of arrival, as a share of the rate of
	// creation. Below it, a queue grows, and its length determines the result.
	deliveredShare = 0.9
)

// BenchmarkCreationToReceipt measures the latency from the create request of an Event to the
// arrival of its webhook. For 25 seconds, 300 Events per second are created. Each matches
// and becomes its own message. etcd, API server, writers, operator and webhook server share
// the machine. The latency therefore has no limit. The benchmark fails if less than 0.9 of
// the rate arrives, or if an Event does not arrive exactly once.
func BenchmarkCreationToReceipt(b *testing.B) {
	c, receiver := cluster.Start(b), sink.New(b)
	namespace := c.Namespace(b, nil)
	c.StartOperator(b)
	subscribe(b, c, receiver)
	for b.Loop() {
		created := writeSteadily(b, newClientset(b, c), namespace)
		receiver.Wait(time.Minute, func(r []sink.Request) bool { return len(r) >= len(created) })
		reportLatency(b, created, receiver.Accepted())
	}
}

// subscribe creates an alarm that sends all BackOffs to the sink, and waits until it is
// ready.
func subscribe(b *testing.B, c *cluster.Cluster, to *sink.Sink) {
	b.Helper()
	receiver := &v1alpha1.ClusterAlarmReceiver{ObjectMeta: metav1.ObjectMeta{Name: "sink"}}
	receiver.Spec.Webhook = &v1alpha1.WebhookReceiver{HTTPServer: v1alpha1.HTTPServer{URL: v1alpha1.ServerURL(to.URL())}}
	must(b, c.Client.Create(b.Context(), receiver))
	backOff := &v1alpha1.ClusterAlarm{ObjectMeta: metav1.ObjectMeta{Name: "back-off"}}
	backOff.Spec.Match = []v1alpha1.EventMatch{{Kinds: []string{"Pod"}, Reasons: []string{"BackOff"}}}
	backOff.Spec.Receivers = []v1alpha1.ClusterReceiverReference{{Name: receiver.Name}}
	must(b, c.Client.Create(b.Context(), backOff))
	await(b, "the alarm is ready", func() bool {
		must(b, c.Client.Get(b.Context(), client.ObjectKeyFromObject(backOff), backOff))
		return meta.IsStatusConditionTrue(backOff.Status.Conditions, v1alpha1.ConditionReady)
	})
}

// writeSteadily creates Events at the steady rate and returns the start time of each
// request. If all writers are busy, later Events are created faster. A slow API server
// therefore changes the number of parallel requests, but not the rate.
func writeSteadily(b *testing.B, clientset kubernetes.Interface, namespace string) map[string]time.Time {
	b.Helper()
	var mu sync.Mutex
	created := map[string]time.Time{}
	var group errgroup.Group
	group.SetLimit(writers)
	begin := time.Now()
	for i := range size.Scaled(steadyRate * int(steadyFor/time.Second)) {
		time.Sleep(time.Until(begin.Add(time.Duration(i) * time.Second / steadyRate)))
		group.Go(func() error {
			event := podEvent(namespace, fmt.Sprint("steady-", i), "BackOff")
			mu.Lock()
			created[event.Name] = time.Now()
			mu.Unlock()
			_, err := clientset.EventsV1().Events(namespace).Create(b.Context(), event, metav1.CreateOptions{})
			return err
		})
	}
	must(b, group.Wait())
	return created
}

// reportLatency compares the created Events with the received messages.
func reportLatency(b *testing.B, created map[string]time.Time, received []sink.Request) {
	b.Helper()
	var took []time.Duration
	var last time.Time
	for _, request := range received {
		var message message.Message
		must(b, json.Unmarshal(request.Body, &message))
		took = append(took, request.Received.Sub(created[message.Events[0].Regarding.Name]))
		last = request.Received
	}
	if len(took) != len(created) {
		b.Fatalf("received %d messages, want %d, one for each Event", len(took), len(created))
	}
	slices.Sort(took)
	begun := slices.SortedFunc(maps.Values(created), time.Time.Compare)
	offered, arrived := rate(begun[0], begun[len(begun)-1], len(begun)), rate(begun[0], last, len(took))
	for percent, unit := range map[int]string{50: "p50-ms", 99: "p99-ms"} {
		b.ReportMetric(float64(took[len(took)*percent/100].Microseconds())/1000, unit)
	}
	b.ReportMetric(offered, "created/s")
	b.ReportMetric(arrived/offered, "arrived/created")
	b.ReportMetric(deliveredShare, "limit")
	b.ReportMetric(0, "ns/op")
	if size.Exceeds(deliveredShare*offered, arrived) {
		b.Errorf("%.0f Events per second were created and %.0f arrived, want at least %v of them; p50 %v, p99 %v",
			offered, arrived, deliveredShare, took[len(took)/2], took[len(took)*99/100])
	}
}

// rate returns n per second.
func rate(from, to time.Time, n int) float64 { return float64(n) / to.Sub(from).Seconds() }

// writers is the number of parallel requests. With this number, the API server is the
// bottleneck.
const writers = 16

// newClientset returns a client that uses protobuf, as the control plane's own components
// do.
func newClientset(b *testing.B, c *cluster.Cluster) kubernetes.Interface {
	b.Helper()
	config := rest.CopyConfig(c.RESTConfig())
	config.ContentType = runtime.ContentTypeProtobuf
	clientset, err := kubernetes.NewForConfig(config)
	must(b, err)
	return clientset
}

// podEvent returns an Event as a kubelet writes it for a failing container.
func podEvent(namespace, name, reason string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: namespace, Name: name},
		EventTime:           metav1.NewMicroTime(time.Now()),
		ReportingController: "kubelet",
		ReportingInstance:   "node-0",
		Action:              "Waiting",
		Type:                corev1.EventTypeWarning,
		Reason:              reason,
		Note: fmt.Sprintf("Back-off restarting failed container app in pod %s_%s(0b1e7f0a-6c2b-4a53-8a3f-5f7b7a1e9d10)",
			name, namespace),
		Regarding: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: name,
			FieldPath: "spec.containers{app}",
		},
	}
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
