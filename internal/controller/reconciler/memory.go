package reconciler

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/budget"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// Memory limits the memory that the objects of one kind use.
type Memory struct {
	*budget.Budget[kube.Key]
	// Enqueuer enqueues objects that became admitted or refused, because others have changed.
	Enqueuer
	remove func(key kube.Key)
}

// NewMemory returns a Memory with limits in bytes for each namespace and for all objects.
// remove is called for objects that no longer fit.
func NewMemory(namespaceLimit, totalLimit int64, remove func(key kube.Key)) *Memory {
	return &Memory{Budget: budget.New[kube.Key](namespaceLimit, totalLimit), remove: remove}
}

// Claim decides whether an object may use memory. Others that no longer fit are removed at once.
func (m *Memory) Claim(key kube.Key, object client.Object, bytes int64) budget.Decision {
	decision, others := m.Set(key, budget.Claim{
		Namespace: key.Namespace, CreatedAt: object.GetCreationTimestamp().Time, UID: string(object.GetUID()), Bytes: bytes,
	})
	m.update(others)
	return decision
}

// Release gives the memory of an object to others.
func (m *Memory) Release(key kube.Key) { m.update(m.Delete(key)) }

func (m *Memory) update(changed []kube.Key) {
	for _, key := range changed {
		if m.Decision(key) != budget.Admitted {
			m.remove(key)
		}
		m.Enqueue(key.NamespacedName())
	}
}
