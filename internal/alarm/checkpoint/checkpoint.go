// Package mirror keeps, in the cluster, how far delivery has come: enough for
// another replica, or the same one after it lost its disk, to go on without
// losing what the API server still holds and without repeating more than the
// last seconds.
//
// It is one ConfigMap in the operator's namespace. Who writes it must have read
// it: a write by a leader that was deposed meanwhile fails with a conflict.
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

// How far delivery has come is kept in a ConfigMap of the operator's namespace.
// +kubebuilder:rbac:groups="",namespace=bongsu-system,resources=configmaps,verbs=get;create;update

// Name of the ConfigMap.
const Name = "bongsu-mirror"

const dataKey = "mirror.json"

// ErrDeposed means that another process wrote the mirror since it was read.
var ErrDeposed = errors.New("another process has taken over delivery")

// Mirror is what is kept.
type Checkpoint struct {
	// ClusterUID is the UID of the namespace kube-system.
	ClusterUID string `json:"clusterUID"`
	// Epoch is the token of the last leader's term.
	Epoch string `json:"epoch"`
	// History names the history of the API server's store that positions are of.
	History string `json:"history,omitempty"`
	// Position is how far the feed was read.
	Position uint64 `json:"position"`
	// Behind has, for each receiver that has messages pending, the position up to
	// which it has none. The others are at Position.
	Behind map[string]uint64 `json:"behind,omitempty"`
	// Waiting is what waits in groups, or in messages of groups, by receiver: the
	// position of each idempotency key. It was not sent, although it lies at or below
	// the position up to which the receiver has nothing pending.
	Waiting map[string]map[string]uint64 `json:"waiting,omitempty"`
	// Trail tells when the feed was where, the oldest first.
	PositionHistory []TimedPosition `json:"trail,omitempty"`
}

// Equal says whether two mirrors tell the same.
func (m Checkpoint) Equal(o Checkpoint) bool {
	return m.ClusterUID == o.ClusterUID && m.Epoch == o.Epoch && m.History == o.History && m.Position == o.Position &&
		maps.Equal(m.Behind, o.Behind) && maps.EqualFunc(m.Waiting, o.Waiting, maps.Equal[map[string]uint64]) && slices.Equal(m.PositionHistory, o.PositionHistory)
}

// maxBehind bounds Behind, in bytes as JSON: a ConfigMap has room for 1 MiB
// (https://kubernetes.io/docs/concepts/configuration/configmap/).
const maxBehind = 512 << 10

// Fit makes Waiting and Behind small enough to be written, and returns how many
// receivers it had to leave out: all those of the namespaces that have most of it. What
// waits for them is lost if the ledger is, and for nobody else.
func (m *Checkpoint) Fit() (leftOut int) {
	m.fitWaiting()
	sizes := map[string]int{}
	for receiver, position := range m.Behind {
		sizes[owner(receiver)] += len(fmt.Sprintf("%q:%d,", receiver, position))
	}
	for largest := range beyond(sizes, maxBehind) {
		maps.DeleteFunc(m.Behind, func(receiver string, _ uint64) bool {
			left := owner(receiver) == largest
			if left {
				leftOut++
			}
			return left
		})
	}
	return leftOut
}

// beyond returns those that have most, until the sizes of the others are within a limit.
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

// owner is the kind and namespace of a receiver's key, KIND/NAMESPACE/NAME.
func owner(receiver string) string { return path.Dir(receiver) }

// Store reads and writes the mirror. It is used by one goroutine.
type Store struct {
	client client.Client
	name   types.NamespacedName
	// last is the ConfigMap as it was last read or written; nil if there is none.
	last *corev1.ConfigMap
}

// NewStore returns a Store in the given namespace. The client must read from the
// API server, not from a cache.
func NewStore(c client.Client, namespace string) *Store {
	return &Store{client: c, name: types.NamespacedName{Namespace: namespace, Name: Name}}
}

// Read returns the mirror; found is false if there is none, or none that can be
// understood.
func (s *Store) Read(ctx context.Context) (m Checkpoint, found bool, err error) {
	cm := &corev1.ConfigMap{}
	err = s.client.Get(ctx, s.name, cm)
	if apierrors.IsNotFound(err) {
		s.last = nil
		return Checkpoint{}, false, nil
	}
	if err != nil {
		return Checkpoint{}, false, fmt.Errorf("read mirror: %w", err)
	}
	s.last = cm
	if json.Unmarshal([]byte(cm.Data[dataKey]), &m) != nil {
		return Checkpoint{}, false, nil
	}
	return m, true, nil
}

// Write replaces the mirror that was last read or written. It returns ErrDeposed
// if another process changed it in between. What this term wrote itself is no such
// change: the answer to a write may have been lost, or the API server's store been
// put back to an older state.
func (s *Store) Write(ctx context.Context, m Checkpoint) error {
	err := s.write(ctx, m)
	if apierrors.IsNotFound(err) {
		// Somebody deleted it, which deposes nobody: there is none to read.
		s.last = nil
		err = s.write(ctx, m)
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		own, readErr := s.adopt(ctx, m.Epoch)
		if readErr != nil {
			return readErr
		}
		if own {
			err = s.write(ctx, m)
		}
	}
	switch {
	case err == nil:
		return nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%w: %w", ErrDeposed, err)
	default:
		return fmt.Errorf("write mirror: %w", err)
	}
}

// adopt takes the mirror that is there now for the last one if it is of the term,
// and says whether it is.
func (s *Store) adopt(ctx context.Context, epoch string) (bool, error) {
	present := NewStore(s.client, s.name.Namespace)
	m, found, err := present.Read(ctx)
	if err != nil || !found || m.Epoch != epoch {
		return false, err
	}
	s.last = present.last
	return true, nil
}

func (s *Store) write(ctx context.Context, m Checkpoint) error {
	data, err := json.Marshal(m)
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
