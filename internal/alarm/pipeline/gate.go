package pipeline

import (
	"context"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// Suppression says, as a metric's label, why an occurrence that matched is not sent.
type Suppression string

const (
	// SuppressedByThreshold: there are not enough of them yet.
	SuppressedByThreshold Suppression = "threshold"
	// SuppressedByMute: it happened while the alarm was mute.
	SuppressedByMute Suppression = "mute"
	// SuppressedByGroup: it is told all the same, in a message of its group with others.
	// It counts messages that were saved, once for each receiver.
	SuppressedByGroup Suppression = "group"
)

// gate decides which of what a batch matched is sent. All that it goes by is what
// another leader that reads the same Events again sees too: the order of the
// occurrences and when they were observed. It changes nothing: what is to be
// remembered goes into the ledger with the batch.
type suppressor struct {
	outbox *outbox.Store
	// windows are those that the batch changes, by ID.
	windows map[string]*thresholdWindow
	groups  *groupLimiter
}

// window is what a threshold remembers of an alarm, or of one of its groups.
type thresholdWindow struct {
	alarm     alarm.ID
	threshold *match.Threshold
	state     match.SlidingWindow
}

func newSuppressor(l *outbox.Store) *suppressor {
	return &suppressor{outbox: l, windows: map[string]*thresholdWindow{}, groups: newGroupLimiter(l)}
}

// judge says why an occurrence that matched is not sent; nothing if it is. What
// happens while an alarm is mute has happened all the same: it counts for the
// threshold.
func (g *suppressor) check(ctx context.Context, occ *alarm.Occurrence, v *evaluation) (Suppression, error) {
	a := v.alarm
	if err := g.groups.limit(ctx, v); err != nil {
		return "", err
	}
	if threshold := a.Threshold(); threshold != nil {
		w, err := g.window(ctx, a, v.by)
		if err != nil {
			return "", err
		}
		var reached bool
		if w.state, reached = threshold.Add(w.state, occ.ObservedAt, occ.Increase); !reached {
			return SuppressedByThreshold, nil
		}
	}
	if a.Muted(occ.ObservedAt) {
		return SuppressedByMute, nil
	}
	return "", nil
}

func (g *suppressor) window(ctx context.Context, a *match.Alarm, by []alarm.GroupValue) (*thresholdWindow, error) {
	id := alarm.GroupKey(a.UID, by...)
	if w, ok := g.windows[id]; ok {
		return w, nil
	}
	state, err := g.outbox.Window(ctx, id)
	if err != nil {
		return nil, err
	}
	w := &thresholdWindow{alarm: a.ID, threshold: a.Threshold()}
	if w.state.UnmarshalBinary(state) != nil {
		// Nobody but us wrote it, and the alarms of everyone would wait for it.
		w.state = match.SlidingWindow{}
	}
	g.windows[id] = w
	return w, nil
}

// changed are the windows to be stored with the batch.
func (g *suppressor) changed() ([]outbox.Window, error) {
	changed := make([]outbox.Window, 0, len(g.windows))
	for id, w := range g.windows {
		state, err := w.state.MarshalBinary()
		if err != nil {
			return nil, err
		}
		changed = append(changed, outbox.Window{
			ID: id, Alarm: kube.Key(w.alarm).String(), Until: w.threshold.Expiry(w.state), State: state,
		})
	}
	return changed, nil
}

// notInTheFuture corrects when occurrences were observed, and returns when the first
// and the last of them were. Whoever writes an Event may have it say that it was
// written in the future, where it would keep windows open.
func capObservedAt(occurrences []alarm.Occurrence, now time.Time) (oldest, newest time.Time) {
	for i := range occurrences {
		at := &occurrences[i].ObservedAt
		if at.After(now) {
			*at = now
		}
		if oldest.IsZero() || at.Before(oldest) {
			oldest = *at
		}
		if at.After(newest) {
			newest = *at
		}
	}
	return oldest, newest
}
