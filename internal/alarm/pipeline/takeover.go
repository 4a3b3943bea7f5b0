package pipeline

import (
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// resetReason is said when positions were found that are of another cluster.
const resetReason = "the recorded position belongs to another cluster; alarms continue from now"

// takeover is what a new leader does with the ledger it has and the mirror it
// finds.
type takeoverPlan struct {
	// trusted: the ledger is the last leader's own and complete; nothing of it is
	// dropped and nothing replayed.
	trusted bool
	// reset says why positions that were found are not of this cluster; empty if
	// they are. The ledger is emptied and the feed begins from now.
	reset string
	// served are the positions up to which the last leader served each receiver:
	// what the ledger has pending there is dropped.
	delivered outbox.Floors
	// floors are those positions again, or how far this ledger's own feed was read
	// where that is more: nothing at or below is taken in once more.
	handled outbox.Floors
	// position is where the feed begins, in which history; 0 is from now.
	position uint64
	history  string
}

// planTakeover decides; found tells whether there is a mirror, and window is the
// longest of the alarms in force.
func planTakeover(clusterUID string, l outbox.State, m checkpoint.Checkpoint, found bool, window time.Duration) takeoverPlan {
	foreignMirror := found && m.ClusterUID != clusterUID
	foreignLedger := l.ClusterUID != "" && l.ClusterUID != clusterUID
	useMirror := found && !foreignMirror
	useLedger := l.ClusterUID == clusterUID

	switch {
	case useLedger && (!useMirror || ownsTerm(l, m)):
		return takeoverPlan{trusted: true, history: l.History, position: l.Position}
	case useMirror && useLedger && l.History == m.History:
		return planReplay(m, l, window)
	case useMirror:
		return planReplay(m, outbox.State{}, window)
	case foreignMirror || foreignLedger:
		return takeoverPlan{reset: resetReason}
	default:
		return takeoverPlan{} // the first start ever
	}
}

// consumed is up to where the ledger accounts for everything: as far as it was read,
// or, where a replay that began earlier was cut short, as far as that was to lead.
func consumed(l outbox.State) uint64 {
	lowest := l.Floors.Default
	for _, floor := range l.Floors.Receivers {
		lowest = min(lowest, floor)
	}
	return max(l.Position, lowest)
}

// replay begins at the lowest position up to which a receiver has been served.
// What this ledger consumed when it led is accounted for, be it sent or pending:
// nobody is served that again. It begins earlier by the longest window, so that all
// are as they were when something is sent again.
func planReplay(m checkpoint.Checkpoint, l outbox.State, window time.Duration) takeoverPlan {
	consumed := consumed(l)
	t := takeoverPlan{
		history:   m.History,
		delivered: outbox.Floors{Default: m.Position, Receivers: m.Behind, Waiting: m.Waiting},
		handled:   outbox.Floors{Default: max(m.Position, consumed), Waiting: waitingKeys(m.Waiting).notHandledBy(l)},
	}
	t.position = t.handled.Default
	for receiver, served := range m.Behind {
		floor := max(served, consumed)
		if floor == t.handled.Default {
			continue
		}
		if t.handled.Receivers == nil {
			t.handled.Receivers = map[string]uint64{}
		}
		t.handled.Receivers[receiver] = floor
		t.position = min(t.position, floor)
	}
	for _, held := range t.handled.Waiting {
		for _, position := range held {
			t.position = min(t.position, position-1)
		}
	}
	t.position = m.Before(t.position, window)
	return t
}

// ownsTerm says whether the last term of leadership was this ledger's: a token
// that was claimed but not confirmed counts, for the crash came in between.
func ownsTerm(l outbox.State, m checkpoint.Checkpoint) bool {
	return m.Epoch != "" && (m.Epoch == l.Epoch || m.Epoch == l.NextEpoch)
}

// mirrorOf tells how far each receiver has come: up to its first pending entry,
// or to the end of the feed; and during a replay never before what the former
// leader had served.
func newCheckpoint(s outbox.Snapshot, epoch string) checkpoint.Checkpoint {
	m := checkpoint.Checkpoint{
		ClusterUID: s.ClusterUID, Epoch: epoch, History: s.History,
		Position: max(s.Position, s.Floors.Default),
		Behind:   map[string]uint64{},
	}
	for receiver := range s.Floors.Receivers {
		m.Behind[receiver] = max(s.Position, s.Floors.Of(receiver))
	}
	for receiver, backlog := range s.Backlogs {
		m.Behind[receiver] = backlog.Lowest - 1
	}
	for receiver, position := range m.Behind {
		if position >= m.Position {
			delete(m.Behind, receiver)
		}
	}
	return m
}
