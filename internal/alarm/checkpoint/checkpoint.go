// Package checkpoint stores the progress of delivery in the cluster, in one ConfigMap.
// With it, another replica, or the same one with an empty disk, can continue. It loses
// nothing that the API server still has, and repeats the messages of the last seconds at
// most.
//
// A replica must read the checkpoint before it writes it. The write of a leader that was
// deposed in between fails with a conflict.
package checkpoint

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The checkpoint is a ConfigMap in the operator's namespace.
// +kubebuilder:rbac:groups="",namespace=bongsu-system,resources=configmaps,verbs=get;create;update

// Name is the name of the ConfigMap.
const Name = "bongsu-checkpoint"

const dataKey = "checkpoint.json"

// ErrDeposed reports that another process wrote the checkpoint since it was read.
var ErrDeposed = errors.New("another process has taken over delivery")

// Checkpoint is the progress of delivery.
type Checkpoint struct {
	// ClusterUID is the UID of the namespace kube-system.
	ClusterUID string `json:"clusterUID"`
	// Epoch is the token of the last leader's term.
	Epoch string `json:"epoch"`
	// History names the history of etcd that positions belong to.
	History string `json:"history,omitempty"`
	// Position is the resourceVersion up to which Events are committed.
	Position uint64 `json:"position"`
	// Behind contains the delivered offset of each receiver with pending messages: the
	// position up to which it has none. The offset of all other receivers is Position.
	Behind map[string]uint64 `json:"behind,omitempty"`
	// Waiting contains, for each receiver, the occurrences in groups and in messages of
	// groups: their positions by idempotency key. They are not sent, although their
	// positions are at or below the delivered offset.
	Waiting map[string]map[string]uint64 `json:"waiting,omitempty"`
	// PositionHistory maps times to positions, oldest first.
	PositionHistory []TimedPosition `json:"positionHistory,omitempty"`
}

// Equal reports whether all fields are equal.
func (c Checkpoint) Equal(o Checkpoint) bool {
	return c.ClusterUID == o.ClusterUID && c.Epoch == o.Epoch && c.History == o.History && c.Position == o.Position &&
		maps.Equal(c.Behind, o.Behind) && maps.EqualFunc(c.Waiting, o.Waiting, maps.Equal[map[string]uint64]) && slices.Equal(c.PositionHistory, o.PositionHistory)
}

// maxBehind limits the bytes of Behind as JSON. A ConfigMap can contain 1 MiB
// (https://kubernetes.io/docs/concepts/configuration/configmap/).
const maxBehind = 512 << 10

// Fit makes Waiting and Behind small enough for the ConfigMap. It omits all receivers of
// the namespaces with the most data, and returns their number. If the outbox is lost, the
// pending messages of these receivers are lost, and no others.
func (c *Checkpoint) Fit() (leftOut int) {
	c.fitWaiting()
	sizes := map[string]int{}
	for receiver, position := range c.Behind {
		sizes[owner(receiver)] += len(fmt.Sprintf("%q:%d,", receiver, position))
	}
	for largest := range beyond(sizes, maxBehind) {
		maps.DeleteFunc(c.Behind, func(receiver string, _ uint64) bool {
			left := owner(receiver) == largest
			if left {
				leftOut++
			}
			return left
		})
	}
	return leftOut
}

// beyond yields the largest keys until the sum of the others is within the limit.
func beyond(sizes map[string]int, limit int) iter.Seq[string] {
	return func(yield func(string) bool) {
		total := 0
		for _, size := range sizes {
			total += size
		}
		for total > limit {
			largest := slices.MaxFunc(slices.Sorted(maps.Keys(sizes)), func(a, b string) int { return cmp.Compare(sizes[a], sizes[b]) })
			total -= sizes[largest]
			delete(sizes, largest)
			if !yield(largest) {
				return
			}
		}
	}
}

// owner returns the kind and namespace of a receiver's key, KIND/NAMESPACE/NAME.
func owner(receiver string) string { return path.Dir(receiver) }

// Store reads and writes the checkpoint. Only one goroutine can use it.
type Store struct {
	client client.Client
	name   types.NamespacedName
	// last is the ConfigMap as last read or written, nil if there is none.
	last *corev1.ConfigMap
}

// NewStore returns a Store in a namespace. The client must read from the API server, not
// from a cache.
func NewStore(c client.Client, namespace string) *Store {
	return &Store{client: c, name: types.NamespacedName{Namespace: namespace, Name: Name}}
}

// Read returns the checkpoint. found is false if there is none, or if it cannot be
// decoded.
func (s *Store) Read(ctx context.Context) (c Checkpoint, found bool, err error) {
	cm := &corev1.ConfigMap{}
	err = s.client.Get(ctx, s.name, cm)
	if apierrors.IsNotFound(err) {
		s.last = nil
		return Checkpoint{}, false, nil
	}
	if err != nil {
		return Checkpoint{}, false, fmt.Errorf("read the checkpoint: %w", err)
	}
	s.last = cm
	if json.Unmarshal([]byte(cm.Data[dataKey]), &c) != nil {
		return Checkpoint{}, false, nil
	}
	return c, true, nil
}

// Write replaces the checkpoint that was last read or written. It returns ErrDeposed if
// another process changed it in between. Writes of the same term are no conflict: the
// response to a write can get lost, and etcd can be restored.
func (s *Store) Write(ctx context.Context, c Checkpoint) error {
	err := s.write(ctx, c)
	if apierrors.IsNotFound(err) {
		// The ConfigMap was deleted, which does not depose the leader.
		s.last = nil
		err = s.write(ctx, c)
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		own, readErr := s.adopt(ctx, c.Epoch)
		if readErr != nil {
			return readErr
		}
		if own {
			err = s.write(ctx, c)
		}
	}
	switch {
	case err == nil:
		return nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%w: %w", ErrDeposed, err)
	default:
		return fmt.Errorf("write the checkpoint: %w", err)
	}
}

// adopt reads the checkpoint and uses it as the last one if it belongs to the term. It
// reports whether it does.
func (s *Store) adopt(ctx context.Context, epoch string) (bool, error) {
	present := NewStore(s.client, s.name.Namespace)
	c, found, err := present.Read(ctx)
	if err != nil || !found || c.Epoch != epoch {
		return false, err
	}
	s.last = present.last
	return true, nil
}

func (s *Store) write(ctx context.Context, c Checkpoint) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.name.Namespace, Name: s.name.Name}}
	write := s.create
	if s.last != nil {
		cm, write = s.last.DeepCopy(), s.update
	}
	cm.Data = map[string]string{dataKey: string(data)}
	if err := write(ctx, cm); err != nil {
		return err
	}
	s.last = cm
	return nil
}

func (s *Store) create(ctx context.Context, cm *corev1.ConfigMap) error {
	return s.client.Create(ctx, cm)
}

func (s *Store) update(ctx context.Context, cm *corev1.ConfigMap) error {
	return s.client.Update(ctx, cm)
}

// MaxWaiting limits the occurrences that are read for Checkpoint.Waiting.
const MaxWaiting = 10_000

// maxWaiting limits the bytes of Waiting as JSON. Together with maxBehind it fits into a
// ConfigMap. The length of a key depends on the name of the receiver, which tenants
// choose.
const maxWaiting = 480 << 10

// fitWaiting makes Waiting small enough. It lowers the offsets of the receivers in the
// largest namespaces instead.
func (c *Checkpoint) fitWaiting() {
	sizes := map[string]int{}
	for receiver, held := range c.Waiting {
		size := len(fmt.Sprintf("%q:{},", receiver))
		for key, position := range held {
			size += len(fmt.Sprintf("%q:%d,", key, position))
		}
		sizes[owner(receiver)] += size
	}
	for largest := range beyond(sizes, maxWaiting) {
		for receiver, held := range c.Waiting {
			if owner(receiver) == largest {
				c.FallBehind(receiver, slices.Min(slices.Collect(maps.Values(held))))
				delete(c.Waiting, receiver)
			}
		}
	}
}

// FallBehind lowers the delivered offset of a receiver to before a position.
func (c *Checkpoint) FallBehind(receiver string, position uint64) {
	behind, ok := c.Behind[receiver]
	if !ok {
		behind = c.Position
	}
	c.Behind[receiver] = min(behind, position-1)
}
