// Package tally counts what alarms and receivers did since they were created:
// the numbers of their status. Counting never touches the API server; the
// controllers fetch the numbers when they are told that some changed.
package counters

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// Change is what happened to one subject.
type Change struct {
	Matched, Delivered, Suppressed, Dropped, Unresolved int64
	// At is when; the zero time changes no last time.
	At time.Time
}

// Tally holds the counts of every subject. A subject is the key of an alarm or a
// receiver.
type Counters struct {
	mu       sync.Mutex
	subjects map[string]*subjectCounts
	changed  map[string]struct{}
}

type subjectCounts struct {
	// uid is that of the object that is counted for; empty until it is known.
	uid   types.UID
	total Change
	// base is what the status said when this process first saw the subject.
	base                        *v1alpha1.AlarmStatus
	lastMatchAt, lastDeliveryAt time.Time
	// notices by reason.
	notices map[string]Notice
}

// New returns an empty Tally.
func New() *Counters {
	return &Counters{subjects: map[string]*subjectCounts{}, changed: map[string]struct{}{}}
}

// Add counts a change of a subject.
func (t *Counters) Add(subject string, c Change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.subject(subject)
	s.total.Matched += c.Matched
	s.total.Delivered += c.Delivered
	s.total.Suppressed += c.Suppressed
	s.total.Dropped += c.Dropped
	s.total.Unresolved += c.Unresolved
	if c.Matched > 0 {
		s.lastMatchAt = later(s.lastMatchAt, c.At)
	}
	if c.Delivered > 0 {
		s.lastDeliveryAt = later(s.lastDeliveryAt, c.At)
	}
	t.changed[subject] = struct{}{}
}

// Apply sets the counts of status: those it carried when the object was first
// seen, which a former process counted, and those counted here. An object of
// another UID than the last one is a new one of the same name, and begins anew.
func (t *Counters) Apply(subject string, uid types.UID, status *v1alpha1.AlarmStatus) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.subject(subject); s.uid != "" && s.uid != uid {
		delete(t.subjects, subject)
	}
	s := t.subject(subject)
	s.uid = uid
	if s.base == nil {
		s.base = status.DeepCopy()
	}
	status.Matched = s.base.Matched + s.total.Matched
	status.Delivered = s.base.Delivered + s.total.Delivered
	status.Suppressed = s.base.Suppressed + s.total.Suppressed
	status.Dropped = s.base.Dropped + s.total.Dropped
	status.Unresolved = s.base.Unresolved + s.total.Unresolved
	status.LastMatchTime = latest(s.base.LastMatchTime, s.lastMatchAt)
	status.LastDeliveryTime = latest(s.base.LastDeliveryTime, s.lastDeliveryAt)
}

// Forget drops a subject that was deleted.
func (t *Counters) Forget(subject string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.subjects, subject)
	delete(t.changed, subject)
}

// TakeDirty returns the subjects that changed since the last call.
func (t *Counters) takeChanged() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	subjects := make([]string, 0, len(t.changed))
	for s := range t.changed {
		subjects = append(subjects, s)
	}
	clear(t.changed)
	return subjects
}

func (t *Counters) subject(name string) *subjectCounts {
	s, ok := t.subjects[name]
	if !ok {
		s = &subjectCounts{}
		t.subjects[name] = s
	}
	return s
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func latest(base *metav1.Time, at time.Time) *metav1.Time {
	at = at.Truncate(time.Second)
	if at.IsZero() || (base != nil && !at.After(base.Time)) {
		return base
	}
	t := metav1.NewTime(at)
	return &t
}
