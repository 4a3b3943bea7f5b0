// Package counters provides the numbers in the status of alarms and receivers, which the
// outbox counts. It also keeps the notices that become Events. It makes no requests: the
// status recorders of the controllers read the numbers after a change.
package counters

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// Counters has the counts and notices of every subject. A subject is the key of an alarm
// or a receiver.
type Counters struct {
	store *outbox.Store

	mu sync.Mutex
	// notices by subject and reason.
	notices map[string]map[string]Notice
	changed map[string]struct{}
}

// New returns Counters without notices.
func New(store *outbox.Store) *Counters {
	return &Counters{store: store, notices: map[string]map[string]Notice{}, changed: map[string]struct{}{}}
}

// Apply sets the counts of a status, unless nothing was counted since this replica took
// over. live reads the status from the API server. It is called once, because the counts
// of former leaders are only there.
func (c *Counters) Apply(
	ctx context.Context, subject string, uid types.UID, status *v1alpha1.AlarmStatus,
	live func(ctx context.Context) (*v1alpha1.AlarmStatus, error),
) error {
	counts, adopted, ok := c.store.Statuses.Counts(subject, string(uid))
	if ok && !adopted {
		base, err := live(ctx)
		if err != nil {
			return err
		}
		if err := c.store.Statuses.Adopt(ctx, subject, string(uid), countsOf(base)); err != nil {
			return err
		}
		counts, adopted, ok = c.store.Statuses.Counts(subject, string(uid))
	}
	if !ok || !adopted {
		return nil
	}
	status.Matched, status.Delivered = counts.Matched, counts.Delivered
	status.SuppressedByThreshold, status.SuppressedByMute = counts.SuppressedByThreshold, counts.SuppressedByMute
	status.Dropped, status.Unresolved, status.Undecided = counts.Dropped, counts.Unresolved, counts.Undecided
	status.WithoutGroupKey = counts.WithoutGroupKey
	status.LastMatchTime, status.LastDeliveryTime = latest(status.LastMatchTime, counts.LastMatch), latest(status.LastDeliveryTime, counts.LastDelivery)
	return nil
}

// Groups returns the open groups of an alarm, at most limit, and the number of all. ok is false
// before this replica has taken over: the groups in the status are then right.
func (c *Counters) Groups(ctx context.Context, subject string, limit int) (groups []outbox.ListedGroup, count int64, ok bool, err error) {
	if !c.store.Confirmed() {
		return nil, 0, false, nil
	}
	groups, count, err = c.store.Groups.List(ctx, subject, limit)
	return groups, count, err == nil, err
}

func countsOf(s *v1alpha1.AlarmStatus) outbox.StatusCounts {
	return outbox.StatusCounts{
		Matched: s.Matched, Delivered: s.Delivered, Dropped: s.Dropped, Unresolved: s.Unresolved, Undecided: s.Undecided,
		SuppressedByThreshold: s.SuppressedByThreshold, SuppressedByMute: s.SuppressedByMute,
		WithoutGroupKey: s.WithoutGroupKey,
	}
}

// Forget deletes the counts and notices of a subject that was deleted.
func (c *Counters) Forget(ctx context.Context, subject string) error {
	c.mu.Lock()
	delete(c.notices, subject)
	delete(c.changed, subject)
	c.mu.Unlock()
	return c.store.Statuses.Forget(ctx, subject)
}

// takeChanged returns the subjects that changed since the last call.
func (c *Counters) takeChanged() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, subject := range c.store.Statuses.TakeCounted() {
		c.changed[subject] = struct{}{}
	}
	subjects := slices.Collect(maps.Keys(c.changed))
	clear(c.changed)
	return subjects
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
	if last, ok := c.notices[subject][n.Reason]; ok && n.Since.Sub(last.Since) < NoticeFor {
		return
	}
	if c.notices[subject] == nil {
		c.notices[subject] = map[string]Notice{}
	}
	c.notices[subject][n.Reason] = n
	c.changed[subject] = struct{}{}
}

// Notices returns the notice of each reason that is younger than NoticeFor, the newest
// first.
func (c *Counters) Notices(subject string, now time.Time) []Notice {
	c.mu.Lock()
	defer c.mu.Unlock()
	notices := make([]Notice, 0, len(c.notices[subject]))
	for _, n := range c.notices[subject] {
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
func (c *Counters) Flush(ctx context.Context, clk clock.WithTicker, changed func(subject string)) error {
	ticker := clk.NewTicker(FlushEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			for _, subject := range c.takeChanged() {
				changed(subject)
			}
		}
	}
}
