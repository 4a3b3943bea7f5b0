package objects

import (
	"maps"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

const (
	// listShare is how much longer than a list the pause after it is.
	listShare = 9
	// maxPauses limits the pauses in memory. Only resources that the API server serves have one.
	maxPauses = 1024
)

// pauseEnd returns when the objects of a stream may be listed again because of other needs.
func (s *Source) pauseEnd(stream string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pauses[stream]
}

// listed records that a list of a stream took so long, whether it succeeded or not. The pause
// after it outlasts the watcher, because tenants can end a watcher.
func (s *Source) listed(stream string, took time.Duration) {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.pauses, func(_ string, end time.Time) bool { return !now.Before(end) })
	s.pauses[stream] = alarm.Later(s.pauses[stream], now.Add(listShare*took))
	if len(s.pauses) > maxPauses {
		delete(s.pauses, s.firstPause())
	}
}

// firstPause returns the stream whose pause ends first. The caller holds s.mu.
func (s *Source) firstPause() (first string) {
	for stream, end := range s.pauses {
		if first == "" || end.Before(s.pauses[first]) {
			first = stream
		}
	}
	return first
}
