package enrich_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/enrich"
)

// podReader answers each read with a Pod, or with an error, and counts the reads.
type podReader struct {
	client.Reader
	err   error
	reads int
}

func (r *podReader) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	r.reads++
	o.SetNamespace(key.Namespace)
	o.SetName(key.Name)
	o.SetUID("web-uid")
	return r.err
}

// candidateLimit limits the time for one occurrence.
const candidateLimit = 50 * time.Microsecond

// BenchmarkCandidate measures what an occurrence costs that an alarm may match: the object
// from the cache, and the number of Nodes. The time is at most 50 µs, also with 10,000 Nodes
// and if the API server cannot be read.
func BenchmarkCandidate(b *testing.B) {
	for _, nodes := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) { benchCandidate(b, nodes, &podReader{}) })
	}
	b.Run("nodes=10000,unread", func(b *testing.B) {
		benchCandidate(b, 10_000, &podReader{err: apierrors.NewTooManyRequests("slow down", 1)})
	})
}

func benchCandidate(b *testing.B, nodes int, reader *podReader) {
	e := enrich.New("here", nodesInCache(b, nodes), reader)
	event := &alarm.Event{
		Namespace: "shop", Reason: "Created", Type: corev1.EventTypeNormal,
		Regarding: alarm.Reference{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "web", UID: "web-uid"},
	}
	for b.Loop() {
		c := e.Context(b.Context(), event)
		if c.Cluster.Nodes != int64(nodes) || c.Resolved != (reader.err == nil) {
			b.Fatalf("%+v, want the object and %d Nodes", c, nodes)
		}
	}
	if each := b.Elapsed() / time.Duration(b.N); b.N > 1000 && each > candidateLimit {
		b.Errorf("%v for an occurrence, the limit is %v", each, candidateLimit)
	}
	if b.N > 1000 && reader.reads > b.N/100 {
		b.Errorf("%d reads for %d occurrences: a result must be cached for a moment", reader.reads, b.N)
	}
}

func nodesInCache(b *testing.B, n int) *enrich.CachedNodes {
	b.Helper()
	informers := &informertest.FakeInformers{}
	nodes, err := enrich.NewCachedNodes(b.Context(), informers)
	if err != nil {
		b.Fatal(err)
	}
	informer, err := informers.FakeInformerFor(b.Context(), &corev1.Node{})
	if err != nil {
		b.Fatal(err)
	}
	for i := range n {
		name := fmt.Sprint("node-", i)
		informer.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}})
	}
	return nodes
}
