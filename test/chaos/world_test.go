package chaos

import (
	"slices"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/testing/audit"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// world is a cluster of a test's own in which pods run, simulated.
type world struct {
	*stage
	g *gomega.WithT
}

func newWorld(t *testing.T) *world {
	t.Helper()
	c := cluster.Start(t, cluster.Whole(3))
	return &world{stage: &stage{Cluster: c, t: t}, g: gomega.NewWithT(t)}
}

// newNamespace is one in which pods can be made.
func (w *world) newNamespace() string {
	w.t.Helper()
	namespace := w.Namespace(w.t, nil)
	w.g.Eventually(func() error {
		return w.Client.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: "default"}, &corev1.ServiceAccount{})
	}).WithTimeout(patience).Should(gomega.Succeed())
	return namespace
}

// each does something for numbers, eight at a time.
func (w *world) each(from, to int, do func(i int) error) {
	w.t.Helper()
	var group errgroup.Group
	group.SetLimit(8)
	for i := from; i < to; i++ {
		group.Go(func() error { return do(i) })
	}
	if err := group.Wait(); err != nil {
		w.t.Fatal(err)
	}
}

// requests are the operator's since then.
func (w *world) requests(since time.Time) []audit.Request {
	w.t.Helper()
	return slices.DeleteFunc(audit.Requests(w.t, w.AuditLog(), audit.Operator), func(r audit.Request) bool {
		return r.Received.Before(since)
	})
}

func count(requests []audit.Request, of func(audit.Request) bool) int {
	found := 0
	for _, r := range requests {
		if of(r) {
			found++
		}
	}
	return found
}

// child is a kind of what an object of ours is made of.
type child struct {
	suffix string
	list   func() client.ObjectList
}

// childrenOf lists those of a kind in a namespace.
func (w *world) childrenOf(namespace string, c child) []client.Object {
	w.t.Helper()
	list := c.list()
	err := w.Client.List(w.t.Context(), list, client.InNamespace(namespace), client.MatchingLabels{"app.kubernetes.io/managed-by": "bongsu"})
	if err != nil {
		w.t.Fatal(err)
	}
	var objects []client.Object
	err = meta.EachListItem(list, func(o runtime.Object) error {
		objects = append(objects, o.(client.Object))
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return objects
}
