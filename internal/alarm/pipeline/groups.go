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
type groupLimiter struct {
	outbox *outbox.Store
	// apart says of the groups that the batch asked for whether they are kept apart;
	// opened counts those that are new, by alarm and by namespace.
	separate map[string]bool
	opened   map[string]int64
	// folded are the alarms of which some are not.
	limited map[alarm.ID]bool
}

func newGroupLimiter(l *outbox.Store) *groupLimiter {
	return &groupLimiter{outbox: l, separate: map[string]bool{}, opened: map[string]int64{}, limited: map[alarm.ID]bool{}}
}

// bound puts an occurrence into the one group that takes in what is beyond the
// bounds, unless its own is open already or may be opened.
func (g *groupLimiter) limit(ctx context.Context, v *evaluation) error {
	if v.alarm.Grouping() == nil {
		return nil
	}
	id := alarm.GroupKey(v.alarm.UID, v.by...)
	apart, asked := g.separate[id]
	if !asked {
		var err error
		if apart, err = g.outbox.HasGroup(ctx, id); err != nil {
			return err
		}
		apart = apart || g.tryOpen(v.alarm)
		g.separate[id] = apart
	}
	if !apart {
		v.by = nil
		g.limited[v.alarm.ID] = true
	}
	return nil
}

// open says whether the alarm may have one more group, which it then has.
func (g *groupLimiter) tryOpen(a *match.Alarm) bool {
	subject := kube.Key(a.ID).String()
	namespace := subject[:len(subject)-len(a.ID.Name)]
	rows := int64(max(len(a.Receivers), 1))
	if g.outbox.Groups(subject)+g.opened[subject] >= maxGroupsOfAlarm*rows {
		return false
	}
	if a.ID.Kind == alarm.KindAlarm && g.outbox.Groups(namespace)+g.opened[namespace] >= maxGroupsOfNamespace {
		return false
	}
	g.opened[subject] += rows
	g.opened[namespace] += rows
	return true
}
