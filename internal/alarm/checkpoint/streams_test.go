package checkpoint_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
)

const greedy, victim = "AlarmReceiver/greedy/hook", "AlarmReceiver/shop/hook"

// waitingChanges returns n changes of a receiver, whose positions are 1, 2, ...
func waitingChanges(n int) map[string]uint64 {
	held := map[string]uint64{}
	for i := range uint64(n) {
		held[fmt.Sprintf("%032d", i+1)] = i + 1
	}
	return held
}

func sizeOf(t *testing.T, c checkpoint.Checkpoint) int {
	t.Helper()
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return len(data)
}

func TestOfTooManyChangesTheOldestAreOmitted(t *testing.T) {
	c := checkpoint.Checkpoint{Offsets: progress.Offsets{Position: 1, Behind: map[string]uint64{}}, Streams: map[string]checkpoint.Stream{
		"pods":  {Offsets: progress.Offsets{Position: 90_000, Waiting: progress.Waiting{greedy: waitingChanges(20_000), victim: waitingChanges(3)}}},
		"nodes": {Offsets: progress.Offsets{Position: 7, Waiting: progress.Waiting{greedy: {"old": 1, "new": 80_000}}}, Version: "v1", Time: 5},
	}}
	if omitted := c.Fit(); omitted != 1 {
		t.Errorf("%d receivers are affected, want the greedy one", omitted)
	}
	left := c.Streams["pods"].Waiting[greedy]
	lowest := uint64(20_000)
	for _, position := range left {
		lowest = min(lowest, position)
	}
	if size := sizeOf(t, c); size > 165<<10 || size < 140<<10 || lowest != uint64(20_001-len(left)) {
		t.Errorf("%d bytes, and %d changes from %d on", size, len(left), lowest)
	}
	if diff := cmp.Diff(waitingChanges(3), c.Streams["pods"].Waiting[victim]); diff != "" {
		t.Errorf("of another namespace: %s", diff)
	}
	want := checkpoint.Stream{Offsets: progress.Offsets{Position: 7, Waiting: progress.Waiting{greedy: {"new": 80_000}}}, Version: "v1", Time: 5}
	if diff := cmp.Diff(want, c.Streams["nodes"]); diff != "" {
		t.Error(diff)
	}
	if again := c.Fit(); again != 0 {
		t.Errorf("%d receivers are affected again", again)
	}
}

func TestChangesLeaveSpaceForEventsInTheCheckpoint(t *testing.T) {
	c := checkpoint.Checkpoint{Offsets: progress.Offsets{Position: 90_000, Behind: map[string]uint64{}, Waiting: progress.Waiting{}}, Streams: map[string]checkpoint.Stream{}}
	for i := range 3_000 {
		c.Streams[fmt.Sprintf("resource-%d.example.com", i)] = checkpoint.Stream{Version: "v1", Offsets: progress.Offsets{Position: 1 << 40, Waiting: progress.Waiting{fmt.Sprintf("AlarmReceiver/n%d/hook", i): waitingChanges(30)}}, Time: 1 << 31}
		if i < 200 { // less than the share of each
			c.Waiting[fmt.Sprintf("AlarmReceiver/n%d/hook", i)] = waitingChanges(30)
		}
		c.Behind[fmt.Sprintf("AlarmReceiver/n%d/other", i)] = 7
		c.Behind[fmt.Sprintf("AlarmReceiver/n%d/hook", i)] = 7
	}
	c.Fit()
	if size := sizeOf(t, c); size > 1<<20-16<<10 || len(c.Waiting) != 200 || len(c.Streams) < 800 {
		t.Errorf("%d bytes, Events of %d receivers, %d streams", size, len(c.Waiting), len(c.Streams))
	}
}

func TestALimitIsDividedAmongOwnersAndTheirReceivers(t *testing.T) {
	for name, tc := range map[string]struct {
		sizes map[string]int
		want  map[string]int
	}{
		"all fit":               {map[string]int{greedy: 90, victim: 10}, map[string]int{}},
		"one owner is above":    {map[string]int{greedy: 900, victim: 10}, map[string]int{greedy: 90}},
		"two owners are above":  {map[string]int{greedy: 900, victim: 800}, map[string]int{greedy: 50, victim: 50}},
		"a small one of two":    {map[string]int{greedy: 900, greedy + "2": 20, victim: 10}, map[string]int{greedy: 70}},
		"two large ones of one": {map[string]int{greedy: 900, greedy + "2": 100, victim: 10}, map[string]int{greedy: 45, greedy + "2": 45}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, checkpoint.Limits(tc.sizes, 100)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCheckpointsWithOtherStreamsDiffer(t *testing.T) {
	stream := checkpoint.Stream{Version: "v1", Offsets: progress.Offsets{Position: 7, Waiting: progress.Waiting{victim: {"k": 1}}}, Time: 5}
	with := func(change func(*checkpoint.Stream)) checkpoint.Checkpoint {
		s := stream
		change(&s)
		return checkpoint.Checkpoint{Streams: map[string]checkpoint.Stream{"pods": s}}
	}
	same := with(func(*checkpoint.Stream) {})
	if !same.Equal(with(func(*checkpoint.Stream) {})) || same.Equal(checkpoint.Checkpoint{}) {
		t.Error("equal checkpoints differ, or different ones are equal")
	}
	for name, change := range map[string]func(*checkpoint.Stream){
		"version": func(s *checkpoint.Stream) { s.Version = "v2" }, "position": func(s *checkpoint.Stream) { s.Position++ },
		"time":    func(s *checkpoint.Stream) { s.Time++ },
		"waiting": func(s *checkpoint.Stream) { s.Waiting = progress.Waiting{victim: {"k": 2}} },
	} {
		if same.Equal(with(change)) {
			t.Errorf("%s: equal", name)
		}
	}
}

// A tenant with many states displaces none of another namespace.
func TestOfTooManyStatesTheOldestAreOmitted(t *testing.T) {
	const limit = 128 << 10
	state := func(namespace string, i int) checkpoint.State {
		return checkpoint.State{UID: fmt.Sprint("u", i), Namespace: namespace, Alarm: "alarm", State: "s", Position: uint64(i), Data: strings.Repeat("x", 100)}
	}
	c := checkpoint.Checkpoint{Streams: map[string]checkpoint.Stream{"pods": {Offsets: progress.Offsets{Position: 1}}, "nodes": {Offsets: progress.Offsets{Position: 1}}}}
	pods := c.Streams["pods"]
	for i := range 3 {
		pods.States = append(pods.States, state("shop", i))
	}
	for i := range 5_000 {
		pods.States = append(pods.States, state("greedy", i))
	}
	c.Streams["pods"] = pods
	c.Fit()
	kept := c.Streams["pods"].States
	if text, err := json.Marshal(kept); err != nil || len(text) > limit+2 || len(text) < limit*3/4 {
		t.Errorf("%d bytes are kept, the limit is %d: %v", len(text), limit, err)
	}
	if diff := cmp.Diff([]checkpoint.State{state("shop", 0), state("shop", 1), state("shop", 2), state("greedy", 0)}, kept[:4]); diff != "" {
		t.Error(diff)
	}
}
