package pipeline

import (
	"context"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/group"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// acknowledgeEvery is the interval between looks for groups that a replay found after they were
// acknowledged.
const acknowledgeEvery = 30 * time.Second

// followAcknowledgements puts acknowledgements into force after changes of alarms, and ends the groups
// of those that were deleted.
func (p *Pipeline) followAcknowledgements(ctx context.Context) error {
	for ctx.Err() == nil {
		changed := p.Alarms.changedAfter()
		wait := p.acknowledgeOnce(ctx)
		p.pause(ctx, wait, changed, nil)
	}
	return nil
}

// acknowledgeOnce puts the acknowledgements of all alarms into force. It returns the time until
// it must be called again.
func (p *Pipeline) acknowledgeOnce(ctx context.Context) (wait time.Duration) {
	if err := p.endGroups(ctx); err != nil {
		if ctx.Err() == nil {
			p.Log.Error(err, "the groups of deleted alarms could not be resolved: retrying")
		}
		return releaseRetry
	}
	for _, a := range p.Alarms.acknowledging() {
		if err := p.acknowledge(ctx, a); err != nil {
			if ctx.Err() == nil {
				p.Log.Error(err, "the acknowledgements of an alarm could not be stored: retrying", "alarm", a.ID)
			}
			return releaseRetry
		}
	}
	return acknowledgeEvery
}

// acknowledge puts the acknowledgements of an alarm into force that are not.
func (p *Pipeline) acknowledge(ctx context.Context, a *match.Alarm) error {
	var notices []outbox.Entry
	for id, ack := range a.Acknowledgements() {
		open, err := p.Outbox.Groups.Unacknowledged(ctx, id, acknowledgement(ack))
		if err != nil {
			return err
		}
		if !open {
			continue
		}
		more, err := p.notices(ctx, a, ack)
		if err != nil {
			return err
		}
		notices = append(notices, more...)
	}
	if len(notices) == 0 {
		return nil
	}
	if err := p.Outbox.Commit(ctx, outbox.Change{Entries: notices}); err != nil {
		return err
	}
	p.wakeGroups()
	return nil
}

// notices returns an entry for each receiver. Only those that show acknowledgements get a
// message, if there is space for it, and if it was not sent before.
func (p *Pipeline) notices(ctx context.Context, a *match.Alarm, ack *match.Acknowledgement) ([]outbox.Entry, error) {
	payload, err := message.Encode(message.Part{Message: p.noticeOf(ctx, a, ack)})
	if err != nil {
		return nil, err
	}
	// A ClusterAlarm's notices use the space of cluster-scoped objects.
	tenant := spaceOf(a.ID, &alarm.Occurrence{})
	now := p.Clock.Now()
	var sent, silent []outbox.Entry
	for _, r := range p.matcher.recipients(a.AllReceivers()) {
		e := outbox.Entry{
			Receiver: r.ID, Alarm: a.ID.String(), Tenant: tenant, Key: alarm.AcknowledgementKey(r.key, ack.Group, ack.Token), CreatedAt: now,
			Member: &outbox.Membership{Group: ack.Group, Event: group.Event{Kind: group.Notice, At: now, Acknowledgement: acknowledgement(ack)}},
		}
		if ack.Announced || !r.Acknowledges {
			silent = append(silent, e)
			continue
		}
		e.Payload = payload
		sent = append(sent, e)
	}
	space, err := p.Outbox.Space(ctx)
	if err != nil {
		return nil, err
	}
	sent, refused := admit(space, sent)
	silent = append(silent, refused...)
	for i := range silent {
		silent[i].Member.Event.Message = group.Suppressed
	}
	return append(sent, silent...), nil
}

func (p *Pipeline) noticeOf(ctx context.Context, a *match.Alarm, ack *match.Acknowledgement) message.Message {
	by, comment := plaintext.Line(ack.By), plaintext.Line(ack.Comment)
	return message.Message{
		Version: message.Version, Cluster: p.Enricher.Context(ctx, &alarm.Event{}).Cluster.Name, Alarm: a.ID,
		Title: plaintext.CutRunes("Acknowledged by "+by, message.MaxTitleLength), Text: comment,
		FirstSeen: ack.At, LastSeen: ack.At, Events: []message.Event{},
		Acknowledged: &message.Acknowledgement{By: by, At: ack.At, Comment: comment},
	}
}
