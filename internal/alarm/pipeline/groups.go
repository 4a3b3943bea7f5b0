package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// Limits of open groups: of one alarm for each of its receivers, and of all Alarms of a
// namespace. Tenants can create Events for any number of groups.
const (
	maxGroupsOfAlarm     = 1_000
	maxGroupsOfNamespace = 20_000
)

// groupLimiter limits the open groups of alarms and of namespaces. Occurrences beyond the
// limit share one group.
type groupLimiter struct {
	outbox *outbox.Store
	// separate caches which groups of the batch are open, or new and within the limit.
	// opened counts the new rows, by alarm and by namespace.
	separate map[string]bool
	opened   map[string]int64
	// limited are the alarms with groups beyond the limit.
	limited map[alarm.ID]bool
}

func newGroupLimiter(store *outbox.Store) *groupLimiter {
	return &groupLimiter{outbox: store, separate: map[string]bool{}, opened: map[string]int64{}, limited: map[alarm.ID]bool{}}
}

// limit moves an occurrence to the shared group, unless its own group is open or can be
// opened.
func (g *groupLimiter) limit(ctx context.Context, e *evaluation) error {
	if e.alarm.Grouping() == nil {
		return nil
	}
	id := alarm.GroupKey(e.alarm.UID, e.by...)
	separate, cached := g.separate[id]
	if !cached {
		var err error
		if separate, err = g.outbox.HasGroup(ctx, id); err != nil {
			return err
		}
		separate = separate || g.tryOpen(e.alarm)
		g.separate[id] = separate
	}
	if !separate {
		e.by = nil
		g.limited[e.alarm.ID] = true
	}
	return nil
}

// tryOpen opens one more group of the alarm, and reports whether the limits allow it.
func (g *groupLimiter) tryOpen(a *match.Alarm) bool {
	alarmKey := kube.Key(a.ID).String()
	namespace := alarmKey[:len(alarmKey)-len(a.ID.Name)]
	rows := int64(max(len(a.Receivers), 1))
	if g.outbox.Groups(alarmKey)+g.opened[alarmKey] >= maxGroupsOfAlarm*rows {
		return false
	}
	if a.ID.Kind == alarm.KindAlarm && g.outbox.Groups(namespace)+g.opened[namespace] >= maxGroupsOfNamespace {
		return false
	}
	g.opened[alarmKey] += rows
	g.opened[namespace] += rows
	return true
}

// releaseRetry is the time between retries after the outbox could not be written.
const releaseRetry = 5 * time.Second

// releaseGroups puts the messages of groups into the outbox when they are due.
func (p *Pipeline) releaseGroups(ctx context.Context) error {
	for ctx.Err() == nil {
		wait, err := p.releaseDue(ctx)
		if errors.Is(err, outbox.ErrCorrupt) {
			return err
		}
		if err != nil && ctx.Err() == nil {
			p.Log.Error(err, "the messages of groups could not be released: retrying")
			wait = releaseRetry
		}
		p.awaitDue(ctx, wait)
	}
	return nil
}

// releaseDue puts the due messages into the outbox. It returns the time until the next
// one is due, or 0 if there is none.
func (p *Pipeline) releaseDue(ctx context.Context) (wait time.Duration, err error) {
	released, err := p.Outbox.Release(ctx, composeGroup)
	for receiver, r := range released {
		p.Reporter.Merged(r.Parts - r.Messages)
		p.Dispatcher.Wake(receiver)
	}
	if err != nil {
		return 0, err
	}
	due, err := p.Outbox.NextDue(ctx)
	if due.IsZero() || err != nil {
		return 0, err
	}
	return max(due.Sub(p.Clock.Now()), time.Millisecond), nil
}

// awaitDue waits for this time, or until occurrences are added to a group.
func (p *Pipeline) awaitDue(ctx context.Context, wait time.Duration) {
	var due <-chan time.Time
	if wait > 0 {
		timer := p.Clock.NewTimer(wait)
		defer timer.Stop()
		due = timer.C()
	}
	select {
	case <-ctx.Done():
	case <-due:
	case <-p.groupAdded:
	}
}

// composeGroup returns the message of a group. It ignores parts that cannot be decoded,
// because a retry would not help.
func composeGroup(g outbox.Group, parts []outbox.Entry, count int64) (key string, payload []byte, err error) {
	group := message.Group{Key: g.ID, Total: g.Total, Since: g.Since, First: g.First, Resolved: g.Resolved}
	_ = json.Unmarshal(g.By, &group.By)
	keys := sha256.New()
	messages := make([]message.Message, 0, len(parts))
	for i := range parts {
		_, _ = io.WriteString(keys, parts[i].Key+"\x00") // a hash does not fail
		var m message.Message
		if json.Unmarshal(parts[i].Payload, &m) == nil {
			messages = append(messages, m)
		}
	}
	if payload, err = json.Marshal(message.Compose(group, messages, count)); err != nil {
		return "", nil, fmt.Errorf("encode a group's message: %w", err)
	}
	return hex.EncodeToString(keys.Sum(nil)[:16]), payload, nil
}
