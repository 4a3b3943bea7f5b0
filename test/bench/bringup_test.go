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
)

const (
	// broughtUp is how many are brought up, of which the floor has as many.
	broughtUp, shortBroughtUp = 1000, 100
	// bringUpWriters is how many requests whoever creates them has under way.
	bringUpWriters = 16
	// bringUpLimit is how many times as long as the floor the operator may take.
	bringUpLimit = 2.0
	podsOfANode  = 100
)

// bringUp is a kind of ours, each object of which comes to one pod.
type bringUp struct {
	// name of one, in figures.
	name string
	// watched are the kinds that tell that the floor's objects and ours are ready.
	watched []client.Object
	// object is one of ours, made what the floor makes instead of it.
	object func(namespace, name string) client.Object
	made   func(namespace, name string) ([]client.Object, error)
	// requestsLimit is how much the operator may ask of the API server for each.
	requestsLimit float64
}

// run measures how long it takes until all that is created is ready, beside a program
// that does nothing but create what that is made of: in the same run, on the same
// cluster with its controllers and simulated nodes. The operator is a process of its
// own. It also measures what that asks of the API server for each until nothing more
// happens, and what it occupies then.
func (u *bringUp) run(b *testing.B) {
	n := broughtUp
	if testing.Short() {
		n = shortBroughtUp
	}
	c := cluster.Start(b, cluster.Whole(2*n/podsOfANode+1))
	ready := watchReady(b, c, u.watched...)
	for b.Loop() {
		floor := ready.timed(b, c, "floor", n, u.floor(b, c))

		bongsu := startOperator(b, c, binary.Operator(b, b.TempDir()), b.TempDir())
		await(b, "the operator is at work", func() bool { return readMirror(b, c).Position > 0 })
		time.Sleep(settled)
		before, began := bongsu.memory(b), time.Now()
		operator := ready.timed(b, c, "operator", n, u.operator(b, c))
		time.Sleep(settled)
		after := bongsu.memory(b)
		requests := requestsSince(b, c, began)

		b.ReportMetric(float64(n)/operator.Seconds(), u.name+"s/s")
		b.ReportMetric(float64(n)/floor.Seconds(), "floor/s")
		b.ReportMetric(float64(after.resident)/(1<<20), "MB")
		b.ReportMetric(float64(after.peak)/(1<<20), "peak-MB")
		b.ReportMetric(float64(after.resident-before.resident)/(1<<20)*1000/float64(n), "MB/1000")
		b.ReportMetric(0, "ns/op")
		u.judge(b, operator.Seconds()/floor.Seconds(), float64(requests)/float64(n))
	}
}

// judge reports what has a limit.
func (u *bringUp) judge(b *testing.B, ratio, forEach float64) {
	b.Helper()
	b.ReportMetric(ratio, "times-floor")
	b.ReportMetric(bringUpLimit, "limit")
	b.ReportMetric(forEach, "requests/"+u.name)
	b.ReportMetric(u.requestsLimit, "requests-limit")
	if ratio > bringUpLimit {
		b.Errorf("the operator takes %.2f times as long as the floor, beyond the limit of %v", ratio, bringUpLimit)
	}
	if forEach > u.requestsLimit {
		b.Errorf("it asks the API server %.1f times for each %s, beyond the limit of %v", forEach, u.name, u.requestsLimit)
	}
}

// floor creates what objects of ours are made of, as nobody's.
func (u *bringUp) floor(b *testing.B, c *cluster.Cluster) func(namespace, name string) error {
	b.Helper()
	writer, err := cluster.ClientFor(c.RESTConfig())
	must(b, err)
	return func(namespace, name string) error {
		made, err := u.made(namespace, name)
		if err != nil {
			return err
		}
		for _, o := range made {
			o.SetOwnerReferences(nil)
			delete(o.GetLabels(), workload.LabelManagedBy)
			if err := writer.Create(b.Context(), o); err != nil {
				return err
			}
		}
		return nil
	}
}

func (u *bringUp) operator(b *testing.B, c *cluster.Cluster) func(namespace, name string) error {
	b.Helper()
	writer, err := cluster.ClientFor(c.RESTConfig())
	must(b, err)
	return func(namespace, name string) error { return writer.Create(b.Context(), u.object(namespace, name)) }
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

// readiness is what watches tell of objects that are ready.
type readiness struct {
	mu    sync.Mutex
	ready map[string]bool
	// left are how many of a namespace are awaited yet.
	namespace string
	left      int
	done      chan time.Time
}

// watchReady begins to watch some kinds, for the length of the benchmark.
func watchReady(b *testing.B, c *cluster.Cluster, kinds ...client.Object) *readiness {
	b.Helper()
	r := &readiness{ready: map[string]bool{}}
	objects, err := cache.New(c.RESTConfig(), cache.Options{Scheme: c.Client.Scheme()})
	must(b, err)
	for _, o := range kinds {
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

// isOurs says whether the operator answers for an object.
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

// timed is how long it takes until n are ready in a new namespace.
func (r *readiness) timed(b *testing.B, c *cluster.Cluster, namespace string, n int, create func(namespace, name string) error) time.Duration {
	b.Helper()
	must(b, c.Client.Create(b.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	await(b, "pods can be made", func() bool {
		return c.Client.Get(b.Context(), client.ObjectKey{Namespace: namespace, Name: "default"}, &corev1.ServiceAccount{}) == nil
	})
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("no-", i)
	}
	done := make(chan time.Time, 1)
	r.mu.Lock()
	r.namespace, r.left, r.done = namespace, n, done
	r.mu.Unlock()
	began := time.Now()
	each(b, bringUpWriters, names, func(name string) error { return create(namespace, name) })
	select {
	case at := <-done:
		return at.Sub(began)
	case <-time.After(2 * patience):
		b.Fatalf("%v have passed, and not all are ready in %s", 2*patience, namespace)
		return 0
	}
}
