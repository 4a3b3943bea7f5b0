package pipeline

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/fields"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/objects"
)

// Alarms contains the active alarms. Controllers change them, and the pipeline uses an
// index of them. The index is rebuilt only after a change.
type Alarms struct {
	mu    sync.Mutex
	byKey map[string]activeAlarm
	index *match.Index // nil after a change
	// changed is closed at the next change.
	changed chan struct{}
	byUID   map[string]*match.Alarm // as old as index
	// inactive are the UIDs of alarms that exist and cannot be active now, by key.
	inactive map[string]string
}

// activeAlarm is a compiled alarm and its version.
type activeAlarm struct {
	version  string
	compiled *match.Alarm
}

// NewAlarms returns an empty set.
func NewAlarms() *Alarms {
	return &Alarms{byKey: map[string]activeAlarm{}, inactive: map[string]string{}, changed: make(chan struct{})}
}

// Has reports whether this version of the alarm is active. If so, it need not be
// compiled.
func (a *Alarms) Has(key, version string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.byKey[key].version == version
}

// Set adds the alarm, or replaces the one with the same key. version must not be empty,
// and must change whenever the alarm does.
func (a *Alarms) Set(key, version string, compiled *match.Alarm) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.byKey[key] = activeAlarm{version, compiled}
	delete(a.inactive, key)
	a.index = nil
	a.notifyChanged()
}

// Delete removes an alarm.
func (a *Alarms) Delete(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.remove(key, "")
}

// Deactivate removes an alarm that exists and cannot be active now. Its states that were reported are
// kept. If uid is empty, the alarm is the active one with the key.
func (a *Alarms) Deactivate(key, uid string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if active, ok := a.byKey[key]; ok && uid == "" {
		uid = active.compiled.UID
	}
	a.remove(key, cmp.Or(uid, a.inactive[key]))
}

// remove removes an alarm, and keeps the UID as inactive if it is not empty. The caller holds a.mu.
func (a *Alarms) remove(key, uid string) {
	_, active := a.byKey[key]
	if !active && a.inactive[key] == uid {
		return
	}
	delete(a.byKey, key)
	delete(a.inactive, key)
	if uid != "" {
		a.inactive[key] = uid
	}
	a.index = nil
	a.notifyChanged()
}

// Window returns the longest window of all active alarms.
func (a *Alarms) Window() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	var longest time.Duration
	for _, active := range a.byKey {
		longest = max(longest, active.compiled.Window())
	}
	return longest
}

// Index returns an index of the alarms that are active now.
func (a *Alarms) Index() *match.Index {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.build()
	return a.index
}

// withUID returns the active alarm with a UID, or nil. The alarm exists also if it is inactive.
func (a *Alarms) withUID(uid string) (active *match.Alarm, exists bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.build()
	active, exists = a.byUID[uid]
	return active, exists
}

// build builds the indexes after a change.
func (a *Alarms) build() {
	if a.index == nil {
		a.byUID = make(map[string]*match.Alarm, len(a.byKey))
		for _, uid := range a.inactive {
			a.byUID[uid] = nil
		}
		compiled := make([]*match.Alarm, 0, len(a.byKey))
		for _, key := range slices.Sorted(maps.Keys(a.byKey)) {
			active := a.byKey[key].compiled
			compiled = append(compiled, active)
			a.byUID[active.UID] = active
		}
		a.index = match.NewIndex(compiled)
	}
}

// Needs returns the fields that the active alarms need of objects.
func (a *Alarms) Needs() objects.Needs {
	a.mu.Lock()
	defer a.mu.Unlock()
	needs := objects.Needs{}
	for _, active := range a.byKey {
		for resource, shape := range active.compiled.Needs() {
			needs.Add(resource, shape, active.compiled.ID)
		}
	}
	return needs
}

// Reads returns the resources that the active alarms name in spec.readObjects.
func (a *Alarms) Reads() objects.Needs {
	a.mu.Lock()
	defer a.mu.Unlock()
	needs := objects.Needs{}
	for _, active := range a.byKey {
		for _, resource := range active.compiled.ReadObjects() {
			needs.Add(resource, fields.Shape{}, active.compiled.ID)
		}
	}
	return needs
}

// NeedsOf returns the fields that one alarm needs of objects, by resource.
func (a *Alarms) NeedsOf(key string) map[alarm.Resource]fields.Shape {
	a.mu.Lock()
	defer a.mu.Unlock()
	if active, ok := a.byKey[key]; ok {
		return active.compiled.Needs()
	}
	return nil
}

// changedAfter returns a channel that is closed when an alarm is set or deleted after this call.
func (a *Alarms) changedAfter() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changed
}

// notifyChanged closes the channel. The caller holds a.mu.
func (a *Alarms) notifyChanged() {
	close(a.changed)
	a.changed = make(chan struct{})
}

// acknowledging returns the active alarms with acknowledgements.
func (a *Alarms) acknowledging() (all []*match.Alarm) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, active := range a.byKey {
		if active.compiled.Grouping() != nil && len(active.compiled.Acknowledgements()) > 0 {
			all = append(all, active.compiled)
		}
	}
	return all
}

// statesByStream returns the states of all active alarms, and the UIDs of those that are inactive.
func (a *Alarms) statesByStream() (all map[string][]*match.State, inactive []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	all = map[string][]*match.State{}
	for _, key := range slices.Sorted(maps.Keys(a.byKey)) {
		for _, s := range a.byKey[key].compiled.States() {
			all[s.Resource.Stream()] = append(all[s.Resource.Stream()], s)
		}
	}
	return all, slices.Sorted(maps.Values(a.inactive))
}
