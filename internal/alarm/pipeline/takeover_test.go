package pipeline

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

func TestTakeoverTrustsOnlyTheOutboxOfTheLastLeader(t *testing.T) {
	const here, elsewhere = "here", "elsewhere"
	behind := map[string]uint64{"slow": 40}
	waits := map[string]map[string]uint64{"grouped": {"k": 30, "l": 80}}
	only := func(key string) map[string]map[string]uint64 {
		return map[string]map[string]uint64{"grouped": {key: waits["grouped"][key]}}
	}
	for name, tc := range map[string]struct {
		outbox outbox.State
		last   checkpoint.Checkpoint
		found  bool
		window time.Duration
		want   takeoverPlan
	}{
		"the first start in the cluster": {
			want: takeoverPlan{},
		},
		"a restart of the leader": {
			outbox: outbox.State{ClusterUID: here, Epoch: "a", Position: 120},
			last:   checkpoint.Checkpoint{ClusterUID: here, Epoch: "a", Position: 100}, found: true,
			want: takeoverPlan{trusted: true, position: 120},
		},
		"a crash between the checkpoint and the confirmation": {
			outbox: outbox.State{ClusterUID: here, Epoch: "a", NextEpoch: "b", Position: 120},
			last:   checkpoint.Checkpoint{ClusterUID: here, Epoch: "b", Position: 100}, found: true,
			want: takeoverPlan{trusted: true, position: 120},
		},
		"the checkpoint was deleted": {
			outbox: outbox.State{ClusterUID: here, Epoch: "a", Position: 120},
			want:   takeoverPlan{trusted: true, position: 120},
		},
		"the disk was lost": {
			last: checkpoint.Checkpoint{ClusterUID: here, Epoch: "a", Position: 100, Behind: behind}, found: true,
			want: takeoverPlan{
				position: 40, delivered: outbox.DeliveredOffsets{Default: 100, Receivers: behind},
				handled: outbox.DeliveredOffsets{Default: 100, Receivers: behind},
			},
		},
		"another replica led since": {
			outbox: outbox.State{ClusterUID: here, Epoch: "a", Position: 50},
			last:   checkpoint.Checkpoint{ClusterUID: here, Epoch: "b", Position: 100, Behind: behind}, found: true,
			want: takeoverPlan{
				position: 50, delivered: outbox.DeliveredOffsets{Default: 100, Receivers: behind},
				handled: outbox.DeliveredOffsets{Default: 100, Receivers: map[string]uint64{"slow": 50}},
			},
		},
		"another replica led, but not as far": {
			outbox: outbox.State{ClusterUID: here, Epoch: "a", Position: 120},
			last:   checkpoint.Checkpoint{ClusterUID: here, Epoch: "b", Position: 100, Behind: behind}, found: true,
			want: takeoverPlan{
				position: 120, delivered: outbox.DeliveredOffsets{Default: 100, Receivers: behind},
				handled: outbox.DeliveredOffsets{Default: 120},
			},
		},
		"another replica led after a restore of etcd": {
			outbox: outbox.State{ClusterUID: here, Epoch: "a", Position: 5000},
			last:   checkpoint.Checkpoint{ClusterUID: here, Epoch: "b", History: "restored", Position: 100}, found: true,
			want: takeoverPlan{
				position: 100, history: "restored", delivered: outbox.DeliveredOffsets{Default: 100},
				handled: outbox.DeliveredOffsets{Default: 100},
			},
		},
		"a threshold has a window": {
			last: checkpoint.Checkpoint{ClusterUID: here, Epoch: "a", Position: 100, Behind: behind, PositionHistory: []checkpoint.TimedPosition{
				{Position: 5, Time: 100}, {Position: 12, Time: 200}, {Position: 39, Time: 300}, {Position: 90, Time: 400},
			}},
			found: true, window: 99 * time.Second,
			want: takeoverPlan{
				position: 12, delivered: outbox.DeliveredOffsets{Default: 100, Receivers: behind},
				handled: outbox.DeliveredOffsets{Default: 100, Receivers: behind},
			},
		},
		"a replay was interrupted": {
			outbox: outbox.State{ClusterUID: here, Epoch: "a", Position: 50, Delivered: outbox.DeliveredOffsets{Default: 120, Receivers: map[string]uint64{"slow": 110}}},
			last:   checkpoint.Checkpoint{ClusterUID: here, Epoch: "b", Position: 100, Behind: behind}, found: true,
			want: takeoverPlan{
				position: 110, delivered: outbox.DeliveredOffsets{Default: 100, Receivers: behind},
				handled: outbox.DeliveredOffsets{Default: 110},
			},
		},
		"the disk was lost, with occurrences in groups": {
			last: checkpoint.Checkpoint{ClusterUID: here, Epoch: "a", Position: 100, Waiting: waits}, found: true,
			want: takeoverPlan{
				position: 29, delivered: outbox.DeliveredOffsets{Default: 100, Waiting: waits},
				handled: outbox.DeliveredOffsets{Default: 100, Waiting: waits},
			},
		},
		"this outbox holds or has sent the occurrences in groups": {
			outbox: outbox.State{ClusterUID: here, Epoch: "a", Position: 50},
			last:   checkpoint.Checkpoint{ClusterUID: here, Epoch: "b", Position: 100, Waiting: waits}, found: true,
			want: takeoverPlan{
				position: 79, delivered: outbox.DeliveredOffsets{Default: 100, Waiting: waits},
				handled: outbox.DeliveredOffsets{Default: 100, Waiting: only("l")},
			},
		},
		"a replay was interrupted before the occurrences in groups": {
			outbox: outbox.State{ClusterUID: here, Epoch: "a", Position: 20, Delivered: outbox.DeliveredOffsets{Default: 120, Waiting: only("k")}},
			last:   checkpoint.Checkpoint{ClusterUID: here, Epoch: "b", Position: 100, Waiting: waits}, found: true,
			want: takeoverPlan{
				position: 29, delivered: outbox.DeliveredOffsets{Default: 100, Waiting: waits},
				handled: outbox.DeliveredOffsets{Default: 120, Waiting: only("k")},
			},
		},
		"the occurrences in groups are of another history": {
			outbox: outbox.State{ClusterUID: here, Epoch: "a", Position: 5000},
			last:   checkpoint.Checkpoint{ClusterUID: here, Epoch: "b", History: "restored", Position: 100, Waiting: waits}, found: true,
			want: takeoverPlan{
				position: 29, history: "restored", delivered: outbox.DeliveredOffsets{Default: 100, Waiting: waits},
				handled: outbox.DeliveredOffsets{Default: 100, Waiting: waits},
			},
		},
		"an empty epoch matches nothing": {
			outbox: outbox.State{ClusterUID: here, Position: 50},
			last:   checkpoint.Checkpoint{ClusterUID: here, Position: 100}, found: true,
			want: takeoverPlan{position: 100, delivered: outbox.DeliveredOffsets{Default: 100}, handled: outbox.DeliveredOffsets{Default: 100}},
		},
		"the outbox is of another cluster": {
			outbox: outbox.State{ClusterUID: elsewhere, Epoch: "a", Position: 50},
			want:   takeoverPlan{reset: resetReason},
		},
		"the checkpoint is of another cluster": {
			last: checkpoint.Checkpoint{ClusterUID: elsewhere, Epoch: "a", Position: 50}, found: true,
			want: takeoverPlan{reset: resetReason},
		},
		"only the checkpoint is of another cluster": {
			outbox: outbox.State{ClusterUID: here, Epoch: "a", Position: 50},
			last:   checkpoint.Checkpoint{ClusterUID: elsewhere, Epoch: "z", Position: 900}, found: true,
			want: takeoverPlan{trusted: true, position: 50},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := planTakeover(here, tc.outbox, tc.last, tc.found, tc.window)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(takeoverPlan{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}
