package sequence

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
)

// model records what happened to Events and what receivers accepted. It decides what
// docs/guarantees.md promises about that.
type model struct {
	mu    sync.Mutex
	w     *world
	rises []*rise
	// last is the version of the last change of each Event, which can be its deletion.
	last map[string]uint64

	// accepted and again count, for each occurrence and receiver, how often it was accepted
	// and how often it may have been repeated. rejected are those that a receiver refused.
	accepted, again map[part]int
	rejected        map[part]bool
	// done is when the operator knew that it was accepted.
	done map[part]time.Time
	// open are the requests that the operator does not know to be accepted yet. uncovered
	// are those that are possibly not in the checkpoint.
	open      map[*acceptance]bool
	uncovered []*acceptance
	answers   []*acceptance // all that were answered
	// latest is the newest occurrence of each object that a receiver accepted.
	latest map[string]int

	// unreadable are the objects whose reads fail.
	unreadable map[string]bool
	// statuses are those of the alarms and receivers. delivered is how often the receivers of
	// an alarm accepted an occurrence. failovers is the number of processes that led without
	// the outbox of the last leader.
	statuses  map[string]v1alpha1.AlarmStatus
	delivered map[string]int64
	failovers int

	// lastOfGroup is the last message of each group of each receiver.
	lastOfGroup map[string]groupMessage

	// takeovers are the times at which another replica began to read at a position that the
	// API server did not have any more.
	takeovers []time.Time
	// isRestored: the checkpoint is that of a restore. changed are the UIDs of the Events that a
	// restore changed: it brought them back, or lowered or raised their count.
	isRestored bool
	changed    map[string]bool
	restores   int
	// compactions is the number of compactions. behind: the operator lists the Events, because
	// its position is compacted.
	compactions int
	behind      bool
	// apiFailed is when the API server was last down. lastEnd is when the last leader ended.
	apiFailed, lastEnd time.Time
	problems           []string
}

// rise is a write of an Event. If its increase is 0, the count fell.
type rise struct {
	serial   int
	uid      string
	object   int
	version  uint64
	at       time.Time
	increase int32
	fell     bool // the Event's count fell before
	recovers bool // the object recovered
	// merged: the operator had not read it when the API server no longer had its position.
	// It then lists the Events.
	merged bool
	// undone: a restore of etcd removed it, or came before the operator had read it. Or it came after
	// the restore, which changed its Event, and before the operator listed the Events.
	undone bool
	// raised is the number of restores that brought the Event back, or raised its count again. It can
	// then be sent again, also to a new receiver of the name.
	raised int
	// reread is the number of leaders that know after a restore only what its old checkpoint says. It
	// also counts those that took over while something waited since then, if it happened later.
	reread int
	// rereadBy is the last one of these, by its number of failovers.
	rereadBy int
	// kept is the number of leaders that took over after a restore with messages from before it.
	kept int
}

// part is an occurrence in a message of an alarm to a receiver.
type part struct {
	receiver, alarm string
	serial          int
}

// groupMessage is a message of a group.
type groupMessage struct {
	at       time.Time
	resolved bool
	object   string
	receiver *endpoint
}

// acceptance is a request that a receiver accepted.
type acceptance struct {
	parts        []part
	at, answered time.Time
	// incomplete: the receiver had not got all messages about an occurrence of it when the
	// checkpoint was last written.
	incomplete bool
}

func newModel(w *world) *model {
	return &model{
		w: w, last: map[string]uint64{}, accepted: map[part]int{}, again: map[part]int{}, rejected: map[part]bool{}, done: map[part]time.Time{},
		open: map[*acceptance]bool{}, latest: map[string]int{}, unreadable: map[string]bool{},
		statuses: map[string]v1alpha1.AlarmStatus{}, delivered: map[string]int64{}, lastOfGroup: map[string]groupMessage{}, changed: map[string]bool{},
	}
}

func (m *model) failf(format string, args ...any) {
	m.problems = append(m.problems, fmt.Sprintf(format, args...))
}

// request records a request with messages to a receiver. It returns what the receiver does,
// and the messages that it accepts: all or none.
func (m *model) request(e *endpoint, messages []message.Message) (behaviour, []*acceptance) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.isDeleted() && time.Since(e.deleted) > unobserved+2*latency {
		m.failf("sent to a deleted receiver: %s, %v after its deletion", e.uid, time.Since(e.deleted))
	}
	var all []*acceptance
	refused := false
	for i := range messages {
		a := &acceptance{at: time.Now()}
		for j := range messages[i].Events {
			serial := serialOf(messages[i].Events[j].Note)
			a.parts = append(a.parts, part{e.uid, messages[i].Alarm.Name, serial})
			refused = refused || serial%5 == 0 && serial > e.poison
		}
		all = append(all, a)
	}
	does := e.behaviour
	switch {
	case does == poisoned && refused:
		return does, nil
	case does == rejects && refused:
		if len(all) == 1 { // the operator divides a batch
			for _, p := range all[0].parts {
				m.rejected[p] = true
			}
			m.endRefused(e, messages[0].Group)
		}
		return does, nil
	case does == poisoned, does == rejects:
		does = accepts
	case does != accepts && does != late:
		return does, nil
	}
	for i, a := range all {
		if m.accept(e, a, &messages[i]); does == late {
			m.repeatable(a)
		}
	}
	return does, all
}

// accept records an accepted message.
func (m *model) accept(e *endpoint, a *acceptance, msg *message.Message) {
	m.open[a] = true
	for i, p := range a.parts {
		if p.serial >= len(m.rises) {
			m.failf("invented: %v", p)
			continue
		}
		m.accepted[p]++
		m.checkSent(e, p, &msg.Events[i])
	}
	if msg.Group != nil {
		m.checkInterval(e, msg.Group, a.parts)
	}
	if msg.Group == nil && !msg.Digest && m.compactions == 0 {
		m.checkOrder(a.parts[0])
	}
}

// answered records that the operator got the answer of the receiver.
func (m *model) answered(a *acceptance, msg *message.Message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.delivered[msg.Alarm.Name] += msg.Count
	delete(m.open, a)
	a.answered = time.Now()
	for _, p := range a.parts {
		m.done[p] = a.answered
	}
	m.uncovered = append(m.uncovered, a)
	m.answers = append(m.answers, a)
}

// restored records that etcd is as it was at a version. Another leader then knows only what an old
// checkpoint says. read is the position of the leader. The caller holds the mutex.
func (m *model) restored(version, read uint64) {
	m.compactions++
	m.restores++
	m.behind, m.isRestored = true, true
	again := map[string]bool{} // the UIDs of Events whose count fell, or that were deleted
	for uid, last := range m.last {
		m.changed[uid] = m.changed[uid] || last > version
		again[uid] = last > version
	}
	for _, r := range m.rises {
		if r.increase > 0 && r.version == m.last[r.uid] {
			again[r.uid] = false
		}
	}
	for _, r := range m.rises {
		again[r.uid] = again[r.uid] || r.version > version && r.increase == 0
		r.undone = r.undone || r.version > min(version, read)
		r.merged = r.merged || r.version > read
	}
	for _, r := range m.rises {
		if again[r.uid] {
			r.raised++
		}
	}
	m.uncovered = slices.Clone(m.answers)
	for _, a := range m.uncovered {
		a.incomplete = true
	}
}

// resumes records that a leader begins to read at a position. If it is compacted, the leader lists
// the Events, also those that a former leader had read but not stored.
func (m *model) resumes(position, compacted uint64) {
	if position >= compacted {
		return
	}
	m.behind = true
	for _, r := range m.rises {
		r.merged = r.merged || r.version > position
		r.undone = r.undone || r.version > position && m.changed[r.uid]
	}
}

// repeatable records that the message may be sent once more. The caller holds the mutex.
func (m *model) repeatable(a *acceptance) {
	delete(m.open, a)
	for _, p := range a.parts {
		m.again[p]++
	}
}

// repeatableByFailover is repeatable, except for what the new leader reads again anyway. The caller
// holds the mutex.
func (m *model) repeatableByFailover(a *acceptance) {
	for _, p := range a.parts {
		if m.failovers != m.rises[p.serial].rereadBy {
			m.again[p]++
		}
	}
}

// ended records the end of a process. Requests in flight can be repeated.
func (m *model) ended(p *process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for a := range m.open {
		m.repeatable(a)
	}
	if p.led {
		m.lastEnd = time.Now()
	}
}

// checkpointAge is how old the checkpoint can be. The rest is for its writing.
const checkpointAge = 5*time.Second + 10*latency

// checkpointWritten records a write by a process. The first one of another leader shows that
// it can repeat what was sent since the write before.
func (w *world) checkpointWritten(p *process) {
	m := w.model
	m.mu.Lock()
	defer m.mu.Unlock()
	p.led, w.last, w.newest = true, p.replica, -1
	isRestored := m.isRestored
	m.isRestored = false
	defer func() { w.ledIn[p.replica] = m.restores }()
	if p.foreign {
		p.foreign = false
		ledIn, led := w.ledIn[p.replica]
		last := w.cluster.decoded()
		again := last.TimeOf(alarm.ResetPosition)
		fromReset := w.cluster.needed() <= alarm.ResetPosition
		m.failovers++
		for _, r := range m.rises {
			if isRestored || fromReset && !r.at.Before(again) {
				r.reread++
				r.rereadBy = m.failovers
			}
			if !isRestored && led && ledIn < m.restores {
				r.kept++
			}
		}
		if w.cluster.needed() < w.cluster.compacted {
			m.takeovers = append(m.takeovers, time.Now())
			m.behind = true
		}
		for _, a := range m.uncovered {
			if m.lastEnd.Sub(a.answered) <= checkpointAge || !m.apiFailed.Before(a.at) || a.incomplete {
				m.repeatableByFailover(a)
			}
		}
		m.uncovered = nil
		return
	}
	before := time.Now().Add(-2 * latency) // when the request began
	m.uncovered = slices.DeleteFunc(m.uncovered, func(a *acceptance) bool {
		a.incomplete = m.incomplete(a, before)
		return a.answered.Before(before) && !a.incomplete
	})
}

// incomplete reports whether the receiver had not got all messages about an occurrence at a
// time, if several alarms send to it. The checkpoint has only one position for all of them.
// The caller holds the mutex.
func (m *model) incomplete(a *acceptance, at time.Time) bool {
	return slices.ContainsFunc(a.parts, func(p part) bool {
		return slices.ContainsFunc(m.w.alarms, func(other *alarmState) bool {
			sibling := part{p.receiver, other.name, p.serial}
			return m.w.receives(other, p.receiver) && m.maySend(other, m.rises[p.serial]) && !m.rejected[sibling] &&
				(m.done[sibling].IsZero() || !m.done[sibling].Before(at))
		})
	})
}

// checkSent reports an occurrence that must not be sent. The caller holds the mutex.
func (m *model) checkSent(e *endpoint, p part, event *message.Event) {
	r, a := m.rises[p.serial], m.w.alarm(p.alarm)
	switch {
	case a.resolves(r):
	case !a.matches(r):
		m.failf("not matched, but sent: %v", p)
	case a.suspendedAt(r.at):
		m.failf("happened while the alarm was suspended, but sent: %v", p)
	case r.raised == 0 && e.isForFormer(r):
		m.failf("happened before the receiver was created, but sent: %v", p)
	case m.compactions == 0 && event.Count != int64(r.increase):
		m.failf("wrong count: %v was sent with %d, want %d", p, event.Count, r.increase)
	}
}

// isForFormer reports whether only the former receiver may get an occurrence. A leader that ran when
// this one was created can send it what it read later.
func (e *endpoint) isForFormer(r *rise) bool {
	return r.at.Before(e.created.Truncate(time.Second)) && (e.unobserved || r.version <= e.read)
}

// checkOrder reports an occurrence that is sent after a later one of the same object. One that
// was rejected is dropped, and may be sent again after a kill or a failover. The caller holds
// the mutex.
func (m *model) checkOrder(p part) {
	object := fmt.Sprint(p.receiver, p.alarm, m.rises[p.serial].object)
	if latest, ok := m.latest[object]; ok && p.serial < latest && m.accepted[p] == 1 && !m.rejected[p] {
		m.failf("wrong order: %v was sent after the later %d of the same object", p, latest)
	}
	m.latest[object] = max(m.latest[object], p.serial)
}

// checkInterval reports a message of a group that comes too soon after the one before. Neither a
// message that resolves the group nor the one after it must wait. The caller holds the mutex.
func (m *model) checkInterval(e *endpoint, group *message.Group, parts []part) {
	key, now := e.uid+"/"+group.Key, time.Now()
	last, ok := m.lastOfGroup[key]
	again := slices.ContainsFunc(parts, func(p part) bool { return m.accepted[p] > 1 })
	if ok && !again && m.failovers == 0 && m.restores == 0 && !last.resolved && !group.Resolved && now.Sub(last.at) < groupInterval*time.Second {
		m.failf("too soon: %v came %v after another message of its group", parts, now.Sub(last.at))
	}
	m.lastOfGroup[key] = groupMessage{at: now, resolved: group.Resolved, object: group.By[0].Value, receiver: e}
}

// endRefused records that a receiver refused the end of a group, which is dropped. The caller holds
// the mutex.
func (m *model) endRefused(e *endpoint, group *message.Group) {
	if group == nil || !group.Resolved {
		return
	}
	key := e.uid + "/" + group.Key
	if last, ok := m.lastOfGroup[key]; ok {
		last.resolved = true
		m.lastOfGroup[key] = last
	}
}

// checkResolutions reports groups that receivers have open although their object recovered. The
// caller holds the mutex.
func (m *model) checkResolutions() {
	for _, last := range m.lastOfGroup {
		if last.resolved || m.w.receivers[last.receiver.key] != last.receiver {
			continue
		}
		var newest, problem *rise
		for _, r := range m.rises {
			if nameOf(r.object) != last.object || r.increase == 0 {
				continue
			}
			if newest = r; !r.recovers {
				problem = r
			}
		}
		if newest.recovers && newest.at.Sub(problem.at) < time.Hour {
			m.failf("not resolved: the group %s of %s, which recovered with #%d", last.object, last.receiver.uid, newest.serial)
		}
	}
}

// delayed returns a problem for each occurrence that waits behind a message that the receiver
// refuses, and that is about another object.
func (m *model) delayed() (problems []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	others := m.problems
	m.problems = nil
	defer func() { problems, m.problems = m.problems, others }()
	for _, a := range m.w.alarms {
		for _, key := range a.receivers {
			e := m.w.receivers[key]
			refused := map[int]bool{} // objects
			if len(a.definition.Spec.Match) > 0 && a.definition.Spec.Match[0].ObjectSelector != nil {
				for _, r := range m.rises { // an occurrence that waited for its object is behind later ones
					refused[r.object] = refused[r.object] || r.serial%5 == 0 && r.serial > e.poison
				}
			}
			for _, r := range m.rises {
				refused[r.object] = refused[r.object] || r.serial%5 == 0 && r.serial > e.poison
				if e.behaviour == poisoned && len(e.limits) == 0 && a.definition.Spec.Group == nil && !refused[r.object] {
					m.checkPart(a, e, r)
				}
			}
		}
	}
	return nil
}

// check returns the problems at the end of a sequence.
func (m *model) check() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.w.alarms {
		for _, key := range a.receivers {
			for _, r := range m.rises {
				m.checkPart(a, m.w.receivers[key], r)
			}
		}
	}
	if m.compactions == 0 && m.failovers == 0 {
		m.checkCounts()
	}
	if m.compactions == 0 {
		m.checkResolutions()
	}
	for p, n := range m.accepted {
		r := m.rises[p.serial]
		if most := 1 + m.again[p] + r.reread + r.raised + r.kept; n > most {
			m.failf("repeated: %v was sent %d times, want at most %d", p, n, most)
		}
	}
	return m.problems
}

// checkCounts reports counts in the status that are not exact. They are if no disk was lost
// and no other replica took over. The caller holds the mutex.
func (m *model) checkCounts() {
	for _, a := range m.w.alarms {
		var matched, suppressed int64
		for _, r := range m.rises {
			if !a.inScope(r) || a.resolves(r) {
				continue
			}
			matched += int64(r.increase)
			if !m.mustSend(a, r) {
				suppressed += int64(r.increase)
			}
		}
		status := m.statuses[a.key]
		if len(a.suspensions) == 0 && (status.Matched != matched || status.SuppressedByThreshold+status.SuppressedByMute != suppressed) {
			m.failf("status: %s matched %d and suppressed %d, want %d and %d", a.name, status.Matched, status.SuppressedByThreshold+status.SuppressedByMute, matched, suppressed)
		}
		if status.Delivered != m.delivered[a.name] {
			m.failf("status: %s delivered %d, want %d", a.name, status.Delivered, m.delivered[a.name])
		}
	}
}

// maySend reports whether an alarm that was never suspended may send an occurrence.
func (m *model) maySend(a *alarmState, r *rise) bool {
	return a.resolves(r) || a.matches(r) && (!a.threshold || m.compactions > 0 || m.reachesThreshold(r))
}

// mustSend reports whether an alarm that was never suspended must send an occurrence.
func (m *model) mustSend(a *alarmState, r *rise) bool {
	return r.increase > 0 && !r.undone && a.matches(r) && (!a.threshold || m.compactions == 0 && m.reachesThreshold(r))
}

func (m *model) checkPart(a *alarmState, e *endpoint, r *rise) {
	p := part{e.uid, a.name, r.serial}
	if m.accepted[p] > 0 {
		if a.threshold && m.compactions == 0 && !m.reachesThreshold(r) {
			m.failf("below the threshold, but sent: %v", p)
		}
		return
	}
	switch {
	case !m.mustSend(a, r), a.suspendedSince(r.at), m.rejected[p], m.unseen(r):
	case e.createdAfter(r.at):
	default:
		m.failf("not sent: %v, increased by %d at version %d", p, r.increase, r.version)
	}
}

// unseen reports whether the operator possibly read the increase in a list. It shows the last
// state of each Event, and no Event that was deleted.
func (m *model) unseen(r *rise) bool {
	again := slices.ContainsFunc(m.takeovers, func(at time.Time) bool { return at.After(r.at) })
	return (r.merged || again) && (m.last[r.uid] > r.version || r.fell)
}

// reachesThreshold reports whether the increases until this one reach the threshold.
func (m *model) reachesThreshold(r *rise) bool {
	var n int32
	for _, before := range m.rises[:r.serial+1] {
		if r.at.Truncate(time.Second).Sub(before.at.Truncate(time.Second)) <= oftenWithin*time.Second {
			n += before.increase
		}
	}
	return n >= oftenCount
}
