package checkpoint_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

var whole = checkpoint.Checkpoint{
	ClusterUID: "cluster", Epoch: "epoch", History: "history", Position: 1<<63 + 1,
	Behind:  map[string]uint64{"AlarmReceiver/shop/console": 7, "ClusterAlarmReceiver//ops": 9},
	Waiting: map[string]map[string]uint64{"ClusterAlarmReceiver//ops": {"5e97": 8}},
}

// world is a namespace in which operators keep their mirror.
type world struct {
	client    client.Client
	namespace string
}

func newWorld(t *testing.T) world {
	t.Helper()
	c := cluster.Shared(t)
	namespace := c.Namespace(t, nil)
	config := c.User(t, namespace, cluster.Rule("", "configmaps", "get", "create", "update"))
	limited, err := cluster.ClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return world{client: limited, namespace: namespace}
}

// operator returns the Store of one more operator.
func (w world) operator() *checkpoint.Store { return checkpoint.NewStore(w.client, w.namespace) }

func TestANewLeaderReadsTheCheckpointOfTheFormerLeader(t *testing.T) {
	w := newWorld(t)
	former := w.operator()
	for _, m := range []checkpoint.Checkpoint{{Epoch: "first", Behind: map[string]uint64{"a": 1}}, whole} {
		write(t, former, m)
	}
	if diff := cmp.Diff(whole, read(t, w.operator())); diff != "" {
		t.Error(diff)
	}
}

func TestAClusterWithoutACheckpointHasNone(t *testing.T) {
	w := newWorld(t)
	if m, found, err := w.operator().Read(t.Context()); found || err != nil {
		t.Errorf("got %v, %v, %v", m, found, err)
	}
}

func TestADeposedLeaderCannotWrite(t *testing.T) {
	for name, takeOver := range map[string]func(t *testing.T, w world){
		"another wrote": func(t *testing.T, w world) {
			successor := w.operator()
			read(t, successor)
			write(t, successor, checkpoint.Checkpoint{Epoch: "successor"})
		},
		"it was deleted and written anew": func(t *testing.T, w world) {
			w.delete(t)
			write(t, w.operator(), checkpoint.Checkpoint{Epoch: "successor"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			leader := w.operator()
			write(t, leader, checkpoint.Checkpoint{Epoch: "leader"})
			takeOver(t, w)
			for range 2 { // it does not help to try again
				if err := leader.Write(t.Context(), checkpoint.Checkpoint{Epoch: "leader", Position: 1}); !errors.Is(err, checkpoint.ErrDeposed) {
					t.Errorf("got %v, want ErrDeposed", err)
				}
			}
		})
	}
}

// It knows nothing of a write of which it did not hear, and of a store that was put
// back to what it had written before.
func TestALeaderContinuesFromItsOwnWrites(t *testing.T) {
	for name, first := range map[string]bool{"its first write": true, "a later one": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			leader, unheard := w.operator(), w.operator()
			if !first {
				write(t, leader, checkpoint.Checkpoint{Epoch: whole.Epoch})
				read(t, unheard)
			}
			write(t, unheard, checkpoint.Checkpoint{Epoch: whole.Epoch, Position: 1})
			write(t, leader, whole)
			if diff := cmp.Diff(whole, read(t, w.operator())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOneOfTwoFirstLeadersIsDeposed(t *testing.T) {
	w := newWorld(t)
	one, other := w.operator(), w.operator()
	for _, store := range []*checkpoint.Store{one, other} {
		if _, found, err := store.Read(t.Context()); found || err != nil {
			t.Fatalf("found %v: %v", found, err)
		}
	}
	write(t, one, whole)
	if err := other.Write(t.Context(), checkpoint.Checkpoint{Epoch: "other"}); !errors.Is(err, checkpoint.ErrDeposed) {
		t.Errorf("got %v, want ErrDeposed", err)
	}
	if diff := cmp.Diff(whole, read(t, w.operator())); diff != "" {
		t.Errorf("the first one's mirror was changed:\n%s", diff)
	}
}

func TestALeaderRecreatesADeletedCheckpoint(t *testing.T) {
	w := newWorld(t)
	leader := w.operator()
	write(t, leader, checkpoint.Checkpoint{Epoch: whole.Epoch})
	w.delete(t)
	write(t, leader, whole)
	if diff := cmp.Diff(whole, read(t, w.operator())); diff != "" {
		t.Error(diff)
	}
}

func TestACheckpointThatIsTooLargeOmitsTheLargestNamespace(t *testing.T) {
	w := newWorld(t)
	m := checkpoint.Checkpoint{Epoch: "leader", Position: 9, Behind: map[string]uint64{"AlarmReceiver/shop/hook": 3, "ClusterAlarmReceiver//ops": 4}}
	want := maps.Clone(m.Behind)
	if left := m.Fit(); left != 0 || len(m.Behind) != 2 {
		t.Errorf("%d of a small one were left out", left)
	}
	// More than a ConfigMap has room for.
	for i := range 4000 {
		m.Behind[fmt.Sprintf("AlarmReceiver/greedy/%0253d", i)] = uint64(i)
	}
	if left := m.Fit(); left != 4000 {
		t.Errorf("%d were left out, want all of the greedy namespace", left)
	}
	if diff := cmp.Diff(want, m.Behind); diff != "" {
		t.Error(diff)
	}
	write(t, w.operator(), m)
}

// Whoever makes receivers chooses how long their names are, and may not keep the leader
// from writing what it needs to lead.
func TestTooManyHeldOccurrencesBecomeALowerOffset(t *testing.T) {
	w := newWorld(t)
	waiting := func(position uint64) map[string]uint64 {
		return map[string]uint64{"5e97": position, "5e98": position + 1}
	}
	m := checkpoint.Checkpoint{
		Epoch: "leader", Position: 900, Behind: map[string]uint64{},
		Waiting: map[string]map[string]uint64{"AlarmReceiver/shop/hook": waiting(700)},
	}
	for i := range 1700 {
		m.Waiting[fmt.Sprintf("AlarmReceiver/greedy/%0253d", i)] = waiting(800)
	}
	if left := m.Fit(); left != 0 || len(m.Behind) != 1700 {
		t.Errorf("%d were left out, and %d are behind; want all of the greedy namespace to be behind", left, len(m.Behind))
	}
	for receiver, position := range m.Behind {
		if position != 799 {
			t.Fatalf("%s is at %d", receiver, position)
		}
	}
	if diff := cmp.Diff(map[string]map[string]uint64{"AlarmReceiver/shop/hook": waiting(700)}, m.Waiting); diff != "" {
		t.Error(diff)
	}
	write(t, w.operator(), m)
}

func TestADeposedLeaderCanWriteAfterItReadsAgain(t *testing.T) {
	w := newWorld(t)
	store := w.operator()
	write(t, store, whole)
	w.delete(t)
	if _, found, err := store.Read(t.Context()); found || err != nil {
		t.Fatalf("found %v: %v", found, err)
	}
	write(t, store, whole)
	if diff := cmp.Diff(whole, read(t, store)); diff != "" {
		t.Error(diff)
	}
}

func TestAnUnreadableCheckpointIsIgnoredAndReplaced(t *testing.T) {
	for name, data := range map[string]map[string]string{
		"empty":             nil,
		"another key":       {"other.json": "{}"},
		"cut off":           {"mirror.json": `{"epoch":"a","posi`},
		"not JSON":          {"mirror.json": "position: 7"},
		"negative position": {"mirror.json": `{"epoch":"a","position":-1}`},
		"of another shape":  {"mirror.json": `["a"]`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.create(t, data)
			store := w.operator()
			if m, found, err := store.Read(t.Context()); found || err != nil || !m.Equal(checkpoint.Checkpoint{}) {
				t.Errorf("got %v, %v, %v", m, found, err)
			}
			write(t, store, whole)
			if diff := cmp.Diff(whole, read(t, w.operator())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAnAPIErrorDoesNotDeposeTheLeader(t *testing.T) {
	w := newWorld(t)
	nowhere := checkpoint.NewStore(w.client, "default") // where this user has no rights
	_, _, err := nowhere.Read(t.Context())
	if err == nil || !strings.Contains(err.Error(), "read mirror") {
		t.Errorf("read: got %v", err)
	}
	if err := nowhere.Write(t.Context(), whole); err == nil || errors.Is(err, checkpoint.ErrDeposed) {
		t.Errorf("write: got %v, want an error that may pass", err)
	}
}

func TestCheckpointsAreEqualIfAllFieldsAre(t *testing.T) {
	for name, change := range map[string]func(*checkpoint.Checkpoint){
		"cluster":  func(m *checkpoint.Checkpoint) { m.ClusterUID = "other" },
		"epoch":    func(m *checkpoint.Checkpoint) { m.Epoch = "other" },
		"history":  func(m *checkpoint.Checkpoint) { m.History = "other" },
		"position": func(m *checkpoint.Checkpoint) { m.Position++ },
		"behind":   func(m *checkpoint.Checkpoint) { m.Behind = map[string]uint64{"ClusterAlarmReceiver//ops": 9} },
	} {
		t.Run(name, func(t *testing.T) {
			other := whole
			if !whole.Equal(other) {
				t.Fatal("a copy differs")
			}
			if change(&other); whole.Equal(other) {
				t.Error("they are equal")
			}
		})
	}
}

func read(t *testing.T, s *checkpoint.Store) checkpoint.Checkpoint {
	t.Helper()
	m, found, err := s.Read(t.Context())
	if err != nil || !found {
		t.Fatalf("found %v: %v", found, err)
	}
	return m
}

func write(t *testing.T, s *checkpoint.Store, m checkpoint.Checkpoint) {
	t.Helper()
	if err := s.Write(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

// create and delete are what an administrator does.
func (w world) create(t *testing.T, data map[string]string) {
	t.Helper()
	if err := cluster.Shared(t).Client.Create(t.Context(), w.configMap(data)); err != nil {
		t.Fatal(err)
	}
}

func (w world) delete(t *testing.T) {
	t.Helper()
	if err := cluster.Shared(t).Client.Delete(t.Context(), w.configMap(nil)); err != nil {
		t.Fatal(err)
	}
}

func (w world) configMap(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: checkpoint.Name}, Data: data}
}
