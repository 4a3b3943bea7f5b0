package pipeline

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/ledger"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// suppressor applies thresholds, mutes and the limits of groups to a batch. It uses only
// the order and the times of occurrences, so that another leader that reads the same
// Events decides the same. It stores nothing: changed returns the state that is committed
// with the batch.
type suppressor struct {
	outbox *outbox.Store
	// windows are the windows that the batch changes, by ID.
	windows map[string]*thresholdWindow
	groups  *groupLimiter
	*matcher
}

// thresholdWindow is the state of a threshold, of an alarm or of one of its groups.
type thresholdWindow struct {
	alarm     kube.Key
	threshold *match.Threshold
	state     match.SlidingWindow
	tenant    string
	// stored: the outbox has space for the window.
	stored bool
}

func (m *matcher) newSuppressor(store *outbox.Store, space *ledger.Ledger) *suppressor {
	return &suppressor{outbox: store, windows: map[string]*thresholdWindow{}, groups: newGroupLimiter(store, space), matcher: m}
}

// mark sets the suppression of the evaluations that matched.
func (s *suppressor) mark(ctx context.Context, occurrences []alarm.Occurrence, evaluations [][]evaluation) error {
	for i := range evaluations {
		for j := range evaluations[i] {
			e := &evaluations[i][j]
			if e.outcome != match.Matched {
				continue
			}
			var err error
			if e.suppressed, err = s.check(ctx, &occurrences[i], e); err != nil {
				return err
			}
		}
		evaluations[i] = slices.DeleteFunc(evaluations[i], func(e evaluation) bool { return e.outcome == match.NotMatched && e.err == nil })
	}
	return nil
}

// check returns why an occurrence that matched is not sent, or an empty Suppression.
// Occurrences during a mute count for the threshold. One that resolves an open group is
// always sent, and otherwise it does not match.
func (s *suppressor) check(ctx context.Context, occ *alarm.Occurrence, e *evaluation) (Suppression, error) {
	a := e.alarm
	e.tenant = spaceOf(a.ID, occ)
	if e.resolves {
		open, err := s.groups.isOpen(ctx, e)
		if !open {
			e.outcome = match.NotMatched
		}
		return "", errors.Join(err, s.addHolders(ctx, occ, e))
	}
	if err := s.groups.limit(ctx, e); err != nil {
		return "", err
	}
	if err := s.addHolders(ctx, occ, e); err != nil {
		return "", err
	}
	if threshold := a.Threshold(); threshold != nil {
		w, err := s.window(ctx, e)
		if err != nil {
			return "", err
		}
		if !occ.ReadAt.IsZero() {
			w.state = w.state.NotAfter(occ.ReadAt)
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

func (s *suppressor) window(ctx context.Context, e *evaluation) (*thresholdWindow, error) {
	a, id := e.alarm, alarm.GroupKey(e.alarm.UID, e.by...)
	if w, ok := s.windows[id]; ok {
		w.stored = w.stored || !e.stateless
		return w, nil
	}
	state, err := s.outbox.Window(ctx, id)
	if err != nil {
		return nil, err
	}
	w := &thresholdWindow{alarm: a.ID, threshold: a.Threshold(), tenant: e.tenant, stored: !e.stateless}
	if w.state.UnmarshalBinary(state) != nil {
		// An error here would stop all alarms, so an invalid state counts as empty.
		w.state = match.SlidingWindow{}
	}
	s.windows[id] = w
	return w, nil
}

// changed returns the windows that are stored with the batch.
func (s *suppressor) changed() ([]outbox.Window, error) {
	changed := make([]outbox.Window, 0, len(s.windows))
	for id, w := range s.windows {
		if !w.stored {
			continue
		}
		state, err := w.state.MarshalBinary()
		if err != nil {
			return nil, err
		}
		changed = append(changed, outbox.Window{
			ID: id, Alarm: w.alarm.String(), Tenant: w.tenant, Until: w.threshold.Expiry(w.state),
			State: state, MaxState: w.threshold.MaxBytes(),
		})
	}
	return changed, nil
}

// capObservedAt sets times in the future to now, and returns the times of the oldest and
// newest occurrence. Authors of Events can set such times, which would keep windows open.
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
