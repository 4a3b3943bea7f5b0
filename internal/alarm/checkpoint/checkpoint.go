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
	"maps"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm/progress"
)

// The checkpoint is a ConfigMap in the operator's namespace.
// +kubebuilder:rbac:groups="",namespace=bongsu-system,resources=configmaps,verbs=get;create;update

// Name is the name of the ConfigMap.
const Name = "bongsu-checkpoint"

const dataKey = "checkpoint.json"

// ErrDeposed reports that another process wrote the checkpoint since it was read.
var ErrDeposed = errors.New("another process has taken over delivery")

// ErrDamaged reports that the checkpoint cannot be decoded.
var ErrDamaged = errors.New("it cannot be decoded")

// Checkpoint is the progress of delivery.
type Checkpoint struct {
	// ClusterUID is the UID of the namespace kube-system.
	ClusterUID string `json:"clusterUID"`
	// Epoch is the token of the last leader's term.
	Epoch string `json:"epoch"`
	// History names the history of etcd that positions belong to.
	History string `json:"history,omitempty"`
	// Offsets are what receivers have of the Events. Position is the resourceVersion up to which
	// Events are committed.
	progress.Offsets
	// Time is the creation time of the newest Event up to Position, in seconds since 1970;
	// 0 if it is unknown.
	Time int64 `json:"time,omitempty"`
	// Streams contains the streams of changes by name.
	Streams map[string]Stream `json:"streams,omitempty"`
	// PositionHistory maps times to positions, oldest first.
	PositionHistory []TimedPosition `json:"positionHistory,omitempty"`
}

// maxBehind limits the bytes of Behind as JSON. A ConfigMap can contain 1 MiB
// (https://kubernetes.io/docs/concepts/configuration/configmap/).
const maxBehind = 512 << 10

// Fit makes Streams, Waiting and Behind small enough for the ConfigMap. It omits receivers of
// the namespaces that exceed their share, and returns their number. If the outbox is lost, the
// pending messages of these receivers are lost, and no others. If a receiver has too many
// changes, or a namespace too many states, it omits the oldest ones.
func (c *Checkpoint) Fit() (leftOut int) {
	streams, trimmed := c.fitStreams()
	c.fitWaiting(maxWaiting - streams - c.fitStates())
	sizes := map[string]int{}
	for receiver, position := range c.Behind {
		sizes[receiver] = len(fmt.Sprintf("%q:%d,", receiver, position))
	}
	excess := Excess(sizes, maxBehind)
	for _, receiver := range excess {
		delete(c.Behind, receiver)
	}
	return len(excess) + trimmed
}

// Excess returns receivers without which the sum of the sizes is within the limit. It divides
// the limit among the owners of the receivers: one that needs less than its share is never
// affected, however much others need. It omits the largest receivers of each other owner.
func Excess(sizes map[string]int, limit int) (excess []string) {
	receivers, sums := byOwner(sizes)
	share := shareOf(slices.Sorted(maps.Values(sums)), limit)
	for of, sum := range sums {
		slices.SortFunc(receivers[of], func(a, b string) int { return cmp.Or(cmp.Compare(sizes[b], sizes[a]), cmp.Compare(b, a)) })
		for i := 0; sum > share; i++ {
			excess = append(excess, receivers[of][i])
			sum -= sizes[receivers[of][i]]
		}
	}
	return excess
}

// byOwner returns the receivers of each owner, and the sums of their sizes.
func byOwner(sizes map[string]int) (receivers map[string][]string, sums map[string]int) {
	receivers, sums = map[string][]string{}, map[string]int{}
	for receiver, size := range sizes {
		of := owner(receiver)
		receivers[of], sums[of] = append(receivers[of], receiver), sums[of]+size
	}
	return receivers, sums
}

// shareOf returns the size that each owner can have, given the sizes that they need. Owners that
// need less leave the rest of their share to the others.
func shareOf(ascending []int, limit int) (share int) {
	share = limit
	for i, size := range ascending {
		share = limit / (len(ascending) - i)
		if size > share {
			break
		}
		limit -= size
	}
	return max(share, 0)
}

// owner returns the kind and namespace of a receiver's key, KIND/NAMESPACE/NAME.
func owner(receiver string) string { return path.Dir(receiver) }

// Store reads and writes the checkpoint. Only one goroutine can use it.
type Store struct {
	client client.Client
	name   types.NamespacedName
	// clusterName is written as an annotation, unless it is empty.
	clusterName string
	// last is the ConfigMap as last read or written, nil if there is none.
	last *corev1.ConfigMap
}

// NewStore returns a Store in a namespace. The client must read from the API server, not
// from a cache.
func NewStore(c client.Client, namespace string) *Store {
	return &Store{client: c, name: types.NamespacedName{Namespace: namespace, Name: Name}}
}

// ClusterNameAnnotation of the ConfigMap is the name of the cluster in messages, so that
// `bongsu alarm test` can use the same.
const ClusterNameAnnotation = "bongsu.io/cluster-name"

// Named makes the Store write the name of the cluster with each checkpoint.
func (s *Store) Named(clusterName string) *Store {
	s.clusterName = clusterName
	return s
}

// Read returns the checkpoint. found is false if there is none. The error is ErrDamaged if it
// cannot be decoded; Write then replaces it.
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
	c, err = decode([]byte(cm.Data[dataKey]))
	if err != nil {
		return Checkpoint{}, false, fmt.Errorf("the checkpoint in ConfigMap %s: %w", s.name, err)
	}
	return c, true, nil
}

// format is what decode understands. Increase it if an older operator must not read the
// checkpoint. Since format 2, receivers have IDs with UIDs, which were keys before.
const format = 2

var errNewer = errors.New("it was written by a newer operator: install that version again, or delete the ConfigMap, and alarms continue from now")

func decode(data []byte) (Checkpoint, error) {
	var written struct {
		Version int `json:"version"`
	}
	if json.Unmarshal(data, &written) != nil {
		return Checkpoint{}, ErrDamaged
	}
	if written.Version > format {
		return Checkpoint{}, errNewer
	}
	var c Checkpoint
	if json.Unmarshal(data, &c) != nil {
		return Checkpoint{}, ErrDamaged
	}
	return c, nil
}

func encode(c Checkpoint) ([]byte, error) {
	return json.Marshal(struct {
		Version int `json:"version"`
		Checkpoint
	}{format, c})
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
	if errors.Is(err, ErrDamaged) || errors.Is(err, errNewer) {
		return false, nil // another process wrote it
	}
	if err != nil || !found || c.Epoch != epoch {
		return false, err
	}
	s.last = present.last
	return true, nil
}

func (s *Store) write(ctx context.Context, c Checkpoint) error {
	data, err := encode(c)
	if err != nil {
		return err
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.name.Namespace, Name: s.name.Name}}
	write := s.create
	if s.last != nil {
		cm, write = s.last.DeepCopy(), s.update
	}
	cm.Data = map[string]string{dataKey: string(data)}
	if s.clusterName != "" {
		metav1.SetMetaDataAnnotation(&cm.ObjectMeta, ClusterNameAnnotation, s.clusterName)
	}
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

// maxWaiting limits the bytes of Waiting and Streams as JSON. Together with maxBehind it fits into a
// ConfigMap. The length of a key depends on the name of the receiver, which tenants
// choose.
const maxWaiting = 480 << 10

// fitWaiting makes Waiting small enough. It lowers the offsets of receivers in the namespaces
// that exceed their share instead.
func (c *Checkpoint) fitWaiting(limit int) {
	sizes := map[string]int{}
	for receiver, held := range c.Waiting {
		sizes[receiver] = len(fmt.Sprintf("%q:{},", receiver))
		for key, position := range held {
			sizes[receiver] += len(fmt.Sprintf("%q:%d,", key, position))
		}
	}
	for _, receiver := range Excess(sizes, limit) {
		c.FallBehind(receiver, c.Waiting.Lowest(receiver))
		delete(c.Waiting, receiver)
	}
}

// TimedPosition is a position with its time: no occurrence up to Position is later than
// Time, and no occurrence after Position is earlier.
type TimedPosition struct {
	Position uint64 `json:"position"`
	// Time in seconds since 1970; 0 before the first occurrence.
	Time int64 `json:"time"`
}

// Stream is the progress of delivery of the changes of one resource.
type Stream struct {
	// Version is the API version in which the objects were read.
	Version string `json:"version,omitempty"`
	// Offsets are what receivers have of the changes. Position is the resourceVersion up to which
	// changes are committed. It is not comparable with positions of Events or other streams. It is 0 if
	// only States and their reports count. Waiting contains all changes that are not sent.
	progress.Offsets
	// Time is when the stream was known to be current, in seconds since 1970; 0 if it is unknown.
	Time int64 `json:"time,omitempty"`
	// States are the states of objects that were reported and hold, newest first.
	States []State `json:"states,omitempty"`
}

// Equal reports whether all fields are equal.
func (s Stream) Equal(o Stream) bool {
	return s.Version == o.Version && s.Time == o.Time && s.Offsets.Equal(o.Offsets) && slices.Equal(s.States, o.States)
}

// State is a state of an object that was reported and holds.
type State struct {
	// UID and Namespace identify the object. Alarm is the UID of the alarm, and State the ID
	// of one of its states.
	UID       string `json:"uid"`
	Namespace string `json:"namespace,omitempty"`
	Alarm     string `json:"alarm"`
	State     string `json:"state"`
	// Since is when it began, in microseconds since 1970. Position is where the stream was when it
	// was reported. Group is its group.
	Since    int64  `json:"since"`
	Position uint64 `json:"position"`
	Group    string `json:"group"`
	// Data is opaque here.
	Data string `json:"data"`
}
