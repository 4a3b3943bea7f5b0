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
func (r *reader) watchFailed(err error) {
	if r.failing || isExpired(err) || errors.Is(err, io.EOF) {
		r.source.log.V(1).Info("The watch of Events ended", "err", err)
		return
	}
	r.failing = true
	r.source.log.Error(err, "Events cannot be watched; retrying")
}

// connected notes that a watch has begun, and returns when.
func (r *reader) connected() time.Time {
	now := r.source.clock.Now()
	if r.failing {
		r.source.log.Info("Events are watched again")
	}
	r.failing = false
	r.source.update(func(s *State) {
		s.ConnectedSince = now
		s.Connects++
	})
	return now
}

func (r *reader) disconnected() {
	r.source.update(func(s *State) { s.ConnectedSince = time.Time{} })
}

// noteEvent notes that an Event was read.
func (r *reader) countEvent() {
	now := r.source.clock.Now()
	r.source.update(func(s *State) {
		s.Events++
		s.LastEvent = now
		s.Live = r.counts.len()
	})
}

// malformed leaves out an Event: refusing to go on would lose all others.
func (r *reader) skipMalformed(err error) {
	r.source.log.Error(err, "An Event could not be understood and is left out")
	r.source.update(func(s *State) { s.Malformed++ })
}
