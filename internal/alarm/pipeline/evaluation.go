package pipeline

import (
	"slices"
	"strings"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
)

// evaluation is the result of one alarm for one occurrence.
type evaluation struct {
	alarm *match.Alarm
	// recipients are the receivers of the occurrence.
	recipients []recipient
	// route chooses receivers by a label, nil if none does. noReceiver is set if a label
	// that exists chooses none.
	route      *match.Route
	noReceiver *match.NoReceiverError
	outcome    match.Outcome
	err        error
	// unread says why the outcome is Undecided, if the alarm itself decides so.
	unread  alarm.Unread
	message message.Message
	// resolves: the occurrence only resolves its group. It is not counted.
	resolves bool
	// lasts: it is about a state, whose group stays open until it ends. handled are the delivered
	// offsets of the occurrence if they differ from those of the batch.
	lasts   bool
	handled *progress.Offsets
	// by contains the values of the occurrence's group, if the alarm has groups. lacks is a key of
	// spec.group.by that the object does not have.
	by    []alarm.GroupValue
	lacks string
	// tenant names the space of the entries and of the state. stateless: the outbox has no
	// space for the state. The occurrence is then in no group, and the threshold counts only
	// occurrences of the same batch.
	tenant    string
	stateless bool
	// suppressed says why the occurrence is not sent; empty if it is.
	suppressed Suppression
	// replayed: an earlier process evaluated the occurrence, and counted it. A replay reads it
	// again because of one receiver that is behind, or because of a threshold.
	replayed bool
	// parked: the outcome is Undecided, and the occurrence is evaluated again later.
	parked bool
}

// skipped are alarms that were not evaluated for all occurrences of a batch.
type skipped struct {
	alarms []*match.Alarm
	why    *match.OverBudgetError
}

// Suppression says why an occurrence that matched is not sent. It is a metric label.
type Suppression string

const (
	// SuppressedByThreshold: the threshold is not reached.
	SuppressedByThreshold Suppression = "threshold"
	// SuppressedByMute: it happened while the alarm was muted.
	SuppressedByMute Suppression = "mute"
	// SuppressedByGroup: another message of its group includes it. This counts the
	// messages that were saved, once for each receiver.
	SuppressedByGroup Suppression = "group"
	// SuppressedByAcknowledgement: a user acknowledged its group. This counts occurrences, once
	// for each receiver.
	SuppressedByAcknowledgement Suppression = "acknowledgement"
)

// chosen identifies the receivers of an evaluation, if a label chooses them.
func (e *evaluation) chosen() string {
	if e.route == nil {
		return ""
	}
	ids := make([]string, 0, len(e.recipients))
	for i := range e.recipients {
		ids = append(ids, e.recipients[i].ID)
	}
	return strings.Join(ids, " ")
}

// chosenKeys returns the keys of the receivers that a label chose.
func (e *evaluation) chosenKeys() (keys []string) {
	for i := range e.recipients {
		if key := e.recipients[i].key; !slices.Contains(e.alarm.Receivers, key) {
			keys = append(keys, key)
		}
	}
	return keys
}
