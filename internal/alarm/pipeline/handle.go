package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/group"
	"github.com/bongsu-io/bongsu/internal/alarm/ledger"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
)

// handle decides and commits one batch. Nothing is counted or sent before the commit.
func (p *Pipeline) handle(ctx context.Context, b source.Batch) error {
	p.Observe(ctx, b.Occurrences)
	handled := p.Outbox.State().Delivered
	if b.Reset != nil {
		handled = progress.Offsets{} // these positions belong to the history that ended
	}
	now := p.Clock.Now()
	capObservedAt(b.Occurrences, now)
	setReadAt(b.Occurrences, now)
	evaluations, skipped, err := p.matcher.match(ctx, b.Occurrences, handled)
	if err != nil {
		return err
	}
	done, err := p.Outbox.BeginDecision(ctx)
	if err != nil {
		return err
	}
	defer done()
	d, err := p.matcher.decide(ctx, p.Outbox, b, handled, now, evaluations)
	if err != nil {
		return err
	}
	d.skipped = skipped
	if err := p.commit(ctx, b, d.change); err != nil {
		return err
	}
	p.Outbox.ReadUpTo(readUpTo(&b))
	p.report(b.Occurrences, d)
	return nil
}

// setReadAt sets when the operator read the occurrences.
func setReadAt(occurrences []alarm.Occurrence, now time.Time) {
	for i := range occurrences {
		occurrences[i].ReadAt = now
	}
}

// readUpTo returns the time up to which all Events are read after a batch.
func readUpTo(b *source.Batch) time.Time {
	if b.ReadUpTo.After(b.Time) {
		return b.ReadUpTo
	}
	return b.Time
}

// decision is what the pipeline will do with occurrences. It has no effect before it is committed.
type decision struct {
	evaluations [][]evaluation
	// skipped are the alarms that were skipped for some occurrences, over their budget.
	skipped    []skipped
	suppressor *suppressor
	entries    *entryBuilder
	// change is what will be stored.
	change outbox.Change
}

// decide decides what is sent and what is stored of a batch of the source.
func (m *matcher) decide(ctx context.Context, store *outbox.Store, b source.Batch, handled progress.Offsets, now time.Time, evaluations [][]evaluation) (*decision, error) {
	space, err := store.Space(ctx)
	if err != nil {
		return nil, err
	}
	d := m.newDecision(store, space, handled, evaluations)
	d.change.Events = newEventStep(b)
	d.change.Events.Oldest, d.change.Events.Newest = capObservedAt(b.Occurrences, now)
	parking := newParking(store, space, handled, now)
	if err := parking.mark(ctx, b.Occurrences, d.evaluations); err != nil {
		return nil, err
	}
	d.change.Parked = parking.rows
	return d, d.conclude(ctx, b.Occurrences, now)
}

// newDecision returns a decision that uses space of a draft.
func (m *matcher) newDecision(store *outbox.Store, space *ledger.Ledger, handled progress.Offsets, evaluations [][]evaluation) *decision {
	return &decision{evaluations: evaluations, suppressor: m.newSuppressor(store, space), entries: newEntryBuilder(handled, space)}
}

// conclude decides what is sent of the occurrences that matched, and adds it to the change.
func (d *decision) conclude(ctx context.Context, occurrences []alarm.Occurrence, now time.Time) (err error) {
	if err := d.suppressor.mark(ctx, occurrences, d.evaluations); err != nil {
		return err
	}
	if d.change.Windows, err = d.suppressor.changed(); err != nil {
		return err
	}
	if err := d.entries.addAll(occurrences, d.evaluations); err != nil {
		return err
	}
	d.change.Entries = d.entries.entries
	for i := range d.change.Entries {
		d.change.Entries[i].CreatedAt = now
	}
	d.change.Status = d.statusCounts(occurrences, now)
	return nil
}

// statusCounts is what a batch adds to the status of alarms and receivers.
type statusCounts map[string]outbox.StatusCounts

func (s statusCounts) add(subject string, change outbox.StatusCounts) {
	s[subject] = s[subject].Plus(change)
}

// statusCounts returns what the batch adds to the status of alarms and receivers.
func (d *decision) statusCounts(occurrences []alarm.Occurrence, now time.Time) statusCounts {
	counts := statusCounts{}
	for i := range d.evaluations {
		for j := range d.evaluations[i] {
			e := &d.evaluations[i][j]
			if change := e.counts(occurrences[i].Increase, now); change != (outbox.StatusCounts{}) {
				counts.add(e.alarm.ID.String(), change)
			}
		}
	}
	for receiver, n := range d.entries.queued {
		if n > 0 {
			counts.add(alarm.ReceiverKey(receiver), outbox.StatusCounts{Matched: n, LastMatch: now})
		}
	}
	for receiver, alarms := range d.entries.overflow {
		for subject, n := range alarms {
			counts.add(alarm.ReceiverKey(receiver), outbox.StatusCounts{Dropped: n})
			counts.add(subject, outbox.StatusCounts{Dropped: n})
		}
	}
	return counts
}

// counts returns what the evaluation of n occurrences adds to the status of the alarm.
func (e *evaluation) counts(n int64, now time.Time) outbox.StatusCounts {
	switch {
	case e.replayed, e.parked, e.resolves:
		return outbox.StatusCounts{}
	case e.outcome == match.Matched:
		counts := outbox.StatusCounts{Matched: n, LastMatch: now}
		if e.suppressed == SuppressedByThreshold {
			counts.SuppressedByThreshold = n
		}
		if e.suppressed == SuppressedByMute {
			counts.SuppressedByMute = n
		}
		if e.lacks != "" {
			counts.WithoutGroupKey = n
		}
		return counts
	case e.outcome == match.Unresolved:
		return outbox.StatusCounts{Unresolved: n}
	case e.outcome == match.Undecided:
		return outbox.StatusCounts{Undecided: n}
	default:
		return outbox.StatusCounts{}
	}
}

// newEventStep returns what the source itself needs to be stored of a batch.
func newEventStep(b source.Batch) *outbox.EventStep {
	step := &outbox.EventStep{Position: b.Position, Time: b.Time, Counts: b.Counts, CountsKnown: b.CountsKnown, Forget: b.Forget}
	if b.Reset != nil {
		step.History = uuid.NewString()
	}
	return step
}

// commit stores what a batch changes. If a history ended with it, it reports that. Without a position
// in the checkpoint, a later start would start from now.
func (p *Pipeline) commit(ctx context.Context, b source.Batch, change outbox.Change) error {
	first := p.Outbox.State().Position == 0
	if !first && b.Reset == nil {
		return p.Outbox.Commit(ctx, change)
	}
	if err := p.commitWithCheckpoint(ctx, change); err != nil {
		return err
	}
	if b.Reset != nil {
		p.Reporter.Reset(ctx, b.Reset.Reason)
	}
	return nil
}

// report reports a batch after its commit, and wakes the receivers.
func (p *Pipeline) report(occurrences []alarm.Occurrence, d *decision) {
	for i := range d.evaluations {
		for j := range d.evaluations[i] {
			p.reportEvaluation(&d.evaluations[i][j], occurrences[i].Increase)
		}
	}
	for receiver, alarms := range d.entries.overflow {
		p.Reporter.Dropped(alarm.ReceiverKey(receiver), alarms, notify.DropOverflow, overflowText)
	}
	p.wakeGroups()
	for receiver := range d.entries.queued {
		p.Dispatcher.Wake(receiver)
	}
	for id := range d.suppressor.groups.limited {
		p.Reporter.GroupLimitReached(id)
	}
	p.reportSkipped(d.skipped)
}

func (p *Pipeline) reportSkipped(all []skipped) {
	for _, s := range all {
		for _, a := range s.alarms {
			p.Reporter.Evaluated(a.ID, match.Failed, s.why, 0)
		}
	}
}

func (p *Pipeline) reportEvaluation(e *evaluation, occurrences int64) {
	if e.replayed || e.parked || e.resolves {
		return
	}
	err := e.err
	if err == nil && e.noReceiver != nil {
		err = e.noReceiver
	}
	if e.outcome == match.Undecided {
		err = undecidedError(e.unread)
	}
	p.Reporter.Evaluated(e.alarm.ID, e.outcome, err, occurrences)
	if e.suppressed != "" {
		p.Reporter.Suppressed(e.suppressed, occurrences)
	}
}

// entryBuilder builds the outbox entries of a batch.
type entryBuilder struct {
	handled progress.Offsets
	space   *ledger.Ledger

	entries []outbox.Entry
	// queued counts the new occurrences for each receiver. overflow counts those that the
	// space excludes, for each receiver and alarm.
	queued   map[string]int64
	overflow map[string]outbox.Counts
}

func newEntryBuilder(handled progress.Offsets, space *ledger.Ledger) *entryBuilder {
	return &entryBuilder{handled: handled, space: space, queued: map[string]int64{}, overflow: map[string]outbox.Counts{}}
}

// addAll adds the entries for all evaluations of a batch.
func (b *entryBuilder) addAll(occurrences []alarm.Occurrence, evaluations [][]evaluation) error {
	for i := range occurrences {
		for j := range evaluations[i] {
			e, handled := &evaluations[i][j], &b.handled
			if e.handled != nil {
				handled = e.handled
			}
			if err := b.add(&occurrences[i], e, handled); err != nil {
				return err
			}
		}
	}
	return nil
}

// add adds an entry for each receiver, if the occurrence matched. One that is suppressed only counts
// in its group. It skips receivers for which the occurrence was handled before. Such an occurrence still
// belongs to its group, so that group gets an entry that is marked as sent.
func (b *entryBuilder) add(occ *alarm.Occurrence, e *evaluation, handled *progress.Offsets) error {
	if e.outcome != match.Matched {
		return nil
	}
	if e.suppressed != "" {
		return b.addSuppressed(occ, e)
	}
	payload, err := message.Encode(partOf(occ, e))
	if err != nil {
		return fmt.Errorf("encode message of %s: %w", e.alarm.ID.Name, err)
	}
	var waiting, ends []outbox.Entry // all with the same content
	for i := range e.recipients {
		r := &e.recipients[i]
		entry, err := b.entryFor(r, occ, e)
		if err != nil {
			return err
		}
		isNew := b.mustStore(&entry, payload, r, occ, handled)
		if isNew {
			waiting = append(waiting, entry)
		}
		// An end that was sent came after its occurrence.
		if end, quiet := endOf(entry); quiet && (isNew || b.mustStore(&end, payload, r, occ, handled)) {
			ends = append(ends, end)
		}
	}
	b.store(append(waiting, ends...), handled)
	return nil
}

// addSuppressed adds an entry without a message for each receiver, if the alarm has groups.
func (b *entryBuilder) addSuppressed(occ *alarm.Occurrence, e *evaluation) error {
	for i := range e.recipients {
		entry, err := b.entryFor(&e.recipients[i], occ, e)
		if err != nil {
			return err
		}
		if entry.Member != nil {
			entry.Member.Event.Message = group.Suppressed
			b.entries = append(b.entries, entry)
		}
	}
	return nil
}

// entryFor returns the entry for a receiver, without its payload.
func (b *entryBuilder) entryFor(r *recipient, occ *alarm.Occurrence, e *evaluation) (outbox.Entry, error) {
	entry := outbox.Entry{
		Receiver: r.ID, Alarm: e.alarm.ID.String(), Tenant: spaceOf(e.alarm.ID, occ), Key: r.entryKey(e.alarm.UID, occ),
		Subject: occ.Event.Subject(), Position: occ.Position, Count: occ.Increase,
	}
	if e.resolves || r.onlyEnd {
		entry.Count = 0
	}
	member, err := b.membership(occ, e)
	entry.Member = member
	if r.onlyEnd && err == nil {
		member.Event.Kind = group.OnlyResolution
	}
	return entry, err
}

// partOf returns the message of an occurrence, or its part of the message of a group. An
// occurrence that should have a group, but has none, counts for itself.
func partOf(occ *alarm.Occurrence, e *evaluation) message.Part {
	part := message.Part{Message: e.message, OwnTitle: e.alarm.HasTitle(), OwnText: e.alarm.HasText()}
	if e.alarm.Grouping() != nil && e.stateless && !part.OwnText {
		part.Text = message.AppendLine(part.Text, message.EventCounts(occ))
	}
	return part
}

// mustStore reports whether an entry is new, and sets its payload. An entry that was handled before
// only updates the state of its group. So does one that happened before the receiver was created.
// Without a payload, nothing of it is sent to the receiver.
func (b *entryBuilder) mustStore(entry *outbox.Entry, payload []byte, r *recipient, occ *alarm.Occurrence, handled *progress.Offsets) bool {
	if !r.isForFormer(occ) {
		entry.Payload = payload
	}
	if !r.handled(*handled, entry.Key, occ) {
		return true
	}
	if entry.Member != nil {
		entry.Member.Event.Message, entry.Member.Repeats = group.Sent, r.Repeats
		b.entries = append(b.entries, *entry)
	}
	return false
}

// endOf returns the entry that ends the group of an occurrence if nothing happens after it,
// or false if time does not end it.
func endOf(last outbox.Entry) (end outbox.Entry, quiet bool) {
	if last.Member == nil || last.Member.Rule.Quiet == 0 || last.Member.Event.Kind == group.OnlyResolution {
		return outbox.Entry{}, false
	}
	member := *last.Member
	member.Event.Kind, member.Event.Message = group.End, group.New
	last.Key, last.Count, last.Member = outbox.EndKey(last.Key), 0, &member
	return last, true
}

// store adds the entries for which there is space. The others are dropped.
func (b *entryBuilder) store(entries []outbox.Entry, handled *progress.Offsets) {
	admitted, refused := admit(b.space, entries)
	for i := range admitted {
		e := &admitted[i]
		if e.Position > handled.Position {
			b.queued[e.Receiver] += e.Count
		} else { // counted before the disk was lost
			b.queued[e.Receiver] += 0
		}
	}
	b.entries = append(b.entries, admitted...)
	for i := range refused {
		e := &refused[i]
		if b.overflow[e.Receiver] == nil {
			b.overflow[e.Receiver] = outbox.Counts{}
		}
		b.overflow[e.Receiver][e.Alarm] += e.Count
	}
}

// membership returns the group to which the occurrence belongs. It is nil if the alarm has no
// groups, or if the outbox has no space for the group.
func (b *entryBuilder) membership(occ *alarm.Occurrence, e *evaluation) (*outbox.Membership, error) {
	g := e.alarm.Grouping()
	if g == nil || e.stateless {
		return nil, nil
	}
	by, err := json.Marshal(e.by)
	if err != nil {
		return nil, fmt.Errorf("encode a group of %s: %w", e.alarm.ID.Name, err)
	}
	member := &outbox.Membership{
		Group: alarm.GroupKey(e.alarm.UID, e.by...), By: by, Name: groupName(e.by), AlarmUID: e.alarm.UID,
		Rule:  group.Rule{Wait: g.Wait, Interval: g.Interval, Open: g.Open(&occ.Event), Lasts: e.lasts},
		Event: group.Event{At: occ.ObservedAt.Truncate(time.Second)},
	}
	switch {
	case e.resolves:
		member.Event.Kind = group.OnlyResolution
	case len(e.by) > 0 && g.Resolves(&occ.Event): // the group beyond the limit is not about one object
		member.Event.Kind = group.Resolution
	}
	if len(e.by) > 0 && !e.lasts {
		member.Rule.Quiet = g.Quiet
	}
	if a := e.alarm.Acknowledged(member.Group); a != nil {
		member.Event.Acknowledgement = acknowledgement(a)
		if e.lasts && e.replayed && a.Announced { // the checkpoint knows the state, not when it was reported
			member.Event.Acknowledgement.Until = member.Event.At
		}
	}
	return member, nil
}
