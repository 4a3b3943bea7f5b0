package source

import (
	"errors"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// isExpired says that the API server no longer has the position: 410, as the
// status of a response or as an object in a watch.
func isExpired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// isStatus says that the API server itself reports the error.
func isStatus(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

// retryAfter returns how long the API server asks to be left alone.
func retryAfter(err error) time.Duration {
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return time.Duration(seconds) * time.Second
}

// failed notes that the API server could not be followed, and tells so once.
func (r *reader) failed(err error) {
	if r.failing || isExpired(err) || errors.Is(err, io.EOF) {
		r.feed.log.V(1).Info("The watch of Events ended", "err", err)
		return
	}
	r.failing = true
	r.feed.log.Error(err, "Events cannot be watched; retrying")
}

// connected notes that a watch has begun, and returns when.
func (r *reader) connected() time.Time {
	now := r.feed.clock.Now()
	if r.failing {
		r.feed.log.Info("Events are watched again")
	}
	r.failing = false
	r.feed.update(func(s *State) {
		s.ConnectedSince = now
		s.Connects++
	})
	return now
}

func (r *reader) disconnected() {
	r.feed.update(func(s *State) { s.ConnectedSince = time.Time{} })
}

// noteEvent notes that an Event was read.
func (r *reader) noteEvent() {
	now := r.feed.clock.Now()
	r.feed.update(func(s *State) {
		s.Events++
		s.LastEvent = now
		s.Live = r.counts.len()
	})
}

// malformed leaves out an Event: refusing to go on would lose all others.
func (r *reader) malformed(err error) {
	r.feed.log.Error(err, "An Event could not be understood and is left out")
	r.feed.update(func(s *State) { s.Malformed++ })
}
