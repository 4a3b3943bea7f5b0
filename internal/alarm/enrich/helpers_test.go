package enrich_test

import (
	"context"
	"os"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm/enrich"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// fixture is an Enricher with the operator's permissions, and the requests that it made.
type fixture struct {
	*enrich.Enricher
	cluster *cluster.Cluster
	nodes   *enrich.CachedNodes
	live    *recordingReader
	// namespace contains the Service web.
	namespace string
	service   *corev1.Service
}

// newFixture returns a fixture whose cache contains the selected Nodes, or all of them.
func newFixture(t *testing.T, nodes fields.Selector) *fixture {
	t.Helper()
	c := cluster.Shared(t)
	config := c.OperatorConfig(t)
	s := &fixture{cluster: c, live: &recordingReader{Reader: newReader(t, config)}, namespace: c.Namespace(t, nil)}
	s.service = &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.namespace, Name: "web", Labels: map[string]string{"app": "web"},
			Annotations: map[string]string{"team": "shop", corev1.LastAppliedConfigAnnotation: "{}"},
		},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
	s.create(t, s.service)
	s.nodes = startCache(t, config, nodes)
	s.Enricher = enrich.New("test", s.nodes, s.live).WithLongTimeout().WithRoots(c.Client.Scheme(), c.Client.RESTMapper())
	return s
}

func newReader(t *testing.T, config *rest.Config) client.Reader {
	t.Helper()
	reader, err := cluster.ClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return reader
}

// startCache starts a cache like the operator's and waits until it is filled.
func startCache(t *testing.T, config *rest.Config, selected fields.Selector) *enrich.CachedNodes {
	t.Helper()
	c, err := ctrlcache.New(config, ctrlcache.Options{ByObject: map[client.Object]ctrlcache.ByObject{
		&corev1.Node{}: {Transform: enrich.TrimNode, Field: selected},
	}})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- c.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	nodes, err := enrich.NewCachedNodes(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	c.WaitForCacheSync(ctx)
	return nodes
}

func (s *fixture) create(t *testing.T, o client.Object) {
	t.Helper()
	if err := s.cluster.Client.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// createNode creates a Node and deletes it after the test.
func (s *fixture) createNode(t *testing.T, name string) *corev1.Node {
	t.Helper()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				corev1.LabelInstanceTypeStable: "m7g.large", corev1.LabelTopologyZone: "zone-b", "pool": "web",
			},
			Annotations: map[string]string{"rack": "7", corev1.LastAppliedConfigAnnotation: "{}"},
		},
		Status: corev1.NodeStatus{Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2000m")}},
	}
	s.create(t, node)
	t.Cleanup(func() { _ = s.cluster.Client.Delete(context.Background(), node) })
	return node
}

// recordingReader records the kinds that were read.
type recordingReader struct {
	client.Reader
	mu    sync.Mutex
	kinds []string
}

func (r *recordingReader) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	r.mu.Lock()
	kind := o.GetObjectKind().GroupVersionKind().Kind // empty for typed objects
	switch o.(type) {
	case *corev1.Node:
		kind = "Node"
	case *corev1.Pod:
		kind = "whole Pod"
	}
	r.kinds = append(r.kinds, kind)
	r.mu.Unlock()
	return r.Reader.Get(ctx, key, o, opts...)
}

func (r *recordingReader) reads() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kinds
}

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }
