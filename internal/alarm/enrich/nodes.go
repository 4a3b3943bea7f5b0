package enrich

import (
	"context"
	"errors"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Nodes are the Nodes of the cluster, in memory.
type Nodes interface {
	client.Reader
	// Count returns the number of Nodes, or an error if it is not known yet.
	Count(ctx context.Context) (int64, error)
}

// CachedNodes are Nodes in a cache. It counts them as they are created and deleted, because
// each occurrence that an alarm may match needs their number.
type CachedNodes struct {
	cache.Cache
	count  atomic.Int64
	synced func() bool
}

// NewCachedNodes returns the Nodes of the cache. The cache need not have been started.
func NewCachedNodes(ctx context.Context, c cache.Cache) (*CachedNodes, error) {
	informer, err := c.GetInformer(ctx, &corev1.Node{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, err
	}
	nodes := &CachedNodes{Cache: c}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { nodes.count.Add(1) },
		DeleteFunc: func(any) { nodes.count.Add(-1) },
	})
	if err != nil {
		return nil, err
	}
	nodes.synced = registration.HasSynced
	return nodes, nil
}

// Count implements Nodes. It does not wait for the cache.
func (n *CachedNodes) Count(context.Context) (int64, error) {
	if !n.synced() {
		return 0, errNotSynced
	}
	return n.count.Load(), nil
}

var errNotSynced = errors.New("the cache of Nodes is not complete yet")
