package group

import (
	"slices"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

// isNotice reports whether the part is the notice of an acknowledgement, which is a message of its
// own.
func (p Part) isNotice() bool { return p.Count == 0 && !p.Resolves }

// isUrgent reports whether the part does not wait for the interval.
func (p Part) isUrgent() bool { return p.Resolves || p.isNotice() }

// Message returns how many parts the next message of the group has, of those that are due, in order.
// If it has none, they wait until a time, or until last is sent if that is zero. last is the last
// message that is not sent, nil if there is none.
//
// No message comes before the interval since the last one is over, unless a resolution is due. Neither
// that nor anything before it waits.
func (s *State) Message(due []Part, last *Part, now time.Time) (n int, until time.Time) {
	if !slices.ContainsFunc(due, Part.isUrgent) {
		if waits, until := s.awaits(last, now); waits {
			return 0, until
		}
	}
	return inOneMessage(due), time.Time{}
}

// awaits reports whether the next message must wait: while the last one is not sent, and then until
// the interval is over. A resolution and the group that begins after it are independent of each other.
func (s *State) awaits(last *Part, now time.Time) (waits bool, until time.Time) {
	if last != nil {
		return !last.Resolves, time.Time{}
	}
	if s.Accepted.IsZero() {
		return false, time.Time{}
	}
	until = s.Accepted.Add(s.Interval)
	return until.After(now), until
}

// inOneMessage returns how many parts the next message has. Only a message that was late leaves more
// than one. A resolution ends the message. It is a message of its own
// if the group was never reported, so that the receiver gets each change of the state.
func inOneMessage(due []Part) int {
	n := min(1, len(due))
	for ; n < len(due); n++ {
		next := due[n]
		if due[n-1].isUrgent() || next.isNotice() || next.First || next.Resolves && due[0].First {
			break
		}
	}
	return n
}

// Release records that a message was made whose last part was due at a time. ends: it contains the end
// of the group.
func (s *State) Release(due time.Time, ends bool) {
	s.Released = alarm.Later(s.Released, due)
	if ends {
		s.Resolved, s.Due, s.Ending = true, alarm.Later(s.Due, due), ""
	}
}

// Accept records that the receiver accepted a message, or if at is zero, that the message was
// dropped. After one that resolves the group, the next message does not wait for the interval.
func (s *State) Accept(resolves bool, at time.Time) {
	switch {
	case resolves:
		s.Accepted = time.Time{}
	case !at.IsZero():
		s.Accepted = at
	}
}

// SetBack moves the group if its last occurrence is in the future, because the clock was set back.
// The occurrence is then now. The begin of a group identifies it, and does not change. The group
// stays open for as long as before. It returns by how much what waits must be due earlier.
func (s *State) SetBack(now time.Time) (by time.Duration) {
	by = s.Newest.Sub(now).Truncate(time.Second)
	for _, t := range []*time.Time{&s.Newest, &s.Due, &s.First, &s.Released, &s.Paced} {
		if !t.IsZero() {
			*t = t.Add(-by)
		}
	}
	return by
}
