package pipeline

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// maxBacklog is how many messages may wait for one receiver; what comes beyond is
// dropped, and told. A receiver that is dead for a day must not fill the disk,
// which would stop the alarms of everyone.
const maxBacklog = 100_000

// intake gathers what of a batch goes into the outbox.
type entryBuilder struct {
	delivered outbox.Floors
	// backlog returns how many messages wait for a receiver.
	backlog func(receiver string) int64

	entries []outbox.Entry
	// queued and overflow are occurrences: for each receiver those taken in, and
	// those for which there was no room, by alarm.
	queued   map[string]int64
	overflow map[string]outbox.Counts
	// taken is how many entries of this batch are for a receiver.
	added map[string]int64
}

func newEntryBuilder(floors outbox.Floors, backlog func(receiver string) int64) *entryBuilder {
	return &entryBuilder{
		delivered: floors, backlog: backlog,
		queued: map[string]int64{}, overflow: map[string]outbox.Counts{}, added: map[string]int64{},
	}
}

// addAll takes in what alarms have to say of a batch.
func (in *entryBuilder) addAll(occurrences []alarm.Occurrence, verdicts [][]evaluation) error {
	for i := range occurrences {
		for j := range verdicts[i] {
			if err := in.add(&occurrences[i], &verdicts[i][j]); err != nil {
				return err
			}
		}
	}
	return nil
}

// add takes in what an alarm has to say of an occurrence that it matched: an entry
// for each receiver that was not served before.
func (in *entryBuilder) add(occ *alarm.Occurrence, v *evaluation) error {
	if v.outcome != match.Matched || v.suppressed != "" {
		return nil
	}
	payload, err := json.Marshal(v.message)
	if err != nil {
		return fmt.Errorf("encode message of %s: %w", v.alarm.ID.Name, err)
	}
	subject := kube.Key(v.alarm.ID).String()
	for _, receiver := range v.alarm.Receivers {
		key := alarm.Key(receiver, v.alarm.UID, occ)
		member, err := in.membership(occ, v)
		if err != nil {
			return err
		}
		switch served := in.delivered.Served(receiver, key, occ.Position); {
		case served && member == nil:
		case served:
			member.Served = true
			in.entries = append(in.entries, outbox.Entry{
				Receiver: receiver, Alarm: subject, Key: key, Position: occ.Position, Count: occ.Increase, Member: member,
			})
		case in.backlog(receiver)+in.added[receiver] >= maxBacklog:
			if in.overflow[receiver] == nil {
				in.overflow[receiver] = outbox.Counts{}
			}
			in.overflow[receiver][subject] += occ.Increase
		default:
			in.added[receiver]++
			in.queued[receiver] += occ.Increase
			in.entries = append(in.entries, outbox.Entry{
				Receiver: receiver, Alarm: subject, Key: key,
				Position: occ.Position, Count: occ.Increase, Payload: payload, Member: member,
			})
		}
	}
	return nil
}

// member makes the occurrence a part of its group's message; nil if the alarm has no
// groups.
func (in *entryBuilder) membership(occ *alarm.Occurrence, v *evaluation) (*outbox.Membership, error) {
	g := v.alarm.Grouping()
	if g == nil {
		return nil, nil
	}
	by, err := json.Marshal(v.by)
	if err != nil {
		return nil, fmt.Errorf("encode a group of %s: %w", v.alarm.ID.Name, err)
	}
	return &outbox.Membership{
		Group: alarm.GroupKey(v.alarm.UID, v.by...), By: by, At: occ.ObservedAt.Truncate(time.Second),
		Wait: g.Wait, Interval: g.Interval,
		// What is beyond the bounds has nothing in common that could be over.
		Resolves: len(v.by) > 0 && g.Resolves(&occ.Event),
	}, nil
}
