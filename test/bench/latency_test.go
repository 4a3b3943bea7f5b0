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
)

const (
	steadyRate = 300 // Events a second
	steadyFor  = 25 * time.Second
	// deliveredShare is how many of the offered Events a second must arrive within
	// the same time: below it, what is measured is a queue that grows.
	deliveredShare = 0.9
)

// BenchmarkCreationToReceipt measures the time from before the request that
// creates an Event to the arrival of its webhook, at 300 Events a second for
// 25 seconds, each of which matches and is a message of its own. etcd, API
// server, writers, operator and webhook server share the machine, so that the
// milliseconds are reported and not judged; that at least 0.9 of the rate
// arrives, and every Event once, is.
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

// subscribe has all BackOffs sent to the sink, and returns when the alarm is in
// force.
func subscribe(b *testing.B, c *cluster.Cluster, to *sink.Sink) {
	b.Helper()
	receiver := &v1alpha1.ClusterAlarmReceiver{ObjectMeta: metav1.ObjectMeta{Name: "sink"}}
	receiver.Spec.Webhook = &v1alpha1.ClusterWebhookReceiver{ClusterHTTPServer: v1alpha1.ClusterHTTPServer{URL: v1alpha1.ServerURL(to.URL())}}
	must(b, c.Client.Create(b.Context(), receiver))
	backOff := &v1alpha1.ClusterAlarm{ObjectMeta: metav1.ObjectMeta{Name: "back-off"}}
	backOff.Spec.Match = []v1alpha1.EventMatch{{Kinds: []string{"Pod"}, Reasons: []string{"BackOff"}}}
	backOff.Spec.Receivers = []v1alpha1.ClusterReceiverReference{{Name: receiver.Name}}
	must(b, c.Client.Create(b.Context(), backOff))
	await(b, "the alarm is in force", func() bool {
		must(b, c.Client.Get(b.Context(), client.ObjectKeyFromObject(backOff), backOff))
		return meta.IsStatusConditionTrue(backOff.Status.Conditions, v1alpha1.ConditionReady)
	})
}

// writeSteadily creates Events at the steady rate and returns when each of them
// was begun. One that is late because all writers were busy makes up for it, so
// that a slow API server lowers the number of those under way and not the rate.
func writeSteadily(b *testing.B, clientset kubernetes.Interface, namespace string) map[string]time.Time {
	b.Helper()
	var mu sync.Mutex
	created := map[string]time.Time{}
	var group errgroup.Group
	group.SetLimit(writers)
	begin := time.Now()
	for i := range steadyRate * int(steadyFor/time.Second) {
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

// reportLatency compares what was created with what was received.
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
		b.Fatalf("%d Events were created, %d messages received", len(created), len(took))
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
	if arrived < deliveredShare*offered {
		b.Errorf("%.0f Events a second were created and only %.0f arrived; half took less than %v, 99 %% less than %v",
			offered, arrived, took[len(took)/2], took[len(took)*99/100])
	}
}

// rate is how many a second n are.
func rate(from, to time.Time, n int) float64 { return float64(n) / to.Sub(from).Seconds() }

// writers is how many requests are under way at once: the API server is then the
// one that is waited for.
const writers = 16

// newClientset returns a client that speaks protobuf, as the control plane's own
// components do.
func newClientset(b *testing.B, c *cluster.Cluster) kubernetes.Interface {
	b.Helper()
	config := rest.CopyConfig(c.RESTConfig())
	config.ContentType = runtime.ContentTypeProtobuf
	clientset, err := kubernetes.NewForConfig(config)
	must(b, err)
	return clientset
}

// podEvent is what a kubelet says of a container that fails.
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
