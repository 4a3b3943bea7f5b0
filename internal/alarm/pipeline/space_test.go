package pipeline

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// unlimited returns the space of an outbox without a limit.
func unlimited() *space {
	return newSpace(func(context.Context, string, string) (outbox.Usage, error) {
		return outbox.Usage{Free: math.MaxInt64 / 2}, nil
	})
}

// fakeSpace is an outbox that only knows how much is used.
type fakeSpace struct {
	free    int64
	used    map[string]int64 // by tenant
	waiting map[[2]string]int64
}

func newFakeSpace(free int64) *fakeSpace {
	return &fakeSpace{free: free, used: map[string]int64{}, waiting: map[[2]string]int64{}}
}

// add handles batches of one occurrence until one is dropped for all receivers, or the
// limit is reached. It returns how many were stored for each receiver.
func (s *fakeSpace) add(t *testing.T, limit int, tenant string, receivers ...string) map[string]int {
	t.Helper()
	stored := map[string]int{}
	for range limit {
		b := newSpace(func(_ context.Context, tenant, receiver string) (outbox.Usage, error) {
			return outbox.Usage{Free: s.free, Tenant: s.used[tenant], Receiver: s.waiting[[2]string{tenant, receiver}]}, nil
		})
		var entries []outbox.Entry
		for _, receiver := range receivers {
			entries = append(entries, outbox.Entry{Receiver: receiver, Tenant: tenant, Payload: make([]byte, 20<<10)})
		}
		size := outbox.ContentBytes(entries)
		admitted, refused, err := b.admit(t.Context(), entries)
		must(t, err)
		if len(admitted)+len(refused) != len(receivers) {
			t.Fatalf("%d stored and %d dropped of %d", len(admitted), len(refused), len(receivers))
		}
		if len(admitted) == 0 {
			break
		}
		s.free, s.used[tenant] = s.free-size, s.used[tenant]+size
		for _, e := range admitted {
			s.waiting[[2]string{tenant, e.Receiver}] += size
			stored[e.Receiver]++
		}
	}
	if s.free < 0 {
		t.Fatalf("%d bytes more than there is space for", -s.free)
	}
	return stored
}

func TestAReceiverThatAcceptsNothingLeavesSpaceInItsBudget(t *testing.T) {
	s := newFakeSpace(256 << 20)
	dead := s.add(t, 100_000, "Alarm/shop/", "dead")["dead"]
	if dead < 300 {
		t.Errorf("only %d messages of 20 KiB wait for one receiver", dead)
	}
	if got := s.add(t, dead/3, "Alarm/shop/", "dead", "works"); got["dead"] > 0 || got["works"] != dead/3 {
		t.Errorf("%v were stored besides %d for the dead receiver", got, dead)
	}
}

func TestManyFullBudgetsLeaveSpaceForAnother(t *testing.T) {
	s := newFakeSpace(256 << 20)
	for i := range 40 {
		for r := range 16 {
			s.add(t, 100_000, fmt.Sprintf("Alarm/tenant-%d/", i), fmt.Sprint("dead-", r))
		}
	}
	if got := s.add(t, 100_000, "Alarm/victim/", "works")["works"]; got < 20 {
		t.Errorf("%d messages of 20 KiB are stored for the victim", got)
	}
}

func TestOneBatchCountsItsOwnEntries(t *testing.T) {
	b := newEntryBuilder(outbox.DeliveredOffsets{}, newSpace(func(context.Context, string, string) (outbox.Usage, error) {
		return outbox.Usage{Free: 256 << 10}, nil
	}))
	id := kube.Key{Kind: alarm.KindAlarm, Namespace: "shop", Name: "web"}
	e := &evaluation{outcome: match.Matched, alarm: &match.Alarm{ID: id}, recipients: recipientsOf("dead", "quick")}
	e.message.Text = strings.Repeat("<", 3_000)
	for i := range uint64(100) {
		must(t, b.add(t.Context(), &alarm.Occurrence{Increase: 2, Position: i + 1}, e, &b.handled))
	}
	stored := b.queued["dead"]
	if stored == 0 || stored > 2*16/3 {
		t.Errorf("%d occurrences of 3 KB were stored in 16 KiB", stored)
	}
	if diff := cmp.Diff(outbox.Counts{"Alarm/shop/web": 200 - stored}, b.overflow["dead"]); diff != "" {
		t.Errorf("dropped: %s", diff)
	}
}

func TestBudgetsAreThoseOfTenants(t *testing.T) {
	ofTenant, ofCluster := kube.Key{Kind: alarm.KindAlarm, Namespace: "shop", Name: "web"}, kube.Key{Kind: alarm.KindClusterAlarm, Name: "all"}
	for name, tc := range map[string]struct {
		id                kube.Key
		stored, regarding string
		want              string
	}{
		"a tenant's alarm":                         {ofTenant, "shop", "shop", "Alarm/shop/"},
		"an administrator's alarm":                 {ofCluster, "shop", "shop", "ClusterAlarm/shop/"},
		"an Event that regards another namespace":  {ofCluster, "shop", "victim", "ClusterAlarm/shop/"},
		"an Event of a tenant that regards a Node": {ofCluster, "shop", "", "ClusterAlarm/shop/"},
		"an Event of a Node":                       {ofCluster, "default", "", "ClusterAlarm//"},
		"an Event of a Pod in default":             {ofCluster, "default", "default", "ClusterAlarm/default/"},
	} {
		occ := &alarm.Occurrence{Event: alarm.Event{Namespace: tc.stored, Regarding: alarm.Reference{Namespace: tc.regarding}}}
		if got := spaceOf(tc.id, occ); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
