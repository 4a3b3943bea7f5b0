package pipeline

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/group"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// endedAtOnce limits the groups of a deleted alarm that are resolved in one transaction.
const endedAtOnce = 500

// ofDeleted is the text of a message that resolves a group because nothing follows it any more.
const ofDeleted = "The alarm was deleted or suspended. Whether the problem is over is not known."

// endGroups resolves the groups of alarms that do not exist any more. Otherwise, their incidents would
// stay open, and they would seem to be groups of the next alarm of the name.
func (p *Pipeline) endGroups(ctx context.Context) error {
	if !p.Outbox.Confirmed() {
		return nil
	}
	uids, err := p.Outbox.Groups.Alarms(ctx)
	if err != nil {
		return err
	}
	for _, uid := range uids {
		if _, exists := p.Alarms.withUID(uid); exists {
			continue
		}
		if err := p.endGroupsOf(ctx, uid); err != nil {
			return err
		}
	}
	return nil
}

func (p *Pipeline) endGroupsOf(ctx context.Context, alarmUID string) error {
	cluster := p.Enricher.Context(ctx, &alarm.Event{}).Cluster.Name
	for range maxGroupsOfNamespace / endedAtOnce {
		groups, err := p.Outbox.Groups.Unresolved(ctx, alarmUID, endedAtOnce)
		if len(groups) == 0 || err != nil {
			return err
		}
		ends := make([]outbox.Entry, 0, len(groups))
		for i := range groups {
			end, err := p.endOfDeleted(&groups[i], alarmUID, cluster)
			if err != nil {
				return err
			}
			ends = append(ends, end)
		}
		if err := p.Outbox.Commit(ctx, outbox.Change{Entries: ends}); err != nil {
			return err
		}
		p.wakeGroups()
	}
	return nil
}

// endOfDeleted returns the entry that resolves a group.
func (p *Pipeline) endOfDeleted(g *outbox.UnresolvedGroup, alarmUID, cluster string) (outbox.Entry, error) {
	now := p.Clock.Now()
	id, err := kube.ParseKey(g.Alarm)
	if err != nil {
		return outbox.Entry{}, err
	}
	m := message.Message{
		Version: message.Version, Cluster: cluster, Alarm: id, Title: cmp.Or(g.Name, "the last group of the alarm"),
		Text: ofDeleted, FirstSeen: g.Since, LastSeen: now, Events: []message.Event{},
	}
	var last message.Message
	if json.Unmarshal(g.Last, &last) != nil || last.Group == nil {
		last = message.Message{Group: &message.Group{}}
	}
	m.Title = cmp.Or(last.Title, m.Title)
	by, err := json.Marshal(last.Group.By) // a receiver that gets messages again identifies the alert by it
	if err != nil {
		return outbox.Entry{}, err
	}
	payload, err := message.Encode(message.Part{Message: m})
	return outbox.Entry{
		Receiver: g.Receiver, Alarm: g.Alarm, Tenant: g.Tenant, Key: outbox.EndKey(g.Receiver + " " + g.ID + " " + g.Since.String()), CreatedAt: now, Payload: payload,
		Member: &outbox.Membership{
			Group: g.ID, AlarmUID: alarmUID, By: by, Name: g.Name, Event: group.Event{Kind: group.OnlyResolution, At: now.Truncate(time.Second)},
		},
	}, err
}
