package pipeline

import (
	"context"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// What is remembered of groups: of one alarm for each of its receivers, and of all
// alarms of a namespace. Whoever may create Events chooses how many groups there are.
const (
	maxGroupsOfAlarm     = 1_000
	maxGroupsOfNamespace = 20_000
)

// groups keeps the groups of an alarm, and of a namespace, to as many as may be.
type groups struct {
	ledger *outbox.Store
	// apart says of the groups that the batch asked for whether they are kept apart;
	// opened counts those that are new, by alarm and by namespace.
	apart  map[string]bool
	opened map[string]int64
	// folded are the alarms of which some are not.
	folded map[alarm.ID]bool
}

func newGroups(l *outbox.Store) *groups {
	return &groups{ledger: l, apart: map[string]bool{}, opened: map[string]int64{}, folded: map[alarm.ID]bool{}}
}

// bound puts an occurrence into the one group that takes in what is beyond the
// bounds, unless its own is open already or may be opened.
func (g *groups) bound(ctx context.Context, v *evaluation) error {
	if v.alarm.Grouping() == nil {
		return nil
	}
	id := alarm.GroupKey(v.alarm.UID, v.by...)
	apart, asked := g.apart[id]
	if !asked {
		var err error
		if apart, err = g.ledger.HasGroup(ctx, id); err != nil {
			return err
		}
		apart = apart || g.open(v.alarm)
		g.apart[id] = apart
	}
	if !apart {
		v.by = nil
		g.folded[v.alarm.ID] = true
	}
	return nil
}

// open says whether the alarm may have one more group, which it then has.
func (g *groups) open(a *match.Alarm) bool {
	subject := kube.Key(a.ID).String()
	namespace := subject[:len(subject)-len(a.ID.Name)]
	rows := int64(max(len(a.Receivers), 1))
	if g.ledger.Groups(subject)+g.opened[subject] >= maxGroupsOfAlarm*rows {
		return false
	}
	if a.ID.Kind == alarm.KindAlarm && g.ledger.Groups(namespace)+g.opened[namespace] >= maxGroupsOfNamespace {
		return false
	}
	g.opened[subject] += rows
	g.opened[namespace] += rows
	return true
}
