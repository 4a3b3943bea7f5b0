package objects

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/fields"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// Limits of texts that an API server can send, in bytes.
const (
	maxName = 253
	maxWord = 128
)

// decode decodes an object of the stream.
func (w *watcher) decode(raw []byte) (*object, error) {
	return decodeObject(raw, w.apiVersion(), w.kind.Kind, w.onlyMetadata)
}

// state is what is kept of an object. filter and content are nil if no alarm needs it.
type state struct {
	namespace string
	filter    *fields.Filter
	content   map[string]any
	digest    [16]byte
}

func (w *watcher) project(o *object) (*state, error) {
	namespace := metadata(o.content, "namespace")
	s := &state{namespace: namespace, filter: w.shapes.of(namespace)}
	if s.filter == nil {
		return s, nil
	}
	s.content = s.filter.Project(o.content)
	var err error
	s.digest, err = s.filter.Digest(s.content)
	return s, err
}

// observe processes an object that was added or changed, or that a list contains. quiet is true
// if it becomes the baseline without a change.
func (w *watcher) observe(ctx context.Context, raw []byte, quiet bool) error {
	o, err := w.decode(raw)
	if err != nil {
		return w.skip(err)
	}
	s, err := w.project(o)
	if err != nil {
		return w.skip(err)
	}
	before, remembered := w.lookup(o.uid)
	switch {
	case remembered && before == s.digest:
		w.known.List(o.uid)
	case remembered && !quiet:
		err = w.update(ctx, o, s)
	default:
		if !quiet && s.filter != nil && !slices.Contains(w.row.Omitted, s.namespace) {
			w.record(o, alarm.Create, s, nil, s.filter)
		}
		err = w.put(o.uid, s)
	}
	if err != nil {
		return err
	}
	w.advance(o.position)
	return w.flushFull(ctx)
}

// update compares an object with its baseline, in the fields that both shapes contain.
func (w *watcher) update(ctx context.Context, o *object, s *state) error {
	if s.filter == nil {
		return w.put(o.uid, s)
	}
	old, filter, err := w.baseline(ctx, o.uid, s.filter)
	if err != nil {
		return err
	}
	if old == nil {
		return w.put(o.uid, s)
	}
	changed, err := differ(old, s.content, filter, s.filter)
	if err != nil {
		return err
	}
	if changed {
		w.record(o, alarm.Update, s, old, filter)
	}
	return w.put(o.uid, s)
}

// baseline returns the last known content of an object and its shape, which is often present.
// The content is nil if it had no space in the store, or if no alarm needed it.
func (w *watcher) baseline(ctx context.Context, uid string, present *fields.Filter) (content map[string]any, filter *fields.Filter, err error) {
	base, found := w.batch.put[uid]
	if !found {
		stored, err := w.source.store.BaselineData(ctx, w.stream(), []string{uid})
		if err != nil {
			return nil, nil, err
		}
		base = stored[uid]
	}
	if len(base.Data) == 0 {
		w.source.log.V(1).Info("The former state of an object is unknown, because it had no space or was not needed", "resource", w.stream(), "uid", uid)
		return nil, nil, nil
	}
	content, err = fields.Decode(base.Data)
	if filter = present; err == nil && (present == nil || base.Shape != present.String()) {
		var shape fields.Shape
		shape, err = fields.ParseShape(base.Shape)
		filter = fields.NewFilter(shape)
	}
	if err != nil { // not even a defect of ours must stop the changes of all other objects
		w.source.log.Error(err, "The former state of an object cannot be read", "resource", w.stream(), "uid", uid)
		return nil, nil, nil
	}
	w.batch.bytes += len(base.Data)
	return content, filter, nil
}

// differ reports whether two states of an object differ in the fields that both shapes contain.
// Also states of the same shape are projected: an earlier version of the operator can have kept
// other fields.
func differ(old, after map[string]any, oldFilter, filter *fields.Filter) (bool, error) {
	before, err := fields.Digest(filter.Project(old))
	if err != nil {
		return false, err
	}
	now, err := fields.Digest(oldFilter.Project(after))
	return before != now, err
}

// removed processes an object that a watch reports as deleted.
func (w *watcher) removed(ctx context.Context, raw []byte) error {
	o, err := w.decode(raw)
	if err != nil {
		return w.skip(err)
	}
	if _, remembered := w.lookup(o.uid); remembered {
		if filter := w.shapes.of(metadata(o.content, "namespace")); filter != nil {
			w.recordDelete(filter.Project(o.content), o.position, w.deletedAt(o), filter)
			w.batch.bytes += o.size
		}
		w.batch.remove(o.uid, w.source.clock.Now())
	}
	w.advance(o.position)
	return w.flushFull(ctx)
}

// gone processes an object that a list does not contain.
func (w *watcher) gone(ctx context.Context, uid string, position uint64) error {
	last, filter, err := w.baseline(ctx, uid, nil)
	if err != nil {
		return err
	}
	if last != nil {
		w.recordDelete(last, position, w.source.clock.Now(), filter)
	}
	w.batch.remove(uid, w.source.clock.Now())
	return w.flushFull(ctx)
}

// put adds a new baseline to the batch. It has no data if no alarm needs the object.
func (w *watcher) put(uid string, s *state) error {
	base := outbox.Baseline{UID: uid, Namespace: s.namespace, Digest: s.digest}
	if s.filter != nil {
		data, err := fields.Encode(s.content)
		if err != nil && !errors.Is(err, fields.ErrTooLarge) { // too large: it is kept without data
			return err
		}
		base.Shape, base.Data = s.filter.String(), data
	}
	w.batch.store(base, w.source.clock.Now())
	return nil
}

// record adds the change of an object. oldFilter is the filter of old, or of the object.
func (w *watcher) record(o *object, operation alarm.Operation, s *state, old map[string]any, oldFilter *fields.Filter) {
	c := alarm.Change{Operation: operation, Object: s.content, Old: old, Size: 2 * int64(o.size), Known: inBoth(s.filter, oldFilter)}
	var at time.Time
	if c.Manager, at = writeOf(o.written(), &c, oldFilter, s.filter); at.IsZero() {
		at = w.source.clock.Now()
	}
	w.add(c, o.position, w.limit(at))
	w.batch.bytes += 2 * o.size
}

// recordDelete adds the deletion of an object.
func (w *watcher) recordDelete(last map[string]any, position uint64, at time.Time, filter *fields.Filter) {
	c := alarm.Change{Operation: alarm.Delete, Object: last, Known: inBoth(filter, filter)}
	w.add(c, position, w.limit(at))
}

// inBoth returns a function that reports whether both shapes contain a path.
func inBoth(a, b *fields.Filter) func(path string) bool {
	return func(path string) bool {
		p, err := fields.Parse(path)
		return err == nil && a.Includes(p) && b.Includes(p)
	}
}

// eventReasons are the reasons of the Events that describe changes.
var eventReasons = map[alarm.Operation]string{alarm.Create: "Created", alarm.Update: "Updated", alarm.Delete: "Deleted"}

// add adds a change to the batch.
func (w *watcher) add(c alarm.Change, position uint64, at time.Time) {
	c.Resource = w.resource
	c.Resource.Version = w.kind.Version
	kind := schema.GroupVersionKind{Group: w.resource.Group, Version: w.kind.Version, Kind: w.kind.Kind}
	w.batch.changes = append(w.batch.changes, occurrenceOf(&c, kind, position, at))
	w.batch.add(0, w.source.clock.Now())
	if !w.listing {
		w.row.Time = at
	}
}

// occurrenceOf returns the occurrence of a change, with an Event that describes it.
func occurrenceOf(c *alarm.Change, kind schema.GroupVersionKind, position uint64, at time.Time) alarm.Occurrence {
	regarding := alarm.Reference{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Kind,
		Namespace: metadata(c.Object, "namespace"), Name: metadata(c.Object, "name"), UID: metadata(c.Object, "uid"),
	}
	return alarm.Occurrence{
		Event: alarm.Event{
			Namespace: regarding.Namespace, Name: regarding.Name, UID: regarding.UID,
			Type: "Normal", Reason: eventReasons[c.Operation], Action: string(c.Operation),
			Count: 1, FirstSeen: at, LastSeen: at,
			Regarding: regarding, ReportingController: c.Manager,
		},
		Increase: 1, Position: position, ObservedAt: at, Change: c,
	}
}

// metadata returns a text of the metadata of an object.
func metadata(object map[string]any, field string) string {
	meta, _ := object["metadata"].(map[string]any)
	text, _ := meta[field].(string)
	return plaintext.Cut(text, maxName)
}

// limit returns a time of managedFields in whole seconds, limited by the last time at which
// the stream was current, and by now. Now comes last: the clock can have been set back.
func (w *watcher) limit(at time.Time) time.Time {
	at = alarm.Later(at, w.row.Time)
	if now := w.source.clock.Now(); at.After(now) {
		at = now
	}
	return at.UTC().Truncate(time.Second)
}

// deletedAt returns the time of a deletion.
func (w *watcher) deletedAt(o *object) time.Time {
	if !o.deleted.IsZero() {
		return o.deleted
	}
	return w.source.clock.Now()
}

// advance moves the position past an object of a watch.
func (w *watcher) advance(position uint64) {
	if !w.listing {
		w.moved(position, w.row.Time)
	}
}

// moved records that the stream was current at a position and a time.
func (w *watcher) moved(position uint64, at time.Time) {
	w.row.Position, w.row.Time = max(w.row.Position, position), at
	w.batch.moved = true
}

// skip leaves out an object that cannot be decoded, so that others are not delayed.
func (w *watcher) skip(err error) error {
	w.source.log.Error(err, "An object could not be understood and is left out", "resource", w.stream())
	return nil
}

// writeOf returns who made a change, and when. Both are zero if they are unknown. object has its
// managedFields. The filters belong to the former and the present state.
func writeOf(object map[string]any, c *alarm.Change, former, present *fields.Filter) (manager string, at time.Time) {
	if c.Old == nil {
		manager, at = fields.LastWrite(object)
	} else {
		before, after := present.Project(c.Old), former.Project(c.Object)
		found, _ := fields.Differences(before, after, []fields.Path{{}}, maxDifferences)
		manager, at = fields.WriteOf(object, found)
	}
	return plaintext.Cut(manager, maxWord), at
}

// maxDifferences limits the fields for which the writer of a change is searched.
const maxDifferences = 100
