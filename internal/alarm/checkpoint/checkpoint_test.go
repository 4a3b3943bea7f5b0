package checkpoint_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

func TestMain(c *testing.M) { os.Exit(cluster.Main(c)) }

var whole = checkpoint.Checkpoint{
	ClusterUID: "cluster", Epoch: "epoch", History: "history", Offsets: progress.Offsets{Position: 1<<63 + 1, Behind: map[string]uint64{"AlarmReceiver/shop/console": 7, "ClusterAlarmReceiver//ops": 9}, Waiting: progress.Waiting{"ClusterAlarmReceiver//ops": {"5e97": 8}}},
	Streams: map[string]checkpoint.Stream{"pods": {Version: "v1", Offsets: progress.Offsets{Position: 1<<63 + 1, Waiting: progress.Waiting{"ClusterAlarmReceiver//ops": {"5e98": 9}}}, Time: 5}},
}

// world is a namespace with the checkpoint of several operators.
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

// operator returns the Store of a new operator.
func (w world) operator() *checkpoint.Store { return checkpoint.NewStore(w.client, w.namespace) }

func TestANewLeaderReadsTheCheckpointOfTheFormerLeader(t *testing.T) {
	w := newWorld(t)
	former := w.operator()
	for _, c := range []checkpoint.Checkpoint{{Epoch: "first", Offsets: progress.Offsets{Behind: map[string]uint64{"a": 1}}}, whole} {
		write(t, former, c)
	}
	if diff := cmp.Diff(whole, read(t, w.operator())); diff != "" {
		t.Error(diff)
	}
}

func TestTheCheckpointNamesTheCluster(t *testing.T) {
	w := newWorld(t)
	first := w.operator().Named("old")
	write(t, first, whole)
	second := w.operator().Named("prod")
	read(t, second)
	write(t, second, whole)
	var cm corev1.ConfigMap
	if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: checkpoint.Name}, &cm); err != nil {
		t.Fatal(err)
	}
	if got := cm.Annotations[checkpoint.ClusterNameAnnotation]; got != "prod" {
		t.Errorf("the cluster is named %q", got)
	}
}

func TestAClusterWithoutACheckpointHasNone(t *testing.T) {
	w := newWorld(t)
	if c, found, err := w.operator().Read(t.Context()); found || err != nil {
		t.Errorf("got %v, %v, %v", c, found, err)
	}
}

func TestADeposedLeaderCannotWrite(t *testing.T) {
	for name, takeOver := range map[string]func(t *testing.T, w world){
		"another wrote": func(t *testing.T, w world) {
			successor := w.operator()
			read(t, successor)
			write(t, successor, checkpoint.Checkpoint{Epoch: "successor"})
		},
		"it was deleted and recreated": func(t *testing.T, w world) {
			w.delete(t)
			write(t, w.operator(), checkpoint.Checkpoint{Epoch: "successor"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			leader := w.operator()
			write(t, leader, checkpoint.Checkpoint{Epoch: "leader"})
			takeOver(t, w)
			for range 2 { // the second attempt fails too
				if err := leader.Write(t.Context(), checkpoint.Checkpoint{Epoch: "leader", Offsets: progress.Offsets{Position: 1}}); !errors.Is(err, checkpoint.ErrDeposed) {
					t.Errorf("got %v, want ErrDeposed", err)
				}
			}
		})
	}
}

// The response to a write can get lost, and etcd can be restored to an earlier write of
// the same leader.
func TestALeaderContinuesFromItsOwnWrites(t *testing.T) {
	for name, first := range map[string]bool{"its first write": true, "a later one": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			leader, lost := w.operator(), w.operator()
			if !first {
				write(t, leader, checkpoint.Checkpoint{Epoch: whole.Epoch})
				read(t, lost)
			}
			write(t, lost, checkpoint.Checkpoint{Epoch: whole.Epoch, Offsets: progress.Offsets{Position: 1}})
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
		t.Errorf("the first operator's checkpoint was changed:\n%s", diff)
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
	c := checkpoint.Checkpoint{Epoch: "leader", Offsets: progress.Offsets{Position: 9, Behind: map[string]uint64{"AlarmReceiver/shop/hook": 3, "ClusterAlarmReceiver//ops": 4}}}
	want := maps.Clone(c.Behind)
	if left := c.Fit(); left != 0 || len(c.Behind) != 2 {
		t.Errorf("%d receivers of a small checkpoint were omitted", left)
	}
	// More than a ConfigMap can contain.
	for i := range 4000 {
		c.Behind[fmt.Sprintf("AlarmReceiver/greedy/%0253d", i)] = uint64(i)
	}
	left := c.Fit()
	if left < 2000 || left+len(c.Behind) != 4000+len(want) {
		t.Errorf("%d receivers were omitted, and %d are behind", left, len(c.Behind))
	}
	for receiver := range want {
		if c.Behind[receiver] != want[receiver] {
			t.Errorf("%s is at %d, want %d", receiver, c.Behind[receiver], want[receiver])
		}
	}
	write(t, w.operator(), c)
}

// Tenants choose the length of their receivers' names. They must not keep the leader from
// writing its checkpoint.
func TestTooManyHeldOccurrencesBecomeALowerOffset(t *testing.T) {
	w := newWorld(t)
	waiting := func(position uint64) map[string]uint64 {
		return map[string]uint64{"5e97": position, "5e98": position + 1}
	}
	c := checkpoint.Checkpoint{
		Epoch: "leader", Offsets: progress.Offsets{Position: 900, Behind: map[string]uint64{}, Waiting: progress.Waiting{"AlarmReceiver/shop/hook": waiting(700)}},
	}
	for i := range 1700 {
		c.Waiting[fmt.Sprintf("AlarmReceiver/greedy/%0253d", i)] = waiting(800)
	}
	if left := c.Fit(); left != 0 || len(c.Behind) == 0 || len(c.Behind)+len(c.Waiting) != 1701 {
		t.Errorf("%d receivers were omitted, %d are behind, and %d wait", left, len(c.Behind), len(c.Waiting))
	}
	for receiver, position := range c.Behind {
		if position != 799 {
			t.Fatalf("%s is at %d", receiver, position)
		}
	}
	if diff := cmp.Diff(waiting(700), c.Waiting["AlarmReceiver/shop/hook"]); diff != "" {
		t.Error(diff)
	}
	write(t, w.operator(), c)
}

// The largest owner is not the one to blame: others can be only a little smaller, together.
func TestOnlyOwnersAboveTheirShareExceedTheCheckpoint(t *testing.T) {
	for name, tc := range map[string]struct {
		sizes map[string]int
		want  []string
	}{
		"all fit":             {map[string]int{"A/a/1": 60, "A/b/1": 40}, nil},
		"one alone":           {map[string]int{"A/a/1": 101}, []string{"A/a/1"}},
		"one displaces none":  {map[string]int{"A/a/1": 900, "A/b/1": 20, "C//ops": 30}, []string{"A/a/1"}},
		"several neither":     {map[string]int{"C//ops": 25, "A/a/1": 24, "A/a/2": 24, "A/b/1": 24, "A/b/2": 24}, []string{"A/a/2", "A/b/2"}},
		"up to its share":     {map[string]int{"A/a/1": 30, "A/a/2": 30, "A/a/3": 50, "A/b/1": 30}, []string{"A/a/3"}},
		"smaller ones remain": {map[string]int{"A/a/1": 5, "A/a/2": 50, "A/b/1": 50}, []string{"A/a/2"}},
	} {
		got := checkpoint.Excess(tc.sizes, 100)
		slices.Sort(got)
		if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
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

// An older operator would ignore what it does not know, and lose it with its next write.
func TestTheCheckpointOfANewerOperatorIsNotReplaced(t *testing.T) {
	for name, data := range map[string]string{
		"with the same fields": `{"version":3,"clusterUID":"cluster"}`,
		"with others":          `{"version":4,"clusterUID":{"uid":"cluster"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.create(t, map[string]string{"checkpoint.json": data})
			_, found, err := w.operator().Read(t.Context())
			if found || err == nil || errors.Is(err, checkpoint.ErrDamaged) || !strings.Contains(err.Error(), "install that version again, or delete the ConfigMap") {
				t.Errorf("found %v, %v", found, err)
			}
		})
	}
}

func TestADamagedCheckpointIsReportedAndReplaced(t *testing.T) {
	for name, data := range map[string]map[string]string{
		"empty":             nil,
		"another key":       {"other.json": "{}"},
		"cut off":           {"checkpoint.json": `{"epoch":"a","posi`},
		"not JSON":          {"checkpoint.json": "position: 7"},
		"negative position": {"checkpoint.json": `{"epoch":"a","position":-1}`},
		"of another shape":  {"checkpoint.json": `["a"]`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.create(t, data)
			store := w.operator()
			if c, found, err := store.Read(t.Context()); found || !errors.Is(err, checkpoint.ErrDamaged) || !c.Equal(checkpoint.Checkpoint{}) {
				t.Errorf("got %v, %v, %v", c, found, err)
			}
			if err := w.operator().Write(t.Context(), whole); !errors.Is(err, checkpoint.ErrDeposed) {
				t.Errorf("a leader that did not read it: got %v, want ErrDeposed", err)
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
	nowhere := checkpoint.NewStore(w.client, "default") // this user has no permissions there
	_, _, err := nowhere.Read(t.Context())
	if err == nil || !strings.Contains(err.Error(), "read the checkpoint") {
		t.Errorf("read: got %v", err)
	}
	if err := nowhere.Write(t.Context(), whole); err == nil || errors.Is(err, checkpoint.ErrDeposed) {
		t.Errorf("write: got %v, want an error other than ErrDeposed", err)
	}
}

func TestCheckpointsAreEqualIfAllFieldsAre(t *testing.T) {
	for name, change := range map[string]func(*checkpoint.Checkpoint){
		"cluster":  func(c *checkpoint.Checkpoint) { c.ClusterUID = "other" },
		"epoch":    func(c *checkpoint.Checkpoint) { c.Epoch = "other" },
		"history":  func(c *checkpoint.Checkpoint) { c.History = "other" },
		"position": func(c *checkpoint.Checkpoint) { c.Position++ },
		"behind":   func(c *checkpoint.Checkpoint) { c.Behind = map[string]uint64{"ClusterAlarmReceiver//ops": 9} },
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
	c, found, err := s.Read(t.Context())
	if err != nil || !found {
		t.Fatalf("found %v: %v", found, err)
	}
	return c
}

func write(t *testing.T, s *checkpoint.Store, c checkpoint.Checkpoint) {
	t.Helper()
	if err := s.Write(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// create and delete act as an administrator.
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
