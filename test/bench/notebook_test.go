package bench

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/audit"
	"github.com/bongsu-io/bongsu/internal/testing/binary"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/workload"
)

const (
	// notebookCount is how many are brought up, of which the floor has as many.
	notebookCount, shortNotebookCount = 1000, 100
	// notebookFloorWriters is how many requests the floor has under way.
	notebookFloorWriters = 16
	// notebookLimit is how many times as long as the floor the operator may take.
	notebookLimit = 2.0
	// requestsLimit is how much it may ask of the API server for each.
	requestsLimit = 10.0
	notebookImage = "example.org/notebook:1"
	podsOfANode   = 100
)

// BenchmarkNotebooks measures how long it takes from the first request that creates
// one of 1,000 Jupyters until all are Ready, beside a program that does nothing but
// create the same objects, token, Service and StatefulSet, 16 requests at a time,
// until their pods are ready: in the same run, on the same cluster with its
// controllers and simulated nodes. The operator is a process of its own. It also
// measures what it asks of the API server for each notebook until nothing more
// happens, and what it occupies then.
func BenchmarkNotebooks(b *testing.B) {
	n := notebookCount
	if testing.Short() {
		n = shortNotebookCount
	}
	c := cluster.Start(b, cluster.Whole(2*n/podsOfANode+1))
	ready := watchReady(b, c)
	for b.Loop() {
		floor := ready.floor(b, c, "floor", n)

		bongsu := startOperator(b, c, binary.Build(b, b.TempDir()), b.TempDir())
		await(b, "the operator is at work", func() bool { return readMirror(b, c).Position > 0 })
		time.Sleep(settled)
		before, began := bongsu.memory(b), time.Now()
		operator := ready.operator(b, c, "notebooks", n)
		time.Sleep(settled)
		after := bongsu.memory(b)
		requests := requestsSince(b, c, began)

		ratio, forEach := operator.Seconds()/floor.Seconds(), float64(requests)/float64(n)
		b.ReportMetric(float64(n)/operator.Seconds(), "notebooks/s")
		b.ReportMetric(float64(n)/floor.Seconds(), "floor/s")
		b.ReportMetric(ratio, "times-floor")
		b.ReportMetric(notebookLimit, "limit")
		b.ReportMetric(forEach, "requests/notebook")
		b.ReportMetric(requestsLimit, "requests-limit")
		b.ReportMetric(float64(after.resident)/(1<<20), "MB")
		b.ReportMetric(float64(after.peak)/(1<<20), "peak-MB")
		b.ReportMetric(float64(after.resident-before.resident)/(1<<20)*1000/float64(n), "MB/1000")
		b.ReportMetric(0, "ns/op")
		if ratio > notebookLimit {
			b.Errorf("the operator takes %.2f times as long as the floor, beyond the limit of %v", ratio, notebookLimit)
		}
		if forEach > requestsLimit {
			b.Errorf("it asks the API server %.1f times for each notebook, beyond the limit of %v", forEach, requestsLimit)
		}
	}
}

// requestsSince counts what the operator asked, and tells of what.
func requestsSince(b *testing.B, c *cluster.Cluster, since time.Time) (sum int) {
	b.Helper()
	counts := map[string]int{}
	for _, r := range audit.Requests(b, c.AuditLog(), audit.Operator) {
		if r.Received.Before(since) || r.Verb == "watch" || r.Resource == "leases" {
			continue
		}
		sum++
		counts[strings.TrimSuffix(fmt.Sprintf("%s %s/%s", r.Verb, r.Resource, r.Subresource), "/")+fmt.Sprintf(" %d", r.Code)]++
	}
	var lines []string
	for what, n := range counts {
		lines = append(lines, fmt.Sprintf("%d %s", n, what))
	}
	sort.Strings(lines)
	b.Logf("%d requests: %s", sum, strings.Join(lines, ", "))
	return sum
}

// readiness is what watches tell of Jupyters and pods that are ready.
type readiness struct {
	mu    sync.Mutex
	ready map[string]bool
	// left are how many of a namespace are awaited yet.
	namespace string
	left      int
	done      chan time.Time
}

// watchReady begins to watch, for the length of the benchmark.
func watchReady(b *testing.B, c *cluster.Cluster) *readiness {
	b.Helper()
	r := &readiness{ready: map[string]bool{}}
	objects, err := cache.New(c.RESTConfig(), cache.Options{Scheme: c.Client.Scheme()})
	must(b, err)
	for _, o := range []client.Object{&corev1.Pod{}, &v1alpha1.Jupyter{}} {
		informer, err := objects.GetInformer(b.Context(), o, cache.BlockUntilSynced(false))
		must(b, err)
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: r.see, UpdateFunc: func(_, o any) { r.see(o) },
		})
		must(b, err)
	}
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error)
	go func() { ended <- objects.Start(ctx) }()
	b.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	if !objects.WaitForCacheSync(ctx) {
		b.Fatal("the watches do not begin")
	}
	return r
}

func (r *readiness) see(o any) {
	var ready bool
	switch o := o.(type) {
	case *corev1.Pod:
		ready = !isOfNotebook(o) && hasCondition(o, corev1.PodReady)
	case *v1alpha1.Jupyter:
		ready = o.Status.ReadyReplicas > 0 // written together with the condition
	}
	object := o.(client.Object)
	key := object.GetNamespace() + "/" + object.GetName()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !ready || r.ready[key] {
		return
	}
	r.ready[key] = true
	if object.GetNamespace() == r.namespace {
		if r.left--; r.left == 0 {
			r.done <- time.Now()
		}
	}
}

// isOfNotebook says whether the operator answers for a pod.
func isOfNotebook(pod *corev1.Pod) bool {
	return pod.Labels[workload.LabelManagedBy] == workload.ManagedBy
}

func hasCondition(pod *corev1.Pod, kind corev1.PodConditionType) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// timed is how long it takes until n are ready in a new namespace.
func (r *readiness) timed(b *testing.B, c *cluster.Cluster, namespace string, n int, create func(name string) error) time.Duration {
	b.Helper()
	must(b, c.Client.Create(b.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	await(b, "pods can be made", func() bool {
		return c.Client.Get(b.Context(), client.ObjectKey{Namespace: namespace, Name: "default"}, &corev1.ServiceAccount{}) == nil
	})
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("nb-", i)
	}
	done := make(chan time.Time, 1)
	r.mu.Lock()
	r.namespace, r.left, r.done = namespace, n, done
	r.mu.Unlock()
	began := time.Now()
	each(b, notebookFloorWriters, names, create)
	select {
	case at := <-done:
		return at.Sub(began)
	case <-time.After(2 * patience):
		b.Fatalf("%v have passed, and not all are ready in %s", 2*patience, namespace)
		return 0
	}
}

// floor creates what notebooks are made of, by other names and labels.
func (r *readiness) floor(b *testing.B, c *cluster.Cluster, namespace string, n int) time.Duration {
	b.Helper()
	writer, err := cluster.ClientFor(c.RESTConfig())
	must(b, err)
	return r.timed(b, c, namespace, n, func(name string) error {
		j := &v1alpha1.Jupyter{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "of-nobody"}}
		pod, refused := workload.NotebookPod(j, notebookImage)
		if len(refused) > 0 {
			return refused.ToAggregate()
		}
		delete(pod.Labels, workload.LabelManagedBy)
		for _, child := range []client.Object{
			workload.NotebookToken(j, "floor"), workload.NotebookService(j), workload.NotebookStatefulSet(j, pod),
		} {
			child.SetOwnerReferences(nil)
			delete(child.GetLabels(), workload.LabelManagedBy)
			if err := writer.Create(b.Context(), child); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *readiness) operator(b *testing.B, c *cluster.Cluster, namespace string, n int) time.Duration {
	b.Helper()
	writer, err := cluster.ClientFor(c.RESTConfig())
	must(b, err)
	return r.timed(b, c, namespace, n, func(name string) error {
		return writer.Create(b.Context(), &v1alpha1.Jupyter{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.JupyterSpec{Image: notebookImage},
		})
	})
}
