package pipeline

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// addStreams adds the streams of changes to the checkpoint, with the changes that wait. It reads
// the positions first: what is committed after them is read again.
func (p *Pipeline) addStreams(ctx context.Context, c *checkpoint.Checkpoint) error {
	streams, err := p.Outbox.Streams(ctx)
	if err != nil {
		return err
	}
	// Before what waits: a report that is not sent yet must not look sent.
	states, err := p.Outbox.OpenLasting(ctx, maxCheckpointStates)
	if err != nil || len(streams)+len(states) == 0 {
		return err
	}
	counts, err := p.Outbox.CountChanges(ctx)
	if err != nil {
		return err
	}
	waiting, err := p.Outbox.WaitingChanges(ctx, checkpoint.Limits(counts, checkpoint.MaxWaiting))
	if err != nil {
		return err
	}
	c.Streams = map[string]checkpoint.Stream{}
	for name, s := range streams {
		if s.Position > 0 {
			c.Streams[name] = newCheckpointStream(s, waiting[name])
		}
	}
	addStates(c, states, waiting)
	return nil
}

// maxCheckpointStates limits the states that are read for the checkpoint.
const maxCheckpointStates = 2_000

// addStates adds states that were reported to the streams. The stream of an alarm that is inactive can
// be dropped: its position is then 0.
func addStates(c *checkpoint.Checkpoint, states []outbox.Lasting, waiting map[string]map[string]outbox.Held) {
	for i := range states {
		l := &states[i]
		s, ok := c.Streams[l.Stream]
		if !ok {
			s = newCheckpointStream(outbox.Stream{}, waiting[l.Stream])
		}
		s.States = append(s.States, checkpoint.State{
			UID: l.UID, Namespace: l.Namespace, Alarm: l.Alarm, State: l.State, Since: l.Since.UnixMicro(),
			Position: l.Position, Group: l.Group, Data: string(l.Data),
		})
		c.Streams[l.Stream] = s
	}
}

// restoredStates returns the states that another leader reported, with the receivers that did
// not get the report.
func restoredStates(last map[string]checkpoint.Stream) (all []outbox.Lasting) {
	for _, name := range slices.Sorted(maps.Keys(last)) {
		for _, s := range last[name].States {
			l := outbox.Lasting{
				LastingKey: outbox.LastingKey{Stream: name, UID: s.UID, Alarm: s.Alarm, State: s.State}, Namespace: s.Namespace,
				Since: time.UnixMicro(s.Since).UTC(), Position: s.Position, Group: s.Group, Restored: true, Data: []byte(s.Data),
			}
			data := dataOf(&l)
			if data.Handled.Default == 0 { // otherwise, the last leader had not reported it yet
				data.Handled.Default = s.Position
				data.Handled.Waiting = waitingReports(&l, last[name].Waiting)
			}
			l.Data, _ = json.Marshal(data) // texts have a JSON form
			all = append(all, l)
		}
	}
	return all
}

// waitingReports returns the part of waiting that is the report of a state.
func waitingReports(l *outbox.Lasting, waiting map[string]map[string]uint64) map[string]outbox.Held {
	reports := waitingKeys{}
	occ := alarm.Occurrence{Event: alarm.Event{UID: stateUID(l, reasonStateBegan), Count: 1}, Position: l.Position}
	for receiver, held := range waiting {
		key := alarm.Key(alarm.ReceiverKey(receiver), l.Alarm, &occ)
		if position, waits := held[key]; waits {
			reports.add(receiver, key, position)
		}
	}
	return reports
}

// newCheckpointStream returns the progress of a stream. During a replay, it includes what the
// replay has not reached.
func newCheckpointStream(s outbox.Stream, waiting map[string]outbox.Held) checkpoint.Stream {
	all := waitingKeys{}
	maps.Copy(all, waiting)
	for receiver, held := range s.Delivered.Waiting {
		for key, position := range held {
			if position > s.Position {
				all.add(receiver, key, position)
			}
		}
	}
	c := checkpoint.Stream{Version: s.Version, Position: max(s.Position, s.Delivered.Default), Waiting: all}
	if !s.Time.IsZero() {
		c.Time = s.Time.Unix()
	}
	return c
}

// addStreamsTo adds the streams of a checkpoint to a replay. The positions in the outbox count only if
// they belong to the history of the checkpoint.
func (p *Pipeline) addStreamsTo(ctx context.Context, r *outbox.Replay, last map[string]checkpoint.Stream) error {
	var own map[string]outbox.Stream
	if p.Outbox.State().History == r.History {
		var err error
		if own, err = p.Outbox.Streams(ctx); err != nil {
			return err
		}
	}
	r.States = restoredStates(last)
	r.DeliveredChanges, r.Streams = planStreams(last, own, r.States)
	return nil
}

// planStreams plans, for each stream, a replay from before the first change that another leader
// did not deliver. It returns what that leader delivered, and the new streams. Changes that this
// outbox has consumed are either sent or pending, and not stored again.
// The reports of states that waited are not part of the replay: their rows contain them.
func planStreams(last map[string]checkpoint.Stream, own map[string]outbox.Stream, states []outbox.Lasting) (delivered map[string]outbox.DeliveredOffsets, streams []outbox.Stream) {
	delivered = map[string]outbox.DeliveredOffsets{}
	for _, name := range slices.Sorted(maps.Keys(last)) {
		l, mine := last[name], own[name]
		if l.Position == 0 {
			continue // it was dropped, and begins from now
		}
		delivered[name] = outbox.DeliveredOffsets{Default: l.Position, Waiting: l.Waiting}
		handled := outbox.DeliveredOffsets{
			Default: max(l.Position, mine.Position, mine.Delivered.Default),
			Waiting: waitingKeys(l.Waiting).notHandledBy(outbox.State{Position: mine.Position, Delivered: mine.Delivered}),
		}
		handled.Waiting = withoutReports(handled.Waiting, name, states)
		s := outbox.Stream{Name: name, Version: l.Version, Position: max(1, neededPosition(handled)), Delivered: handled}
		if l.Time > 0 {
			s.Time = time.Unix(l.Time, 0).UTC()
		}
		streams = append(streams, s)
	}
	return delivered, streams
}

// withoutReports returns the changes that wait, without the reports of states of a stream.
func withoutReports(waiting waitingKeys, stream string, states []outbox.Lasting) waitingKeys {
	for i := range states {
		if states[i].Stream != stream {
			continue
		}
		for receiver, held := range dataOf(&states[i]).Handled.Waiting {
			for key := range held {
				delete(waiting[receiver], key)
				if len(waiting[receiver]) == 0 {
					delete(waiting, receiver)
				}
			}
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	return waiting
}
