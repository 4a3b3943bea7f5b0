package pipeline

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
)

// backlogs returns the number of entries that wait, by receiver.
func (p *Pipeline) backlogs() map[string]int64 {
	entries := map[string]int64{}
	for receiver, b := range p.Outbox.Snapshot().Backlogs {
		entries[receiver] = b.Entries
	}
	return entries
}

// identifiedAs makes all receivers exist with a UID, or none without a UID.
func identifiedAs(p *Pipeline, uid string, since time.Time) {
	p.matcher.receiver = func(key string) (Receiver, bool) {
		return Receiver{ID: alarm.ReceiverID(key, uid), Since: since}, uid != ""
	}
}

// While no operator ran, a receiver was deleted and created again.
func TestAReceiverGetsNothingThatHappenedBeforeIt(t *testing.T) {
	u := &unreadables{names: map[string]bool{"slow": true}}
	p := newParkingLot(t, u, map[string]v1alpha1.AlarmSpec{"picky": needsObject})
	all := happened("shop/web", "shop/slow", "shop/web", "shop/slow")
	all[2].ObservedAt, all[3].ObservedAt = all[2].ObservedAt.Add(-time.Minute), all[3].ObservedAt.Add(-time.Minute)
	identifiedAs(p, "present", all[0].ObservedAt)
	p.handleAll(t, all)
	u.names = nil
	p.retryOnce(t)
	if diff := cmp.Diff(map[string]int64{"picky@present": 2}, p.backlogs()); diff != "" {
		t.Error(diff)
	}
}

func TestAReceiverThatDoesNotExistGetsNothing(t *testing.T) {
	p := newParkingLot(t, &unreadables{}, map[string]v1alpha1.AlarmSpec{"picky": needsObject})
	identifiedAs(p, "", time.Time{})
	all := happened("shop/web", "shop/db")
	p.handleAll(t, all[:1])
	identifiedAs(p, "present", time.Time{})
	p.handleAll(t, all[1:])
	if diff := cmp.Diff(map[string]int64{"picky@present": 1}, p.backlogs()); diff != "" {
		t.Error(diff)
	}
}

func TestAParkedOccurrenceIsNotForTheNextReceiverOfTheName(t *testing.T) {
	for name, tc := range map[string]struct {
		parked string
		want   map[string]int64
	}{
		"a former one existed": {"former", map[string]int64{"picky@former": 1}},
		"none existed":         {"", map[string]int64{}},
	} {
		t.Run(name, func(t *testing.T) {
			u := &unreadables{names: map[string]bool{"slow": true}}
			p := newParkingLot(t, u, map[string]v1alpha1.AlarmSpec{"picky": needsObject})
			identifiedAs(p, tc.parked, time.Time{})
			p.handleAll(t, happened("shop/slow"))
			identifiedAs(p, "present", time.Time{})
			u.names = nil
			p.retryOnce(t)
			if diff := cmp.Diff(tc.want, p.backlogs()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The checkpoint of the last leader says what its receivers did not have. If one was recreated
// since then, that neither exposes messages to the new receiver nor hides its own.
func TestAReceiverDoesNotContinueAtTheOffsetOfItsPredecessor(t *testing.T) {
	const kept = "picky@present"
	for name, tc := range map[string]struct {
		last checkpoint.Checkpoint
		want map[string]int64
	}{
		"the former receiver is behind":        {checkpoint.Checkpoint{Offsets: progress.Offsets{Behind: map[string]uint64{"picky@former": 0}}}, map[string]int64{kept: 2}},
		"it waits for the former receiver":     {checkpoint.Checkpoint{Offsets: progress.Offsets{Waiting: progress.Waiting{"picky@former": {"1": 1}}}}, map[string]int64{kept: 2}},
		"the receiver is behind":               {checkpoint.Checkpoint{Offsets: progress.Offsets{Behind: map[string]uint64{kept: 1}}}, map[string]int64{kept: 3}},
		"the receiver has everything":          {checkpoint.Checkpoint{}, map[string]int64{kept: 2}},
		"an occurrence waits for the receiver": {checkpoint.Checkpoint{Offsets: progress.Offsets{Waiting: progress.Waiting{kept: {"2": 2}}}}, map[string]int64{kept: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newParkingLot(t, &unreadables{}, map[string]v1alpha1.AlarmSpec{"picky": needsObject})
			all := happened("shop/web", "shop/web", "shop/web", "shop/web")
			for _, keys := range tc.last.Waiting {
				for short, position := range keys {
					delete(keys, short)
					keys[alarm.Key("picky", "picky", &all[position-1])] = position
				}
			}
			identifiedAs(p, "present", time.Time{})
			tc.last.ClusterUID, tc.last.Epoch, tc.last.Position = "cluster", "other", 2
			plan := planTakeover(p.ClusterUID, p.Outbox.State(), tc.last, true, 0)
			must(t, p.prepareOutbox(t.Context(), plan))
			for i := range all {
				if all[i].Position > plan.position {
					p.handleAll(t, all[i:i+1])
				}
			}
			if diff := cmp.Diff(tc.want, p.backlogs()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
