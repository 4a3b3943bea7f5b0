package source

import (
	"errors"
	"fmt"
	"time"
)

// ErrNotConnected is what Healthy returns while there is no watch.
var ErrNotConnected = errors.New("no watch of Events on the API server")

// State is how the feed fares.
type State struct {
	// Position is the last one that the handler committed.
	Position uint64
	// LastEvent is when the last Event was read; zero before the first.
	LastEvent time.Time
	// ConnectedSince is when the current watch began; zero while there is none.
	ConnectedSince time.Time
	// Live is the number of Events that are remembered.
	Live int
	// Pending is the number of changes that waited when the last batch was taken.
	Pending int
	// Behind is how long ago the oldest change happened that was read and is not
	// committed; 0 if there is none. What the API server stamps is in whole seconds.
	Behind time.Duration
	// HandlerFailing says that the handler refused the batch that it was offered
	// last.
	HandlerFailing bool
	// Events counts the changes of Events read, Occurrences by how much the counts of
	// Events increased that were committed.
	Events, Occurrences int64
	// Connects counts the watches begun, Relists the lists that were needed because
	// a position had expired or a watch closed early, Resets the changes of history,
	// Malformed the Events that could not be understood and were left out.
	Connects, Relists, Resets, Malformed int64
}

// State returns how the feed fares now.
func (f *Source) State() State {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.state
	if !f.uncommitted.IsZero() {
		s.Behind = f.age(f.uncommitted)
	}
	return s
}

// ago is how long ago something happened; never less than 0, for the API server has
// a clock of its own.
func (f *Source) age(at time.Time) time.Duration { return max(f.clock.Since(at), 0) }

// Healthy returns why the feed makes no progress, or nil: the handler's error,
// or ErrNotConnected.
func (f *Source) Healthy() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.failure != nil:
		return fmt.Errorf("commit Events: %w", f.failure)
	case f.state.ConnectedSince.IsZero():
		return ErrNotConnected
	default:
		return nil
	}
}

func (f *Source) update(change func(*State)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.state)
}

// taken notes that a batch was taken, of which the oldest happened at a time, and how
// many changes wait behind it.
func (f *Source) batchTaken(oldest time.Time, pending int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.uncommitted, f.state.Pending = oldest, pending
}

// committed notes that the handler took b.
func (f *Source) committed(b Batch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failure != nil {
		f.log.Info("Events are committed again")
	}
	f.failure = nil
	f.uncommitted = time.Time{}
	f.state.HandlerFailing = false
	f.state.Position = b.Position
	for i := range b.Occurrences {
		f.state.Occurrences += b.Occurrences[i].Increase
		f.lag.Observe(f.age(b.Occurrences[i].ObservedAt).Seconds())
	}
}

// stopped forgets a failure, and a batch, that nobody works on any more.
func (f *Source) stopped() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failure = nil
	f.uncommitted = time.Time{}
	f.state.HandlerFailing = false
}

// refused notes that the handler did not take a batch, and tells so once.
func (f *Source) commitFailed(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failure == nil {
		f.log.Error(err, "Events could not be committed; retrying")
	}
	f.failure = err
	f.state.HandlerFailing = true
}
