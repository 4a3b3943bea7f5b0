package pipeline

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/match"
)

// Alarms are the compiled alarms in force. The controllers change them; matching
// takes an index of them, which is made anew only after a change.
type Alarms struct {
	mu    sync.Mutex
	byKey map[string]activeAlarm
	index *match.Index // nil after a change
}

// inForce is an alarm and what it was compiled from.
type activeAlarm struct {
	version  string
	compiled *match.Alarm
}

// NewAlarms returns an empty set.
func NewAlarms() *Alarms {
	return &Alarms{byKey: map[string]activeAlarm{}}
}

// Has says whether the alarm of that key is in force in that version: then there
// is nothing to compile, and no index to make anew.
func (a *Alarms) Has(key, version string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.byKey[key].version == version
}

// Set puts an alarm in force, in place of the former one of that key. version is
// not empty and changes whenever the alarm does.
func (a *Alarms) Set(key, version string, compiled *match.Alarm) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.byKey[key] = activeAlarm{version, compiled}
	a.index = nil
}

// Delete takes an alarm out of force.
func (a *Alarms) Delete(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.byKey[key]; ok {
		delete(a.byKey, key)
		a.index = nil
	}
}

// Window returns the longest that an alarm in force looks back.
func (a *Alarms) Window() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	var longest time.Duration
	for _, alarm := range a.byKey {
		longest = max(longest, alarm.compiled.Window())
	}
	return longest
}

// Index returns an index of the alarms as they are now.
func (a *Alarms) Index() *match.Index {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.index == nil {
		compiled := make([]*match.Alarm, 0, len(a.byKey))
		for _, key := range slices.Sorted(maps.Keys(a.byKey)) {
			compiled = append(compiled, a.byKey[key].compiled)
		}
		a.index = match.NewIndex(compiled)
	}
	return a.index
}
