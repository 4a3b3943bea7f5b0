package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/ledger"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
)

// waitingError is what an alarm reports while occurrences wait for something that cannot be read.
func waitingError(unread alarm.Unread) error {
	return fmt.Errorf("an object that the alarm needs cannot be read, so some Events wait for it: %s", unread)
}

// undecidedError is what an alarm reports if occurrences no longer wait for it.
func undecidedError(unread alarm.Unread) error {
	return fmt.Errorf("an object that the alarm needs cannot be read, so some Events were not sent (status.undecided counts them): %s", unread)
}

// parkedOccurrence is the content of an outbox.Parked.
type parkedOccurrence struct {
	Occurrence alarm.Occurrence `json:"occurrence"`
	// Unread says why it was parked. It is empty if it waits behind another occurrence.
	Unread alarm.Unread `json:"unread"`
	// Replayed is evaluation.replayed.
	Replayed bool `json:"replayed"`
}

// objectOf names the object that an occurrence regards. The namespace of the Event is part
// of it: a tenant can write Events that regard objects of others.
func objectOf(event *alarm.Event) string {
	ref := event.Regarding
	return strings.Join([]string{event.Namespace, ref.Kind, ref.Namespace, ref.Name}, "/")
}

// parking decides which occurrences of a batch wait, because an object cannot be read. It is
// not safe for concurrent use.
type parking struct {
	store   *outbox.Store
	space   *ledger.Ledger
	handled progress.Offsets
	now     time.Time

	rows []outbox.Parked
	// waits are the alarms and objects for which an occurrence of the batch is parked.
	waits map[[2]string]bool
}

func newParking(store *outbox.Store, space *ledger.Ledger, handled progress.Offsets, now time.Time) *parking {
	return &parking{store: store, space: space, handled: handled, now: now, waits: map[[2]string]bool{}}
}

// mark parks the occurrences that are Undecided, and those that matched if an earlier one of
// the same alarm and object waits. If there is no space, the former are not evaluated, and
// the latter are sent before the earlier ones.
func (p *parking) mark(ctx context.Context, occurrences []alarm.Occurrence, evaluations [][]evaluation) error {
	for i := range evaluations {
		for j := range evaluations[i] {
			waits, err := p.mustWait(ctx, &occurrences[i], &evaluations[i][j])
			if err != nil {
				return err
			}
			if !waits {
				continue
			}
			if err := p.park(&occurrences[i], &evaluations[i][j]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *parking) mustWait(ctx context.Context, occ *alarm.Occurrence, e *evaluation) (bool, error) {
	object := objectOf(&occ.Event)
	switch {
	case e.outcome == match.Undecided:
		return true, nil
	case e.outcome != match.Matched:
		return false, nil
	case p.waits[[2]string{e.alarm.UID, object}]:
		return true, nil
	default:
		return p.store.Parking.Has(ctx, e.alarm.UID, object)
	}
}

func (p *parking) park(occ *alarm.Occurrence, e *evaluation) error {
	data, err := json.Marshal(parkedOccurrence{Occurrence: *occ, Unread: e.unread, Replayed: e.replayed})
	if err != nil {
		return fmt.Errorf("encode an occurrence: %w", err)
	}
	row := outbox.Parked{
		Key: alarm.Key("", e.alarm.UID, occ), Alarm: e.alarm.UID, Object: objectOf(&occ.Event), Namespace: occ.Event.Namespace,
		Tenant: spaceOf(e.alarm.ID, occ), Position: occ.Position, Since: p.now.UnixMicro(), Receivers: map[string]string{}, Data: data,
	}
	for i := range e.recipients {
		r := &e.recipients[i]
		if key := r.entryKey(e.alarm.UID, occ); !r.handled(p.handled, key, occ) {
			row.Receivers[r.ID] = key
		}
	}
	if !p.space.Fits(ledger.Parked, row.Tenant, row.Bytes(), 0) {
		return nil
	}
	p.space.Add(ledger.Parked, row.Tenant, row.Bytes())
	p.waits[[2]string{row.Alarm, row.Object}] = true
	p.rows = append(p.rows, row)
	e.outcome, e.err, e.parked = match.Undecided, nil, true
	return nil
}

const (
	// parkedInterval is the time between two attempts to read the objects of a namespace.
	parkedInterval = time.Second
	// parkedConcurrency is the number of namespaces whose objects are read at once.
	parkedConcurrency = 4
	// unreadPerInterval is how many objects of a namespace are tried in an interval while
	// they cannot be read. The Enricher makes fewer requests.
	unreadPerInterval = 4
	// unreadPerSecond limits such attempts for all namespaces.
	unreadPerSecond = 50
	// parkedAtOnce is the largest number of occurrences that are decided in a transaction.
	parkedAtOnce = 256
	// reportUnreadAfter is how long an occurrence waits before its alarm reports it.
	reportUnreadAfter = time.Minute
)

// retryParked evaluates parked occurrences again until ctx ends. Each namespace has its own
// turn, so that objects of one namespace do not delay those of others.
func (p *Pipeline) retryParked(ctx context.Context) error {
	ticker := p.Clock.NewTicker(parkedInterval)
	defer ticker.Stop()
	cursors := map[string]string{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
		var err error
		cursors, err = p.retryNamespaces(ctx, cursors)
		if err != nil && ctx.Err() == nil {
			p.Log.Error(err, "parked occurrences could not be evaluated: retrying")
		}
	}
}

// retryNamespaces tries objects of each namespace. cursors are the objects after which the
// namespaces continue. It returns the next cursors.
func (p *Pipeline) retryNamespaces(ctx context.Context, cursors map[string]string) (next map[string]string, err error) {
	var mu sync.Mutex
	var failures []error
	next = map[string]string{}
	var group errgroup.Group
	group.SetLimit(parkedConcurrency)
	for _, namespace := range slices.Sorted(slices.Values(p.Outbox.Parking.Namespaces())) {
		group.Go(func() error {
			cursor, err := p.retryNamespace(ctx, namespace, cursors[namespace])
			mu.Lock()
			defer mu.Unlock()
			next[namespace] = cursor
			failures = append(failures, err)
			return nil
		})
	}
	_ = group.Wait() // the errors are in failures
	return next, errors.Join(failures...)
}

// retryNamespace tries the objects after the cursor. It returns the next cursor.
func (p *Pipeline) retryNamespace(ctx context.Context, namespace, cursor string) (string, error) {
	for unread := 0; unread < unreadPerInterval && ctx.Err() == nil; {
		object, err := p.Outbox.Parking.Next(ctx, namespace, cursor)
		if object == "" || err != nil {
			return "", err
		}
		waits, err := p.retryObject(ctx, namespace, object)
		if err != nil {
			return cursor, err
		}
		if waits {
			cursor = object
			unread++
			_ = p.unreadLimiter.Wait(ctx) // the loop ends with ctx
		}
	}
	return cursor, nil
}

// retryObject evaluates the oldest occurrences that wait for an object. waits reports whether
// some of them still wait.
func (p *Pipeline) retryObject(ctx context.Context, namespace, object string) (waits bool, err error) {
	rows, err := p.Outbox.Parking.Of(ctx, namespace, object, parkedAtOnce)
	if err != nil {
		return false, err
	}
	r := p.matcher.retry(ctx, rows, p.waited, p.MaxAge)
	if ctx.Err() != nil {
		return true, nil
	}
	for a, unread := range r.late {
		p.Reporter.Evaluated(a.ID, match.Undecided, waitingError(unread), 0)
	}
	if len(r.rows) == 0 {
		return true, nil
	}
	return r.waits, p.concludeParked(ctx, r)
}

// waited returns how long an occurrence has waited in this term. Before, no object may have been
// tried for days.
func (p *Pipeline) waited(row *outbox.Parked) time.Duration {
	age := alarm.Now(p.Clock, p.started).Sub(time.UnixMicro(row.Since))
	if p.started.IsZero() {
		return age
	}
	return min(age, p.Clock.Since(p.started))
}

// retried are the occurrences that were evaluated again, without those that still wait.
type retried struct {
	rows        []outbox.Parked
	occurrences []alarm.Occurrence
	evaluations [][]evaluation
	// waits: other occurrences of the object still wait. late are the alarms for which one
	// has waited long, and why.
	waits bool
	late  map[*match.Alarm]alarm.Unread
}

// retry evaluates occurrences that wait for the same object, in their order. After one that
// still waits, the others of the same alarm wait too. An occurrence that has waited for maxAge is
// given up. The alarm decides as it is now; without it, the occurrence is dropped.
func (m *matcher) retry(ctx context.Context, rows []outbox.Parked, waited func(*outbox.Parked) time.Duration, maxAge time.Duration) *retried {
	r := &retried{late: map[*match.Alarm]alarm.Unread{}}
	waiting := map[string]bool{}
	meters := m.newMeters(rows)
	for i := range rows {
		age := waited(&rows[i])
		if waiting[rows[i].Alarm] && age < maxAge {
			continue
		}
		var parked parkedOccurrence
		a, _ := m.alarms.withUID(rows[i].Alarm)
		if a == nil || json.Unmarshal(rows[i].Data, &parked) != nil {
			r.decided(&rows[i], &parked, nil)
			continue
		}
		evaluations, overBudget := m.evaluateAgain(ctx, a, &parked.Occurrence, meters)
		undecided := len(evaluations) > 0 && evaluations[0].outcome == match.Undecided
		if undecided && age >= reportUnreadAfter {
			r.late[a] = evaluations[0].unread
		}
		if (undecided || overBudget) && age < maxAge {
			waiting[a.UID], r.waits = true, true
			continue
		}
		r.decided(&rows[i], &parked, evaluations)
	}
	meters.charge(m)
	return r
}

// meters limit the cost of evaluating the parked occurrences of a namespace, as in a batch.
type meters struct{ ofAlarms, ofClusterAlarms *tenant }

// newMeters returns the meters for occurrences that wait for the same object.
func (m *matcher) newMeters(rows []outbox.Parked) meters {
	namespace := ""
	if len(rows) > 0 {
		namespace = rows[0].Namespace
	}
	return meters{
		ofAlarms:        &tenant{namespace: namespace, meter: match.NewMeter(m.ofAlarms.left(namespace))},
		ofClusterAlarms: &tenant{namespace: namespace, meter: match.NewMeter(m.ofClusterAlarms.left(namespace))},
	}
}

func (s meters) charge(m *matcher) {
	m.ofAlarms.charge([]*tenant{s.ofAlarms})
	m.ofClusterAlarms.charge([]*tenant{s.ofClusterAlarms})
}

// evaluateAgain returns the evaluation of one alarm, or none if it does not match. If the
// alarms are over their budget, the evaluation can be wrong.
func (m *matcher) evaluateAgain(ctx context.Context, a *match.Alarm, occ *alarm.Occurrence, meters meters) (evaluations []evaluation, overBudget bool) {
	index, meter := match.NewIndex([]*match.Alarm{a}), meters.ofAlarms.meter
	var candidates []match.Candidate
	if a.ID.Kind == alarm.KindClusterAlarm {
		meter = meters.ofClusterAlarms.meter
		candidates = index.ClusterCandidates(occ, m.namespaces, meter)
	} else {
		candidates = index.NamespacedCandidates(occ, meter)
	}
	b := m.newBatch(ctx, []alarm.Occurrence{*occ}, progress.Offsets{})
	b.evaluate(ctx, 0, candidates)
	return b.evaluations[0], meter.Exhausted()
}

func (r *retried) decided(row *outbox.Parked, parked *parkedOccurrence, evaluations []evaluation) {
	for i := range evaluations {
		evaluations[i].replayed = parked.Replayed
		keepRecipients(evaluations[i].recipients, row)
	}
	r.rows = append(r.rows, *row)
	r.occurrences = append(r.occurrences, parked.Occurrence)
	r.evaluations = append(r.evaluations, evaluations)
}

// keepRecipients replaces receivers by those that existed when the occurrence was parked.
func keepRecipients(recipients []recipient, row *outbox.Parked) {
	for id := range row.Receivers {
		for i := range recipients {
			if recipients[i].key == alarm.ReceiverKey(id) {
				recipients[i].ID, recipients[i].Since = id, time.Time{}
			}
		}
	}
}

// concludeParked decides what is sent of occurrences that no longer wait, and stores it.
func (p *Pipeline) concludeParked(ctx context.Context, r *retried) error {
	done, err := p.Outbox.BeginDecision(ctx)
	if err != nil {
		return err
	}
	defer done()
	space, err := p.Outbox.Space(ctx)
	if err != nil {
		return err
	}
	for i := range r.rows {
		space.Add(ledger.Parked, r.rows[i].Tenant, -r.rows[i].Bytes())
	}
	handled := r.handled()
	d := p.matcher.newDecision(p.Outbox, space, handled, r.evaluations)
	d.change.Unparked = r.rows
	if err := d.conclude(ctx, r.occurrences, p.Clock.Now()); err != nil {
		return err
	}
	for i := range d.change.Entries {
		e := &d.change.Entries[i]
		if position, ok := handled.Waiting[e.Receiver][e.Key]; ok {
			e.Position = position // a restore of etcd lowers it
		}
	}
	if err := p.Outbox.Commit(ctx, d.change); err != nil {
		return err
	}
	p.report(r.occurrences, d)
	return nil
}

// handled returns offsets that cover everything but the parked occurrences.
func (r *retried) handled() progress.Offsets {
	waiting := progress.Waiting{}
	for i := range r.rows {
		for receiver, key := range r.rows[i].Receivers {
			if key != "" {
				waiting.Add(receiver, key, r.rows[i].Position)
			}
		}
		for j := range r.evaluations[i] {
			r.addChosen(waiting, i, &r.evaluations[i][j])
		}
	}
	return progress.Offsets{Position: math.MaxUint64, Waiting: waiting}
}

// addChosen adds the receivers that a label chooses now. They can be others than when the occurrence was parked. It leaves
// out those to which another leader has sent it.
func (r *retried) addChosen(waiting progress.Waiting, i int, e *evaluation) {
	if e.route == nil || e.replayed {
		return
	}
	row := &r.rows[i]
	for k := range e.recipients {
		id := e.recipients[k].ID
		if key, known := row.Receivers[id]; !known || key != "" {
			waiting.Add(id, e.recipients[k].entryKey(e.alarm.UID, &r.occurrences[i]), row.Position)
		}
	}
}
