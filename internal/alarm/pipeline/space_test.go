package pipeline

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/ledger"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// unlimited returns the space of an outbox without a limit.
func unlimited() *ledger.Ledger { return ledger.New(0) }

func TestOneBatchCountsItsOwnEntries(t *testing.T) {
	space := ledger.New(0)
	space.LimitMessages(256 << 10)
	b := newEntryBuilder(progress.Offsets{}, space)
	id := kube.Key{Kind: alarm.KindAlarm, Namespace: "shop", Name: "web"}
	e := &evaluation{outcome: match.Matched, alarm: &match.Alarm{ID: id}, recipients: recipientsOf("dead", "quick")}
	e.message.Text = strings.Repeat("<", 3_000)
	for i := range uint64(100) {
		must(t, b.add(&alarm.Occurrence{Increase: 2, Position: i + 1}, e, &b.handled))
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
