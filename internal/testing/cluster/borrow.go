package cluster

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// Borrow returns a cluster that no other test uses at the same time, for a test that starts and
// stops operators. It has the options of Main, which must be Whole. When the test ends, another
// test gets the cluster, without the namespaces of this one. The tests of a package borrow one
// cluster in turn, because to start one takes more CPU time than most tests. Use Start for a test
// that changes roles, policies or components.
func Borrow(t testing.TB) *Cluster {
	t.Helper()
	Needed(t)
	if shared.borrowed == nil {
		t.Fatal("the package's TestMain does not call cluster.Main")
	}
	c := <-shared.borrowed
	if c == nil {
		var err error
		if c, err = startBorrowed(); err != nil {
			shared.borrowed <- nil
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		err := c.clear(context.Background())
		if err != nil || t.Failed() {
			err = errors.Join(err, c.failure(), c.Stop(context.Background()))
			c = nil // its state is unknown
		}
		shared.borrowed <- c
		if err != nil {
			t.Error(err)
		}
	})
	return c
}

func startBorrowed() (*Cluster, error) {
	dir, err := os.MkdirTemp(shared.dir, "borrowed-")
	if err != nil {
		return nil, err
	}
	return start(context.Background(), slices.Concat(shared.opts, []Option{In(dir)})...)
}

// stopBorrowed stops the cluster when no test uses it.
func stopBorrowed() error {
	c := <-shared.borrowed
	if c == nil {
		return nil
	}
	return errors.Join(c.failure(), c.Stop(context.Background()))
}

// clear deletes the namespaces of Namespace and waits until they contain no workloads of the
// project. No operator runs that would remove finalizers.
func (c *Cluster) clear(ctx context.Context) error {
	var namespaces corev1.NamespaceList
	if err := c.Client.List(ctx, &namespaces); err != nil {
		return err
	}
	for i := range namespaces.Items {
		if !strings.HasPrefix(namespaces.Items[i].Name, namespacePrefix) {
			continue
		}
		if err := c.Client.Delete(ctx, &namespaces.Items[i]); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return wait.PollUntilContextTimeout(ctx, polling, eventually, true, func(ctx context.Context) (bool, error) {
		apps, err := c.release(ctx, &v1alpha1.AppServiceList{})
		if err != nil {
			return false, err
		}
		notebooks, err := c.release(ctx, &v1alpha1.JupyterList{})
		return apps+notebooks == 0, err
	})
}

// release removes the finalizers of the objects of a list, and returns how many are left.
func (c *Cluster) release(ctx context.Context, list client.ObjectList) (left int, err error) {
	if err := c.Client.List(ctx, list); err != nil {
		return 0, err
	}
	err = meta.EachListItem(list, func(item runtime.Object) error {
		o := item.(client.Object)
		left++
		if o.GetDeletionTimestamp() == nil || len(o.GetFinalizers()) == 0 {
			return nil
		}
		none := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`))
		return client.IgnoreNotFound(c.Client.Patch(ctx, o, none))
	})
	return left, err
}
