// Package group decides which group of a receiver an occurrence belongs to, when its message is due,
// and when the group is over. It has no clock and stores nothing.
package group

import (
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

// Rule is what an alarm says about its groups.
type Rule struct {
	// Wait is how long the first message of the group waits for more occurrences.
	// Interval is the minimum time between two messages.
	Wait, Interval time.Duration
	// Open is how long the group stays open after an occurrence: [alarm.GroupLife] if it is less.
	Open time.Duration
	// Quiet is how long nothing must happen until the group is resolved, 0 if it never is.
	Quiet time.Duration
	// Lasts is true for a state that lasts until it is resolved. The group then stays open
	// after [alarm.GroupLife].
	Lasts bool
}

// State is the state of a group. The zero State is no group. It counts all occurrences, also those
// that are not sent.
type State struct {
	// Since and Newest are the times of the first and the last occurrence.
	Since, Newest time.Time
	// Due is when the message of the last occurrence is due. First is when the first message was
	// due: zero if all occurrences were suppressed. Paced is when the last message with a problem
	// was due: the interval until the next one begins there.
	Due, First, Paced time.Time
	// Over is when the group is over if nothing happens in it.
	Over  time.Time
	Total int64
	// Released is the due time of the last message that was made.
	Released time.Time
	Resolved bool
	// Accepted is when the receiver accepted the last message, zero if that resolved the group.
	// Interval comes from the last Rule.
	Accepted time.Time
	Interval time.Duration
	// Ending is the Event.Key of the end that waits, empty if none does.
	Ending string
	// Acknowledged is the Acknowledgement.Token in force, or 0.
	Acknowledged int64
}

// Kind is what happens in a group.
type Kind int

const (
	// Problem is an occurrence of the problem that the group is about.
	Problem Kind = iota
	// Resolution is an occurrence that ends the problem.
	Resolution
	// OnlyResolution is a Resolution that is ignored if there is no problem.
	OnlyResolution
	// End resolves the group if nothing happens for Rule.Quiet. It follows its occurrence.
	End
	// Notice puts an acknowledgement into force.
	Notice
)

// Message says whether an Event needs a message.
type Message int

const (
	// New needs a message.
	New Message = iota
	// Waits is in a message that is not sent yet.
	Waits
	// Sent was in a message, of this process or of another leader.
	Sent
	// Suppressed is never in a message. An occurrence only counts in the total of its group.
	Suppressed
)

// Event is something that happens in a group.
type Event struct {
	Kind    Kind
	Message Message
	// At is the time of the occurrence, in whole seconds. That of a Notice is now.
	At time.Time
	// Count is the number of occurrences. Key identifies the event.
	Count int64
	Key   string
	// Acknowledgement is set if a user acknowledged a group with this ID.
	Acknowledgement *Acknowledgement
}

// Acknowledgement says that a user acknowledged a group. It is in force until the group is
// resolved. A group that begins again has the same ID, but began after Until.
type Acknowledgement struct {
	// Token identifies the acknowledgement. It is not 0.
	Token int64
	// Until is the latest time at which the group can have begun.
	Until time.Time
	// Announced is true if it was in force before: no notice is sent. An outbox that was lost
	// knows it only from here.
	Announced bool
}

// Part is what waits in a group and is due at one time.
type Part struct {
	Due time.Time
	// First: it begins the group. Resolves: it ends with a resolution.
	First, Resolves bool
	// Count is the number of occurrences.
	Count int64
}

// Actions is what must be done besides storing the State. They do not concern parts that are in a
// message, or those of a former group.
type Actions struct {
	// Hold is the part that waits for its message. If it waits already, nothing must be done, and the
	// State does not change.
	Hold *Part
	// Hasten: what is due later than Hold is due with it, except ends and notices.
	Hasten bool
	// DropResolutions removes resolutions that wait, and DropWaiting all that waits before Hold. Both
	// leave ends. DropEnd is the key of the end to remove.
	DropResolutions, DropWaiting bool
	DropEnd                      string
	// Silenced: the occurrence is not sent, because of an acknowledgement.
	Silenced bool
	// Forget removes the last message of the group, which is kept for receivers that must get it
	// again. Remember keeps one about the occurrence, which was sent.
	Forget, Remember bool
}

// Next returns the state of the group after an event, and what must be done. All times depend on the
// times of occurrences only, so that a replay decides the same.
func Next(s State, r Rule, e Event) (State, Actions) {
	switch {
	case e.Kind == Notice:
		return s.acknowledge(e)
	case e.Kind == End:
		return s.end(r, e)
	case e.Message == Suppressed:
		return s.suppress(r, e), Actions{}
	default:
		return s.join(r, e)
	}
}

func (e *Event) resolves() bool { return e.Kind == Resolution || e.Kind == OnlyResolution }

// needsNone reports whether the event needs no message, and none of it waits.
func (e *Event) needsNone() bool { return e.Message == Sent || e.Message == Suppressed }

// join adds an occurrence.
func (s State) join(r Rule, e Event) (State, Actions) {
	next, ended := s.forEvent(r, e)
	if e.Kind == OnlyResolution && !next.begun() {
		return s, Actions{}
	}
	do := Actions{DropEnd: next.Ending}
	next.Ending, next.Interval = "", r.Interval
	if e.Acknowledgement.silences(&next, e) {
		next.addSilently(r, e, &do)
	} else {
		next.add(r, e, &do)
	}
	do.Forget = ended || e.Message == Sent && next.Resolved
	do.Remember = e.Message == Sent && !next.Resolved
	return next, do
}

// forEvent returns the group that an occurrence belongs to. It is the successor if this group ended.
func (s State) forEvent(r Rule, e Event) (next State, ended bool) {
	next = s
	if ended = !s.Since.IsZero() && s.isOver(r, e); ended {
		next = s.successor(e)
	}
	if next.Since.IsZero() {
		next.Since = e.At
	}
	return next, ended
}

// isOver reports whether an occurrence begins a new group.
func (s *State) isOver(r Rule, e Event) bool {
	if s.Resolved && s.messageClosed(e) {
		return true
	}
	if r.Quiet > 0 {
		return !e.At.Before(s.endDue(r))
	}
	return !r.Lasts && e.At.After(s.Over)
}

// successor returns the group that begins after this one with an occurrence. The interval is kept
// between two problems, and between two resolutions.
func (s *State) successor(e Event) State {
	next := State{Accepted: s.Accepted, Paced: s.Paced}
	if s.Resolved && e.resolves() {
		next.Due, next.Released = s.Due, s.Released
	}
	return next
}

// begun reports whether a message of the group was due. Otherwise, all occurrences were suppressed.
func (s *State) begun() bool { return !s.First.IsZero() }

// messageClosed reports whether the message of the last occurrence does not take another
// one. If the Events come in order, this depends only on their times: no message is made
// before it is due. An occurrence that was sent was in that message, which is why Released is
// no obstacle.
func (s *State) messageClosed(e Event) bool {
	return !e.At.Before(s.Due) || !e.needsNone() && !s.Released.Before(s.Due)
}

// isReported reports whether the first message of the group was due before an occurrence. Like
// messageClosed, it depends only on times if the Events come in order.
func (s *State) isReported(e Event) bool {
	return !e.At.Before(s.First) || !e.needsNone() && !s.Released.Before(s.First)
}

// add adds an occurrence with a message.
func (s *State) add(r Rule, e Event, do *Actions) {
	s.setDue(r, e)
	s.Resolved = e.resolves()
	if !s.begun() {
		s.First = s.Due
	}
	s.count(r, e)
	switch e.Message {
	case New:
		do.Hold = &Part{Due: s.Due, First: s.Due.Equal(s.First), Resolves: s.Resolved, Count: e.Count}
		// A resolution takes all with it, and a problem what waits for the first message.
		do.Hasten = do.Hold.Resolves || do.Hold.First
	case Sent:
		s.Released = s.Due
	case Waits, Suppressed:
	}
}

// setDue sets when the message of a new occurrence is due, at the end of a second. The occurrence
// joins the message of the last one if that is not closed. The end of a problem is due at once,
// after the first message of the group. If the problem occurs again before the first message, that
// has all of them.
func (s *State) setDue(r Rule, e Event) {
	switch {
	case e.resolves() && s.begun() && !s.Resolved:
		s.Due = alarm.Later(e.At, s.First).Add(time.Second)
		if s.Paced.After(s.Due) {
			s.Paced = s.Due
		}
		return
	case s.Resolved && !e.resolves() && !s.isReported(e):
		s.Due = s.First
	case !s.messageClosed(e):
	case e.resolves(): // there was no problem
		s.Due = alarm.Later(e.At.Add(r.Wait+time.Second), s.Due.Add(r.Interval))
	default:
		s.Due = alarm.Later(e.At.Add(r.Wait+time.Second), s.Paced.Add(r.Interval))
	}
	if !e.resolves() {
		s.Paced = s.Due
	}
}

// count counts an occurrence, which keeps the group open.
func (s *State) count(r Rule, e Event) {
	s.Newest, s.Total = alarm.Later(s.Newest, e.At), s.Total+e.Count
	if e.resolves() {
		s.Over = s.Newest.Add(alarm.GroupLife)
	} else {
		s.Over = alarm.Later(s.Over, e.At.Add(max(alarm.GroupLife, r.Open)))
	}
}

// suppress counts an occurrence that is not sent. It neither keeps a group open that has begun,
// nor resolves one.
func (s State) suppress(r Rule, e Event) State {
	next, _ := s.forEvent(r, e)
	next.Interval = r.Interval
	if next.begun() {
		next.Total += e.Count
	} else {
		next.count(r, e)
	}
	return next
}

// endDue returns when a group with a Rule.Quiet is resolved: after its last message, which
// does not wait until all Events are read.
func (s *State) endDue(r Rule) time.Time {
	return alarm.Later(s.Newest.Add(r.Quiet), s.Due).Add(time.Second)
}

// end lets the end of the group wait, unless it was sent.
func (s State) end(r Rule, e Event) (State, Actions) {
	if !s.begun() || s.Resolved || s.Ending != "" {
		return s, Actions{} // its occurrence was not added
	}
	if e.needsNone() {
		return s, Actions{Forget: true}
	}
	var do Actions
	if e.Message == New {
		do.Hold = &Part{Due: s.endDue(r), Resolves: true}
	}
	s.Ending = e.Key
	return s, do
}

// silences reports whether a problem of a group is not sent.
func (a *Acknowledgement) silences(s *State, e Event) bool {
	return a != nil && !e.resolves() && a.names(s)
}

// names reports whether the acknowledgement is about a group.
func (a *Acknowledgement) names(s *State) bool {
	return s.Acknowledged == a.Token || !s.Since.After(a.Until)
}

// addSilently adds an occurrence to an acknowledged group without a message. It leaves the due
// time of messages as it is, so that the resolution does not wait for a message that is not sent.
// A resolution that waits is removed, because the problem did not end.
func (s *State) addSilently(r Rule, e Event, do *Actions) {
	if !s.begun() {
		s.First = e.At
	}
	do.DropResolutions, s.Resolved = s.Resolved, false
	s.count(r, e)
	if e.Acknowledgement.Announced {
		s.Acknowledged = e.Acknowledgement.Token
	}
	do.Silenced = e.Message == New
}

// acknowledge puts an acknowledgement into force, once. Occurrences that wait are not sent any more.
// It does nothing if the group is another one, or is resolved.
func (s State) acknowledge(e Event) (State, Actions) {
	a := e.Acknowledgement
	if !s.begun() || s.Resolved || s.Acknowledged == a.Token || !a.names(&s) {
		return s, Actions{}
	}
	s.Acknowledged = a.Token
	do := Actions{DropWaiting: true}
	if e.Message == New {
		do.Hold = &Part{Due: e.At}
	}
	return s, do
}
