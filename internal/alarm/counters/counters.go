// Package counters counts what alarms and receivers did since they were created. These
// are the numbers in their status. It also keeps the notices that become Events. It makes
// no requests: the status recorders of the controllers read the numbers after a change.
package counters

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// Change is what happened to one subject.
type Change struct {
	Matched, Delivered, Suppressed, Dropped, Unresolved int64
	// At is the time of the change. The zero time changes neither LastMatchTime nor
	// LastDeliveryTime.
	At time.Time
}

// Counters has the counts and notices of every subject. A subject is the key of an alarm
// or a receiver.
type Counters struct {
	mu       sync.Mutex
	subjects map[string]*subjectCounts
	changed  map[string]struct{}
}

type subjectCounts struct {
	// uid is the UID of the object; empty until it is known.
	uid   types.UID
	total Change
	// base is the status that this process read first.
	base                        *v1alpha1.AlarmStatus
	lastMatchAt, lastDeliveryAt time.Time
	// notices by reason.
	notices map[string]Notice
}

// New returns empty Counters.
func New() *Counters {
	return &Counters{subjects: map[string]*subjectCounts{}, changed: map[string]struct{}{}}
}

// Add counts a change of a subject.
func (c *Counters) Add(subject string, change Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.subject(subject)
	s.total.Matched += change.Matched
	s.total.Delivered += change.Delivered
	s.total.Suppressed += change.Suppressed
	s.total.Dropped += change.Dropped
	s.total.Unresolved += change.Unresolved
	if change.Matched > 0 {
		s.lastMatchAt = later(s.lastMatchAt, change.At)
	}
	if change.Delivered > 0 {
		s.lastDeliveryAt = later(s.lastDeliveryAt, change.At)
	}
	c.changed[subject] = struct{}{}
}

// Apply sets the counts of a status. It adds the counts of this process to those that the
// status had at the first call, which former processes counted. An object with another
// UID than in the last call is a new one of the same name, and its counts start at zero.
func (c *Counters) Apply(subject string, uid types.UID, status *v1alpha1.AlarmStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.subject(subject); s.uid != "" && s.uid != uid {
		delete(c.subjects, subject)
	}
	s := c.subject(subject)
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

// Forget deletes the counts of a subject that was deleted.
func (c *Counters) Forget(subject string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.subjects, subject)
	delete(c.changed, subject)
}

// takeChanged returns the subjects that changed since the last call.
func (c *Counters) takeChanged() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	subjects := make([]string, 0, len(c.changed))
	for s := range c.changed {
		subjects = append(subjects, s)
	}
	clear(c.changed)
	return subjects
}

func (c *Counters) subject(name string) *subjectCounts {
	s, ok := c.subjects[name]
	if !ok {
		s = &subjectCounts{}
		c.subjects[name] = s
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

// NoticeFor is the time in which a repeated notice is ignored. An Event of the first one
// exists that long.
const NoticeFor = 50 * time.Minute

// Notice is something that happened to a subject and that its owner must know. It becomes
// an Event.
type Notice struct {
	// Reason is a documented reason of the API.
	Reason string
	// Text is a sentence about the first occurrence.
	Text string
	// Since is the time of the first occurrence.
	Since time.Time
}

// Notify adds a notice for a subject. It ignores further notices with the same reason for
// NoticeFor, so that a flood of failures becomes one Event.
func (c *Counters) Notify(subject string, n Notice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.subject(subject)
	if last, ok := s.notices[n.Reason]; ok && n.Since.Sub(last.Since) < NoticeFor {
		return
	}
	if s.notices == nil {
		s.notices = map[string]Notice{}
	}
	s.notices[n.Reason] = n
	c.changed[subject] = struct{}{}
}

// Notices returns the notice of each reason that is younger than NoticeFor, the newest
// first.
func (c *Counters) Notices(subject string, now time.Time) []Notice {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.subjects[subject]
	if !ok {
		return nil
	}
	notices := make([]Notice, 0, len(s.notices))
	for _, n := range s.notices {
		if now.Sub(n.Since) >= NoticeFor {
			continue
		}
		notices = append(notices, n)
	}
	slices.SortFunc(notices, func(a, b Notice) int {
		return cmp.Or(b.Since.Compare(a.Since), cmp.Compare(a.Reason, b.Reason))
	})
	return notices
}

// MarkChanged marks a subject as changed, so that its controller updates the status.
func (c *Counters) MarkChanged(subject string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed[subject] = struct{}{}
}

// FlushEvery is the interval of Flush. The age of a status is at most this, plus the time
// to write it.
const FlushEvery = 2 * time.Second

// Flush calls changed for each subject that changed, every FlushEvery. It returns nil
// when ctx ends.
func (c *Counters) Flush(ctx context.Context, clk clock.WithTicker, changed func(ctx context.Context, subject string)) error {
	ticker := clk.NewTicker(FlushEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			for _, subject := range c.takeChanged() {
				changed(ctx, subject)
			}
		}
	}
}
