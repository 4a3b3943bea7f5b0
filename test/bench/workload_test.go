package bench

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/internal/testing/audit"
	"github.com/bongsu-io/bongsu/internal/testing/binary"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/size"
)

const (
	// startedObjects is the number of objects that the operator starts, and as many for the
	// baseline.
	startedObjects = 1000
	// startWriters is the number of parallel create requests.
	startWriters = 16
	podsPerNode  = 100
)

// startup describes a kind whose objects have one pod each.
type startup struct {
	// name of one object, in units of metrics.
	name string
	// watched are the kinds whose status shows that objects of the baseline and of the
	// operator are ready.
	watched []client.Object
	// object returns an object of the operator. children returns what the baseline creates
	// instead.
	object   func(namespace, name string) client.Object
	children func(namespace, name string) ([]client.Object, error)
	// timeLimit is the limit for the operator's time, as a multiple of the baseline's. requestsLimit is
	// that for its requests per object.
	timeLimit, requestsLimit float64
}

// run measures the time until all objects are ready. The baseline is a program that only
// creates their children, on the same cluster with its controllers and simulated nodes. The
// operator runs as a separate process. run also measures the operator's requests per object
// until it is idle, and its memory.
func (u *startup) run(b *testing.B) {
	n := size.Scaled(startedObjects)
	c := cluster.Start(b, cluster.Whole(2*n/podsPerNode+1))
	ready := watchReady(b, c, u.watched...)
	for b.Loop() {
		baseline := ready.timed(b, c, "floor", n, u.baseline(b, c))

		bongsu := startOperator(b, c, binary.Operator(b, b.TempDir()), b.TempDir())
		await(b, "the operator is ready", func() bool { return readCheckpoint(b, c).Position > 0 })
		time.Sleep(settled)
		before, began := bongsu.memory(b), time.Now()
		operator := ready.timed(b, c, "operator", n, u.operator(b, c))
		time.Sleep(settled)
		after := bongsu.memory(b)
		requests := requestsSince(b, c, began)

		b.ReportMetric(float64(n)/operator.Seconds(), u.name+"s/s")
		b.ReportMetric(float64(n)/baseline.Seconds(), "floor/s")
		b.ReportMetric(float64(after.resident)/(1<<20), "MB")
		b.ReportMetric(float64(after.peak)/(1<<20), "peak-MB")
		b.ReportMetric(float64(after.resident-before.resident)/(1<<20)*1000/float64(n), "MB/1000")
		b.ReportMetric(0, "ns/op")
		u.checkLimits(b, operator.Seconds()/baseline.Seconds(), float64(requests)/float64(n))
	}
}

// checkLimits reports the metrics that have a limit, and fails beyond it.
func (u *startup) checkLimits(b *testing.B, ratio, perObject float64) {
	b.Helper()
	b.ReportMetric(ratio, "times-floor")
	b.ReportMetric(u.timeLimit, "limit")
	b.ReportMetric(perObject, "requests/"+u.name)
	b.ReportMetric(u.requestsLimit, "requests-limit")
	if size.Exceeds(ratio, u.timeLimit) {
		b.Errorf("the operator takes %.2f times as long as the baseline, want at most %v", ratio, u.timeLimit)
	}
	if perObject > u.requestsLimit {
		b.Errorf("the operator sends %.1f requests per %s, want at most %v", perObject, u.name, u.requestsLimit)
	}
}

// baseline returns a function that creates the children of an object, without an owner.
func (u *startup) baseline(b *testing.B, c *cluster.Cluster) func(namespace, name string) error {
	b.Helper()
	writer, err := cluster.ClientFor(c.RESTConfig())
	must(b, err)
	return func(namespace, name string) error {
		children, err := u.children(namespace, name)
		if err != nil {
			return err
		}
		for _, o := range children {
			o.SetOwnerReferences(nil)
			delete(o.GetLabels(), workload.LabelManagedBy)
			if err := writer.Create(b.Context(), o); err != nil {
				return err
			}
		}
		return nil
	}
}

func (u *startup) operator(b *testing.B, c *cluster.Cluster) func(namespace, name string) error {
	b.Helper()
	writer, err := cluster.ClientFor(c.RESTConfig())
	must(b, err)
	return func(namespace, name string) error { return writer.Create(b.Context(), u.object(namespace, name)) }
}

// requestsSince returns the number of the operator's requests, and logs it by kind.
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

// readiness records which objects are ready, as seen by watches.
type readiness struct {
	mu    sync.Mutex
	ready map[string]bool
	// left is the number of objects in namespace that are not ready yet.
	namespace string
	left      int
	done      chan time.Time
}

// watchReady watches some kinds until the benchmark ends.
func watchReady(b *testing.B, c *cluster.Cluster, kinds ...client.Object) *readiness {
	b.Helper()
	r := &readiness{ready: map[string]bool{}}
	objects, err := cache.New(c.RESTConfig(), cache.Options{Scheme: c.Client.Scheme()})
	must(b, err)
	for _, o := range kinds {
		informer, err := objects.GetInformer(b.Context(), o, cache.BlockUntilSynced(false))
		must(b, err)
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: r.observe, UpdateFunc: func(_, o any) { r.observe(o) },
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
		b.Fatal("the watches did not sync")
	}
	return r
}

func (r *readiness) observe(o any) {
	var ready bool
	switch o := o.(type) {
	case *corev1.Pod:
		ready = !isOurs(o) && hasCondition(o, corev1.PodReady)
	case *appsv1.Deployment:
		ready = !isOurs(o) && o.Status.AvailableReplicas > 0
	case *v1alpha1.Jupyter:
		ready = o.Status.ReadyReplicas > 0 // written together with the condition
	case *v1alpha1.AppService:
		ready = meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionAvailable)
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

// isOurs reports whether the operator manages an object.
func isOurs(o client.Object) bool {
	return o.GetLabels()[workload.LabelManagedBy] == workload.ManagedBy
}

func hasCondition(pod *corev1.Pod, kind corev1.PodConditionType) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// timed returns the time until n objects are ready in a new namespace.
func (r *readiness) timed(b *testing.B, c *cluster.Cluster, namespace string, n int, create func(namespace, name string) error) time.Duration {
	b.Helper()
	must(b, c.Client.Create(b.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	must(b, c.AwaitAccount(b.Context(), namespace))
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("no-", i)
	}
	done := make(chan time.Time, 1)
	r.mu.Lock()
	r.namespace, r.left, r.done = namespace, n, done
	r.mu.Unlock()
	began := time.Now()
	each(b, startWriters, names, func(name string) error { return create(namespace, name) })
	select {
	case at := <-done:
		return at.Sub(began)
	case <-time.After(2 * patience):
		b.Fatalf("not all objects in %s are ready after %v", namespace, 2*patience)
		return 0
	}
}

const notebookImage = "example.org/notebook:1"

// BenchmarkNotebooks measures the time from the first create request for 1,000 Jupyters
// until all are Ready. The baseline creates their tokens, Services and StatefulSets with 16
// parallel requests, until the pods are ready.
func BenchmarkNotebooks(b *testing.B) {
	u := startup{
		name: "notebook", watched: []client.Object{&corev1.Pod{}, &v1alpha1.Jupyter{}},
		object: newNotebook, children: childrenOfNotebook, timeLimit: 2, requestsLimit: 10,
	}
	u.run(b)
}

func newNotebook(namespace, name string) client.Object {
	return &v1alpha1.Jupyter{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.JupyterSpec{Image: notebookImage},
	}
}

func childrenOfNotebook(namespace, name string) ([]client.Object, error) {
	j := &v1alpha1.Jupyter{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "no-owner"}}
	pod, refused := workload.NotebookPod(j, notebookImage)
	delete(pod.Labels, workload.LabelManagedBy)
	return []client.Object{
		workload.NotebookToken(j, "floor"), workload.NotebookService(j), workload.NotebookStatefulSet(j, pod),
	}, refused.ToAggregate()
}

const appImage = "example.org/app:1"

// BenchmarkAppServices measures the time from the first create request for 1,000
// AppServices with one pod each until all are Available. The baseline creates their
// Deployments with 16 parallel requests, until these are available.
func BenchmarkAppServices(b *testing.B) {
	u := startup{
		name: "app", watched: []client.Object{&appsv1.Deployment{}, &v1alpha1.AppService{}},
		object:   func(namespace, name string) client.Object { return newApp(namespace, name) },
		children: childrenOfApp, timeLimit: 2.5, requestsLimit: 10,
	}
	u.run(b)
}

func newApp(namespace, name string) *v1alpha1.AppService {
	return &v1alpha1.AppService{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.AppServiceSpec{Size: 1, Image: appImage},
	}
}

func childrenOfApp(namespace, name string) ([]client.Object, error) {
	a := newApp(namespace, name)
	a.UID = "no-owner"
	pod, refused := workload.AppPod(a, appImage)
	delete(pod.Labels, workload.LabelManagedBy)
	return []client.Object{workload.AppDeployment(a, pod)}, refused.ToAggregate()
}
