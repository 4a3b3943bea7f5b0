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
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
)

// maxCheckpointStates limits the states that are read for the checkpoint.
const maxCheckpointStates = 2_000

// addStreams adds the streams of changes to the checkpoint, with the changes that wait, and the states
// that were reported. The stream of an alarm that is inactive can be dropped: its position is then 0.
func addStreams(c *checkpoint.Checkpoint, streams map[string]outbox.Stream, states []outbox.Lasting, waiting map[string]progress.Waiting) {
	if len(streams)+len(states) == 0 {
		return
	}
	c.Streams = map[string]checkpoint.Stream{}
	for name, s := range streams {
		if s.Position > 0 {
			c.Streams[name] = newCheckpointStream(s, waiting[name])
		}
	}
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
				Since: time.UnixMicro(s.Since).UTC(), Position: s.Position, Group: s.Group, Fired: true, Restored: true, Data: []byte(s.Data),
			}
			data := dataOf(&l)
			if data.Handled.Position == 0 { // otherwise, the last leader had not reported it yet
				data.Handled.Position = s.Position
				data.Handled.Waiting = waitingReports(&l, last[name].Waiting)
			}
			l.Data, _ = json.Marshal(data) // texts have a JSON form
			all = append(all, l)
		}
	}
	return all
}

// waitingReports returns the part of waiting that is the report of a state.
func waitingReports(l *outbox.Lasting, waiting progress.Waiting) progress.Waiting {
	reports := progress.Waiting{}
	occ := alarm.Occurrence{Event: alarm.Event{UID: stateUID(l, reasonStateBegan), Count: 1}, Position: l.Position}
	for receiver, held := range waiting {
		key := alarm.Key(alarm.ReceiverKey(receiver), l.Alarm, &occ)
		if position, waits := held[key]; waits {
			reports.Add(receiver, key, position)
		}
	}
	return reports
}

// newCheckpointStream returns the progress of a stream. During a replay, it includes what the
// replay has not reached.
func newCheckpointStream(s outbox.Stream, waiting progress.Waiting) checkpoint.Stream {
	all := progress.Waiting{}
	all.AddAll(waiting)
	all.AddAll(s.Delivered.Waiting.Select(func(_, _ string, position uint64) bool { return position > s.Position }))
	c := checkpoint.Stream{Version: s.Version, Offsets: progress.Offsets{Position: max(s.Position, s.Delivered.Position), Waiting: all}}
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
		if own, err = p.Outbox.Streams.All(ctx); err != nil {
			return err
		}
	}
	r.States = restoredStates(last)
	delivered, streams := planStreams(last, own, r.States)
	maps.Copy(r.Delivered, delivered)
	r.Streams = streams
	return nil
}

// planStreams plans, for each stream, a replay from before the first change that another leader
// did not deliver. It returns what that leader delivered, and the new streams. Changes that this
// outbox has consumed are either sent or pending, and not stored again.
// The reports of states that waited are not part of the replay: their rows contain them.
func planStreams(last map[string]checkpoint.Stream, own map[string]outbox.Stream, states []outbox.Lasting) (delivered map[string]progress.Offsets, streams []outbox.Stream) {
	delivered = map[string]progress.Offsets{}
	reports := reportsOf(states)
	for _, name := range slices.Sorted(maps.Keys(last)) {
		l, mine := last[name], own[name]
		if l.Position == 0 {
			continue // it was dropped, and begins from now
		}
		delivered[name] = l.Offsets
		handled := l.With(mine.Position, mine.Delivered)
		handled.Waiting = handled.Waiting.Select(func(receiver, key string, _ uint64) bool {
			_, isReport := reports[name][receiver][key]
			return !isReport
		})
		s := outbox.Stream{Name: name, Version: l.Version, Position: max(1, handled.Needed()), Delivered: handled}
		if l.Time > 0 {
			s.Time = time.Unix(l.Time, 0).UTC()
		}
		streams = append(streams, s)
	}
	return delivered, streams
}

// reportsOf returns the reports of states that wait, by stream.
func reportsOf(states []outbox.Lasting) map[string]progress.Waiting {
	reports := map[string]progress.Waiting{}
	for i := range states {
		stream := states[i].Stream
		if reports[stream] == nil {
			reports[stream] = progress.Waiting{}
		}
		reports[stream].AddAll(dataOf(&states[i]).Handled.Waiting)
	}
	return reports
}
