package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/fields"
	"github.com/bongsu-io/bongsu/internal/alarm/lasting"
	"github.com/bongsu-io/bongsu/internal/alarm/ledger"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/objects"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
)

// Reasons of the Events that describe states.
const (
	reasonStateBegan = "StateBegan"
	reasonStateEnded = "StateEnded"
)

// lastingData is what the outbox contains about a state that was reported, for its end.
type lastingData struct {
	Regarding alarm.Reference    `json:"regarding"`
	By        []alarm.GroupValue `json:"by,omitempty"`
	// Handled says which receivers got the report from another leader.
	Handled *progress.Offsets `json:"handled,omitempty"`
	// Chosen are the keys of the receivers of the report that a label chose.
	Chosen []string `json:"chosen,omitempty"`
}

// stateStep is what an evaluation of states changes. It has no effect before it is committed.
type stateStep struct {
	p     *Pipeline
	index *match.Index
	now   time.Time
	// stream and position say where the objects were read.
	stream   string
	position uint64
	// filters are by the text of the shape of a baseline.
	filters map[string]*fields.Filter
	// walk selects objects and states. Nil selects all, and due only states that can be reported.
	walk *walk
	due  bool
	// left is where tenants must continue, because their budget is exhausted. full are tenants with a
	// state that has no space. unread: labels or the number of Nodes are not known.
	left   map[tenantID]place
	full   map[tenantID]bool
	unread bool

	occurrences []alarm.Occurrence
	evaluations [][]evaluation
	put         map[outbox.LastingKey]*outbox.Lasting
	deleted     map[outbox.LastingKey]bool
	// reported are the keys of the rows that are reported, by the index of the occurrence.
	reported map[int]outbox.LastingKey
	// inGroup is the difference in the number of reported states of a group.
	inGroup map[string]int64
	// space includes what begins.
	space *ledger.Ledger
	// failed are the failures of expressions, and tenants the costs.
	failed  map[*match.Alarm]error
	tenants map[tenantID]*tenant
	// undecided: the labels of a namespace that a message needs are not known.
	undecided bool
}

func (p *Pipeline) newStateStep(stream string, position uint64, space *ledger.Ledger) *stateStep {
	return &stateStep{
		p: p, index: p.Alarms.Index(), now: p.Clock.Now(), stream: stream, position: position, filters: map[string]*fields.Filter{},
		put: map[outbox.LastingKey]*outbox.Lasting{}, deleted: map[outbox.LastingKey]bool{}, reported: map[int]outbox.LastingKey{}, inGroup: map[string]int64{}, space: space,
		failed: map[*match.Alarm]error{}, tenants: map[tenantID]*tenant{}, left: map[tenantID]place{}, full: map[tenantID]bool{},
	}
}

// meter returns the budget of a tenant.
func (st *stateStep) meter(id tenantID) *match.Meter {
	if st.tenants[id] == nil {
		st.tenants[id] = &tenant{namespace: id.namespace, meter: match.NewMeter(st.limit(id))}
	}
	return st.tenants[id].meter
}

const (
	// lowCostOfStates is what a namespace can always cost, after others have reached the total cost
	// of a batch.
	lowCostOfStates = totalCostPerBatch / 100
	// eventReserve is what a walk leaves for Events. An Event over the budget is lost, and a state
	// is late.
	eventReserve = costPerBatch
)

// limit returns what a tenant can cost. Objects that change wait for a pass that is not complete. They
// would otherwise use what the pass needs to reach the others.
func (st *stateStep) limit(id tenantID) int64 {
	b := st.p.matcher.budgetOfKind(id.kind)
	switch {
	case st.walk != nil:
		return b.leftAbove(id.namespace, eventReserve)
	case !st.due && st.p.states.isPending(st.stream, id):
		return 0
	case totalSpent(st.allTenants()) >= totalCostPerBatch:
		return min(b.left(id.namespace), lowCostOfStates)
	}
	return b.left(id.namespace)
}

func (st *stateStep) allTenants() []*tenant { return slices.Collect(maps.Values(st.tenants)) }

// charge charges the costs.
func (st *stateStep) charge() {
	for id, l := range st.tenants {
		st.p.matcher.budgetOfKind(id.kind).charge([]*tenant{l})
	}
}

func statesOnly(alarms []*match.Alarm) []*match.Alarm {
	return slices.DeleteFunc(slices.Clone(alarms), func(a *match.Alarm) bool { return len(a.States()) == 0 })
}

// object evaluates the states of an object, from its baseline.
func (st *stateStep) object(ctx context.Context, b *outbox.Baseline) error {
	states := st.index.States(st.stream, b.Namespace)
	if st.walk != nil {
		states = st.walk.selected(states, b)
	}
	if st.walk != nil && len(states) == 0 {
		return nil
	}
	stored, err := st.p.Outbox.States.Of(ctx, st.stream, b.UID)
	if err != nil || len(states)+len(stored) == 0 {
		return err
	}
	if st.due {
		if states = st.dueOf(states, stored); len(states) == 0 {
			return nil
		}
	}
	return st.evaluateAll(ctx, b, states, stored)
}

// evaluateAll evaluates states of an object. stored are its states that hold.
func (st *stateStep) evaluateAll(ctx context.Context, b *outbox.Baseline, states []*match.State, stored []outbox.Lasting) error {
	if len(states) > 0 && !st.canDecode(states, b) {
		return nil // its state is unknown
	}
	content, kept, ok := st.decode(b)
	if !ok {
		return nil // its state is unknown
	}
	known := st.known(ctx, content)
	for _, s := range states {
		row := takeRow(&stored, s)
		if !s.KnownIn(kept) {
			continue
		}
		if err := st.evaluate(ctx, s, row, b, content, known); err != nil {
			return err
		}
	}
	if st.walk != nil || st.due {
		return nil
	}
	return st.orphans(ctx, stored, known)
}

// dueOf returns the states that can be reported now.
func (st *stateStep) dueOf(states []*match.State, stored []outbox.Lasting) []*match.State {
	return slices.DeleteFunc(slices.Clone(states), func(s *match.State) bool {
		row := takeRow(&stored, s)
		return row == nil || row.Due.IsZero() || row.Due.After(st.now)
	})
}

// canDecode reports whether a state has budget left. A tenant chooses the size of objects, and many
// large ones use little space on the disk.
func (st *stateStep) canDecode(states []*match.State, b *outbox.Baseline) (can bool) {
	for _, s := range states {
		if st.meter(tenantOf(s, b.Namespace)).Exhausted() {
			st.leave(s, b)
		} else {
			can = true
		}
	}
	return can
}

// leave remembers that the tenant of a state must continue with it.
func (st *stateStep) leave(s *match.State, b *outbox.Baseline) {
	tenant := tenantOf(s, b.Namespace)
	if _, ok := st.left[tenant]; !ok {
		st.left[tenant] = place{object: b.ID, state: s}
	}
}

// bytesPerDecodeUnit is the size of an object that is decoded in one unit.
const bytesPerDecodeUnit = 16

// billDecode charges the namespace for an object of a size, for each kind of alarms.
func (st *stateStep) billDecode(namespace string, size int) {
	for _, kind := range []string{alarm.KindAlarm, alarm.KindClusterAlarm} {
		if l := st.tenants[tenantID{kind, namespace}]; l != nil {
			l.meter.Spend(int64(size) / bytesPerDecodeUnit)
		}
	}
}

// decode returns the content of a baseline. It is false if that had no space.
func (st *stateStep) decode(b *outbox.Baseline) (content map[string]any, kept *fields.Filter, ok bool) {
	if len(b.Data) == 0 {
		return nil, nil, false
	}
	content, size, err := fields.DecodeSized(b.Data)
	st.billDecode(b.Namespace, size)
	if kept = st.filters[b.Shape]; kept == nil && err == nil {
		var shape fields.Shape
		shape, err = fields.ParseShape(b.Shape)
		kept = fields.NewFilter(shape)
		st.filters[b.Shape] = kept
	}
	if err != nil {
		st.p.Log.Error(err, "the states of an object cannot be evaluated", "resource", st.stream, "uid", b.UID)
	}
	return content, kept, err == nil
}

// known returns the context of an object. content is nil if it is gone.
func (st *stateStep) known(ctx context.Context, content map[string]any) *alarm.Context {
	known := st.p.Enricher.Context(ctx, &alarm.Event{}) // which regards nothing: it reads no object
	known.Object, known.Resolved, known.ObjectUnread = alarm.Describe(content), content != nil, ""
	return &known
}

// takeRow removes the row of a state from rows, and returns it.
func takeRow(rows *[]outbox.Lasting, s *match.State) *outbox.Lasting {
	i := slices.IndexFunc(*rows, func(l outbox.Lasting) bool { return l.Alarm == s.Alarm.UID && l.State == s.ID })
	if i < 0 {
		return nil
	}
	row := (*rows)[i]
	*rows = slices.Delete(slices.Clone(*rows), i, i+1)
	return &row
}

// evaluate evaluates one state of an object.
func (st *stateStep) evaluate(ctx context.Context, s *match.State, row *outbox.Lasting, b *outbox.Baseline, content map[string]any, known *alarm.Context) error {
	meter := st.meter(tenantOf(s, b.Namespace))
	holds, err := s.Holds(ctx, content, known, st.p.Namespaces, st.now, meter)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		st.failed[s.Alarm] = err
	}
	if holds == match.Unknown {
		st.unknown(s, b, meter)
	}
	if row != nil && row.Restored && holds != match.Unknown {
		st.report(ctx, s.Alarm, s.Note(false), row, known, meter)
	}
	var before *lasting.State
	if row != nil {
		before = &lasting.State{Since: row.Since, Fired: row.Fired}
		if row.Fired {
			before.Ends = row.Due
		}
	}
	after, step := lasting.Next(before, holds, st.now, lasting.Rule{For: s.For, End: s.End, Muted: s.Alarm.Muted(st.now)})
	switch step {
	case lasting.Store, lasting.Fire:
		return st.store(ctx, s, row, b.UID, after, known, meter)
	case lasting.Forget:
		st.remove(row)
	case lasting.End:
		return st.end(ctx, s.Alarm, s.Note(true), row, known, meter)
	case lasting.Keep:
		if row != nil && !after.Fired && !row.Due.Equal(after.Due(s.For).Truncate(time.Microsecond)) { // forSeconds was edited
			return st.store(ctx, s, row, b.UID, after, known, meter)
		}
	}
	return nil
}

// unknown remembers that a state must be evaluated again.
func (st *stateStep) unknown(s *match.State, b *outbox.Baseline, meter *match.Meter) {
	if meter.Exhausted() {
		st.leave(s, b)
	} else {
		st.unread = true
	}
}

// store stores a state, and reports it if it has lasted. A new one without space is
// not stored: it begins when there is space.
func (st *stateStep) store(ctx context.Context, s *match.State, row *outbox.Lasting, uid string, after lasting.State, known *alarm.Context, meter *match.Meter) error {
	if row != nil && row.Fired {
		row.Due = after.Ends
		st.put[row.LastingKey] = row
		return nil
	}
	object := &known.Object
	next := outbox.Lasting{
		LastingKey: outbox.LastingKey{Stream: st.stream, UID: uid, Alarm: s.Alarm.UID, State: s.ID},
		Namespace:  object.Metadata.Namespace, Since: after.Since, Due: after.Due(s.For), Position: st.position,
	}
	data := lastingData{Regarding: alarm.Reference{
		APIVersion: object.APIVersion, Kind: object.Kind, Namespace: object.Metadata.Namespace, Name: object.Metadata.Name, UID: uid,
	}}
	if next.Data, _ = json.Marshal(data); row == nil { // texts have a JSON form
		if !st.reserve(s, &next) {
			return nil
		}
	}
	if after.Fired {
		next.Due, next.Fired = time.Time{}, true
		st.report(ctx, s.Alarm, s.Note(false), &next, known, meter)
		return nil
	}
	st.put[next.LastingKey] = &next
	return nil
}

// groupBytes is the space for the group of a state that is reported.
const groupBytes = 1 << 10

// leftByAlarms: states of Alarms leave a quarter of the space of a namespace to those of ClusterAlarms.
const leftByAlarms = 4

// fitsState reports whether there is space for one more state, of so many bytes.
func fitsState(space *ledger.Ledger, of tenantID, bytes int64) bool {
	leave := int64(leftByAlarms)
	if of.kind == alarm.KindClusterAlarm {
		leave = 0
	}
	return space.Fits(ledger.States, of.namespace, 1, leave) && space.Fits(ledger.Objects, of.namespace, bytes, leave)
}

// reserve reports whether there is space for a new state.
func (st *stateStep) reserve(s *match.State, next *outbox.Lasting) bool {
	namespace, size := next.Namespace, outbox.LastingBytes(next)+groupBytes
	if !fitsState(st.space, tenantOf(s, namespace), size) {
		st.failed[s.Alarm] = &match.OverBudgetError{Kind: s.Alarm.ID.Kind, Namespace: namespace, States: true}
		st.full[tenantOf(s, namespace)] = true
		return false
	}
	st.space.Add(ledger.States, namespace, 1)
	st.space.Add(ledger.Objects, namespace, size)
	return true
}

// report adds the occurrence of a state that has lasted. finish completes its row.
func (st *stateStep) report(ctx context.Context, a *match.Alarm, note string, row *outbox.Lasting, known *alarm.Context, meter *match.Meter) {
	data := dataOf(row)
	occ := st.occurrence(row, data, reasonStateBegan, "Warning", note)
	e := st.render(ctx, a, &occ, known, meter)
	e.by, e.handled = a.Grouping().Values(&occ.Event, &known.Object), &progress.Offsets{}
	e.lacks = a.Grouping().Lacks(&occ.Event, &known.Object)
	if row.Restored {
		e.by, e.handled, e.replayed = data.By, data.Handled, true
		st.p.matcher.restore(&e, data.Chosen)
	} else {
		st.inGroup[alarm.GroupKey(a.UID, e.by...)]++
	}
	row.Restored = false
	st.reported[len(st.occurrences)] = row.LastingKey
	st.occurrences, st.evaluations = append(st.occurrences, occ), append(st.evaluations, []evaluation{e})
	st.put[row.LastingKey] = row
}

func dataOf(row *outbox.Lasting) *lastingData {
	var data lastingData
	_ = json.Unmarshal(row.Data, &data) // it is our own
	if data.Handled == nil {
		data.Handled = &progress.Offsets{}
	}
	return &data
}

// occurrence returns the occurrence of the begin or the end of a state.
func (st *stateStep) occurrence(row *outbox.Lasting, data *lastingData, reason, kind, note string) alarm.Occurrence {
	at := st.now.UTC().Truncate(time.Second)
	regarding := data.Regarding
	return alarm.Occurrence{
		Event: alarm.Event{
			Namespace: regarding.Namespace, Name: regarding.Name,
			UID:  stateUID(row, reason),
			Type: kind, Reason: reason, Note: note, Count: 1, FirstSeen: row.Since, LastSeen: at, Regarding: regarding,
		},
		Increase: 1, Position: row.Position, ObservedAt: at,
	}
}

// stateUID is part of the keys of the messages about a state.
func stateUID(row *outbox.Lasting, reason string) string {
	return fmt.Sprintf("%s/%s/%d/%s", row.UID, row.State, row.Since.UnixMicro(), reason)
}

// render returns an evaluation with a message.
func (st *stateStep) render(ctx context.Context, a *match.Alarm, occ *alarm.Occurrence, known *alarm.Context, meter *match.Meter) evaluation {
	e := evaluation{alarm: a, outcome: match.Matched, lasts: true}
	e.message, e.err = match.CandidateOf(a, occ, meter).Render(ctx, known)
	st.p.matcher.address(&e, occ, known)
	st.undecided = st.undecided || e.outcome == match.Undecided
	return e
}

func (st *stateStep) remove(row *outbox.Lasting) {
	delete(st.put, row.LastingKey)
	st.deleted[row.LastingKey] = true
}

// end removes a state that was reported. If it was the last one of its group, it resolves the
// group.
func (st *stateStep) end(ctx context.Context, a *match.Alarm, note string, row *outbox.Lasting, known *alarm.Context, meter *match.Meter) error {
	st.remove(row)
	others, err := st.p.Outbox.States.InGroup(ctx, row.Group)
	if err != nil {
		return err
	}
	st.inGroup[row.Group]--
	data := dataOf(row)
	if others+st.inGroup[row.Group] > 0 || len(data.By) == 0 { // a group of everything is never resolved
		return nil
	}
	if !known.Resolved {
		known.Object = alarm.Object{APIVersion: data.Regarding.APIVersion, Kind: data.Regarding.Kind, Metadata: alarm.ObjectMeta{
			Namespace: data.Regarding.Namespace, Name: data.Regarding.Name, UID: data.Regarding.UID,
		}}
	}
	occ := st.occurrence(row, data, reasonStateEnded, "Normal", note)
	occ.Position = st.position
	e := st.render(ctx, a, &occ, known, meter)
	e.resolves, e.by, e.handled = true, data.By, &progress.Offsets{}
	st.occurrences, st.evaluations = append(st.occurrences, occ), append(st.evaluations, []evaluation{e})
	return nil
}

// orphans ends states that no alarm selects any more. Those of alarms that are neither active nor
// inactive are removed without a message.
func (st *stateStep) orphans(ctx context.Context, rows []outbox.Lasting, known *alarm.Context) error {
	for i := range rows {
		if err := st.ended(ctx, &rows[i], noteUnselected, known); err != nil {
			return err
		}
	}
	return nil
}

const (
	noteUnselected = "the alarm no longer selects it"
	noteDeleted    = "the object was deleted"
)

// ended ends a state for another reason than its expression.
func (st *stateStep) ended(ctx context.Context, row *outbox.Lasting, note string, known *alarm.Context) error {
	if st.deleted[row.LastingKey] {
		return nil
	}
	a, exists := st.p.Alarms.withUID(row.Alarm)
	if a == nil && exists && row.Fired { // it is inactive
		return nil
	}
	if a == nil || a.Grouping() == nil || !row.Fired {
		st.remove(row)
		return nil
	}
	if row.Restored {
		st.report(ctx, a, note, row, known, nil)
	}
	return st.end(ctx, a, note, row, known, nil)
}

// gone ends the states of an object that does not exist any more.
func (st *stateStep) gone(ctx context.Context, uid string) error {
	rows, err := st.p.Outbox.States.Of(ctx, st.stream, uid)
	if len(rows) == 0 || err != nil {
		return err
	}
	last, err := st.p.Outbox.Streams.BaselineData(ctx, st.stream, []string{uid})
	if err != nil {
		return err
	}
	b := last[uid]
	content, _, _ := st.decode(&b)
	for i := range rows {
		if err := st.ended(ctx, &rows[i], noteDeleted, st.known(ctx, content)); err != nil {
			return err
		}
	}
	return nil
}

// empty reports whether nothing changes.
func (st *stateStep) empty() bool { return len(st.put)+len(st.deleted) == 0 }

// rowChanges returns what is stored, after the decision about the evaluations. A group beyond a
// limit is another one than that of the object.
func (st *stateStep) rowChanges(evaluations [][]evaluation) outbox.LastingChanges {
	for i, key := range st.reported {
		row := st.put[key]
		if row == nil || len(evaluations[i]) == 0 {
			continue
		}
		e := &evaluations[i][0]
		data := dataOf(row)
		data.By, data.Handled, data.Chosen = e.by, nil, e.chosenKeys()
		row.Group = alarm.GroupKey(e.alarm.UID, e.by...)
		row.Data, _ = json.Marshal(data) // texts have a JSON form
	}
	var changes outbox.LastingChanges
	for _, row := range st.put {
		changes.Put = append(changes.Put, *row)
	}
	for key := range st.deleted {
		changes.Delete = append(changes.Delete, key)
	}
	return changes
}

// wakeSweep wakes the sweep for the states that began.
func (st *stateStep) wakeSweep() {
	for _, row := range st.put {
		if !row.Due.IsZero() {
			st.p.states.dueAt(row.Due)
		}
	}
}

// finish remembers what must be evaluated later, and reports failures of expressions and states
// without space. It is called when the step is committed.
func (st *stateStep) finish() {
	switch {
	case st.walk != nil:
		st.walk.leave(st.left, st.now)
	case !st.due:
		st.p.states.addChanged(st.stream, st.left, st.now)
		st.wakeSweep()
	}
	st.p.states.addUnknown(st.stream, st.full, st.unread)
	for a, err := range st.failed {
		st.p.Reporter.Evaluated(a.ID, match.Failed, err, 0)
	}
}

// statesOf evaluates the states of the objects that a batch changes. While the stream is not
// current, it leaves that to the sweep, which evaluates all objects.
func (p *Pipeline) statesOf(ctx context.Context, b *objects.Batch, space *ledger.Ledger) (*stateStep, error) {
	st := p.newStateStep(b.Stream.Name, b.Stream.Position, space)
	if !st.index.HasStates(b.Stream.Name) {
		return st, nil
	}
	if !p.isCurrent(&b.Stream) {
		p.states.addWhole(b.Stream.Name, allStates)
		return st, nil
	}
	p.states.current(b.Stream.Name, st.now)
	for i := range b.Put {
		if err := st.object(ctx, &b.Put[i]); err != nil {
			return nil, err
		}
	}
	for _, uid := range b.Delete {
		if err := st.gone(ctx, uid); err != nil {
			return nil, err
		}
	}
	if st.undecided {
		return nil, errUndecided
	}
	return st, nil
}

// currentFor is how long a stream counts as current after its last change or bookmark. The API
// server sends a bookmark every minute.
const currentFor = 3 * time.Minute

// isCurrent reports whether the baselines of a stream show the objects as they are now. They do
// not during a replay, and after a start until the API server has sent what happened before.
func (p *Pipeline) isCurrent(s *outbox.Stream) bool {
	started := alarm.Began(p.Clock, p.started).Truncate(time.Second) // as the times of streams
	return s.Complete && s.Position >= s.Delivered.Position && !s.Time.Before(started) && p.Clock.Now().Sub(s.Time) < currentFor
}
