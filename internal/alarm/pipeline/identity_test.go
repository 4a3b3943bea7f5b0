package pipeline

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
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
	p.Identify = func(key string) (string, time.Time) {
		if uid == "" {
			return "", time.Time{}
		}
		return alarm.ReceiverID(key, uid), since
	}
	p.matcher.identify = p.Identify
	p.Adopts = func(_, awaited string) (bool, error) { return awaited == "picky", nil }
	p.matcher.adopts = p.Adopts
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

func TestAParkedOccurrenceIsNotForTheNextReceiverOfTheName(t *testing.T) {
	for name, tc := range map[string]struct {
		parked string
		want   map[string]int64
	}{
		"a former one existed": {"former", map[string]int64{"picky@former": 1}},
		"none existed":         {"", map[string]int64{"picky@present": 1}},
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

// A problem waited for the name of a receiver. The operator reads its end around the creation of the
// receiver, and the dispatcher can take over what waits at any time.
func TestTheEndOfAProblemThatWaitedForAReceiverIsNotLost(t *testing.T) {
	for name, created := range map[string]int{"before its evaluation": 1, "before its decision": 2, "later": 3} {
		for _, atOnce := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", taken over at once: ", atOnce), func(t *testing.T) {
				p := newParkingLot(t, &unreadables{}, map[string]v1alpha1.AlarmSpec{"picky": {Match: everything.Match, Group: groupOfAnObject, Resolve: whenFixed}})
				must(t, p.Outbox.Reset(t.Context(), "cluster", 0))
				identifiedAs(p, "", time.Time{})
				events := happened("shop/web", "shop/web")
				events[0].Event.Reason, events[1].Event.Reason = "Broken", "Fixed"
				p.handleAll(t, events[:1])
				var dispatcher errgroup.Group
				adopt := func() error { return p.Outbox.Adopt(t.Context(), "picky", "picky@present") }
				looked := 0
				p.matcher.identify = func(key string) (string, time.Time) {
					if looked++; looked < created {
						return "", time.Time{}
					}
					if looked == created && atOnce {
						dispatcher.Go(adopt)
					}
					return alarm.ReceiverID(key, "present"), time.Time{}
				}
				p.handleAll(t, events[1:])
				must(t, dispatcher.Wait())
				must(t, adopt())
				a, _ := p.Alarms.withUID("picky")
				id := alarm.GroupKey(a.UID, a.Grouping().Values(&events[0].Event, &alarm.Object{})...)
				group, err := p.Outbox.OpenGroup(t.Context(), id)
				must(t, err)
				if diff := cmp.Diff(outbox.OpenGroup{Receivers: []string{"picky@present"}}, group); diff != "" {
					t.Error(diff)
				}
			})
		}
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
		"the former receiver is behind":        {checkpoint.Checkpoint{Behind: map[string]uint64{"picky@former": 0}}, map[string]int64{kept: 2}},
		"it waits for the former receiver":     {checkpoint.Checkpoint{Waiting: map[string]map[string]uint64{"picky@former": {"1": 1}}}, map[string]int64{kept: 2}},
		"the receiver is behind":               {checkpoint.Checkpoint{Behind: map[string]uint64{kept: 1}}, map[string]int64{kept: 3}},
		"it was awaited":                       {checkpoint.Checkpoint{Behind: map[string]uint64{"picky": 1}}, map[string]int64{kept: 3}},
		"it was awaited after a former one":    {checkpoint.Checkpoint{Behind: map[string]uint64{"picky": 1, "picky@former": 0}}, map[string]int64{kept: 3}},
		"another namespace's was awaited":      {checkpoint.Checkpoint{Behind: map[string]uint64{"picky@namespace:former-uid": 0}}, map[string]int64{kept: 2}},
		"the receiver has everything":          {checkpoint.Checkpoint{}, map[string]int64{kept: 2}},
		"an occurrence waits for the receiver": {checkpoint.Checkpoint{Waiting: map[string]map[string]uint64{kept: {"2": 2}}}, map[string]int64{kept: 3}},
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
			plan, err := p.plan(t.Context(), tc.last, true)
			must(t, err)
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

// Another leader gave to a new receiver what waited for its name, and has not sent it yet. This
// replica has the same messages under the name.
func TestATakeoverKeepsWhatWaitedForAReceiverThatExistsNow(t *testing.T) {
	p := newParkingLot(t, &unreadables{}, map[string]v1alpha1.AlarmSpec{"picky": needsObject})
	identifiedAs(p, "", time.Time{})
	p.handleAll(t, happened("shop/web", "shop/web"))
	must(t, p.Outbox.Reset(t.Context(), "cluster", 0))
	p.handleAll(t, happened("shop/web", "shop/web"))
	identifiedAs(p, "present", time.Time{})
	last := checkpoint.Checkpoint{ClusterUID: "cluster", Epoch: "other", Position: 2, Behind: map[string]uint64{"picky@present": 1}}
	plan, err := p.plan(t.Context(), last, true)
	must(t, err)
	must(t, p.prepareOutbox(t.Context(), plan))
	if diff := cmp.Diff(map[string]int64{"picky@present": 1}, p.backlogs()); diff != "" {
		t.Error(diff)
	}
	if got := p.Outbox.Backlog("picky@present"); got != (outbox.Backlog{Entries: 1, Lowest: 2}) {
		t.Errorf("%+v waits, want the second one", got)
	}
}

// Without the UID of the namespace of a receiver, it is unknown whether what waits is for the
// receiver. The checkpoint says that the receiver has everything, so that it would be dropped.
func TestATakeoverDropsNothingWhileANamespaceCannotBeRead(t *testing.T) {
	p := newParkingLot(t, &unreadables{}, map[string]v1alpha1.AlarmSpec{"picky": needsObject})
	must(t, p.Outbox.Reset(t.Context(), "cluster", 0))
	identifiedAs(p, "", time.Time{})
	p.handleAll(t, happened("shop/web", "shop/web"))
	identifiedAs(p, "present", time.Time{})
	readable := p.Adopts
	p.Adopts = func(string, string) (bool, error) { return false, apierrors.NewTooManyRequestsError("slow down") }
	last := checkpoint.Checkpoint{ClusterUID: "cluster", Epoch: "other", Position: 2, Behind: map[string]uint64{"picky@present": 1}}
	if _, err := p.plan(t.Context(), last, true); !apierrors.IsTooManyRequests(err) {
		t.Errorf("got %v, although the namespace cannot be read", err)
	}
	p.Adopts = readable
	plan, err := p.plan(t.Context(), last, true) // the leader tries again
	must(t, err)
	must(t, p.prepareOutbox(t.Context(), plan))
	if diff := cmp.Diff(map[string]int64{"picky@present": 1}, p.backlogs()); diff != "" {
		t.Error(diff)
	}
}

// The receiver was created while the last leader ran, and it was the first of its name. The
// messages that waited for it are then its own.
func TestAFailoverKeepsWhatAReceiverTookOver(t *testing.T) {
	for name, last := range map[string]checkpoint.Checkpoint{
		"behind":  {Behind: map[string]uint64{"picky@present": 1}},
		"waiting": {Waiting: map[string]map[string]uint64{"picky@present": {}}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newParkingLot(t, &unreadables{}, map[string]v1alpha1.AlarmSpec{"picky": needsObject})
			all := happened("shop/web", "shop/web", "shop/web", "shop/web")
			for receiver := range last.Waiting {
				last.Waiting[receiver][alarm.Key("picky", "picky", &all[1])] = 2
			}
			all[0].ObservedAt, all[1].ObservedAt = all[0].ObservedAt.Add(-time.Minute), all[1].ObservedAt.Add(-time.Minute)
			identifiedAs(p, "present", all[2].ObservedAt)
			last.ClusterUID, last.Epoch, last.Position = "cluster", "other", 2
			plan, err := p.plan(t.Context(), last, true)
			must(t, err)
			must(t, p.prepareOutbox(t.Context(), plan))
			for i := range all {
				if all[i].Position > plan.position {
					p.handleAll(t, all[i:i+1])
				}
			}
			if got := p.backlogs()["picky@present"]; got != 3 {
				t.Errorf("%d messages wait, want that of the second occurrence and the two after it: %v", got, p.backlogs())
			}
		})
	}
}
