package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/group"
	"github.com/bongsu-io/bongsu/internal/alarm/ledger"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// Limits of open groups: of one alarm for each of its receivers, and of all Alarms of a
// namespace. Tenants can create Events for any number of groups. Those of a ClusterAlarm for the
// Events of a namespace beyond half of the limit do not count for other namespaces.
const (
	maxGroupsOfAlarm     = 1_000
	halfOfGroups         = maxGroupsOfAlarm / 2
	maxGroupsOfNamespace = 20_000
)

// sharedGroupsPart divides the space for the state of a tenant. Separate groups leave a
// quarter of it to shared groups, and to thresholds without groups.
const sharedGroupsPart = 4

// groupLimiter limits the open groups of alarms and of namespaces, and the space for them and
// for thresholds. Occurrences beyond the limit share one group. If there is no space for
// that either, they are in no group.
type groupLimiter struct {
	outbox *outbox.Store
	space  *ledger.Ledger
	// open caches which groups of the batch are open, or new and within the limits, by
	// tenant and ID. opened counts the new rows, by alarm, by tenant and alarm, and by namespace.
	// Those that a label chooses are part of the key. holders are the receivers of such
	// groups, by ID.
	open    map[[3]string]bool
	opened  map[string]int64
	holders map[string][]string
	// limited are the alarms with groups beyond the limit. excess caches excessOf.
	limited map[kube.Key]bool
	excess  map[string]int64
}

func newGroupLimiter(store *outbox.Store, space *ledger.Ledger) *groupLimiter {
	return &groupLimiter{
		outbox: store, space: space, open: map[[3]string]bool{}, opened: map[string]int64{}, holders: map[string][]string{}, limited: map[kube.Key]bool{},
		excess: map[string]int64{},
	}
}

// limit moves an occurrence to the shared group, unless its own group is open or can be
// opened. It makes the evaluation stateless if the shared group cannot be opened.
func (g *groupLimiter) limit(ctx context.Context, e *evaluation) error {
	if e.alarm.Grouping() == nil && e.alarm.Threshold() == nil {
		return nil
	}
	open, err := g.canOpen(ctx, e)
	if !open && len(e.by) > 0 && err == nil {
		e.by = nil
		if e.alarm.ID.Kind == alarm.KindClusterAlarm {
			e.message.NamespaceLabels = nil // the shared group can be about several namespaces
		}
		g.limited[e.alarm.ID] = true
		open, err = g.canOpen(ctx, e)
	}
	if !open {
		e.stateless = true
		g.limited[e.alarm.ID] = true
	}
	return err
}

// canOpen reports whether all rows of the group of an evaluation exist, or can be stored.
func (g *groupLimiter) canOpen(ctx context.Context, e *evaluation) (bool, error) {
	id := alarm.GroupKey(e.alarm.UID, e.by...)
	key := [3]string{e.tenant, id, e.chosen()}
	if open, cached := g.open[key]; cached {
		return open, nil
	}
	stored, err := g.outbox.Groups.Get(ctx, id)
	if err != nil {
		return false, err
	}
	known := stored.Window > 0 || len(stored.Receivers) > 0 || len(e.by) == 0
	size := missingBytes(e, stored)
	open := g.hasSpace(e, size) && (known || g.tryOpen(e))
	if open {
		g.space.Add(ledger.Groups, e.tenant, size)
		for i := range e.recipients {
			g.holders[id] = append(g.holders[id], e.recipients[i].ID)
		}
	}
	g.open[key] = open
	return open, nil
}

// isOpen reports whether an evaluation can resolve its group for a receiver.
func (g *groupLimiter) isOpen(ctx context.Context, e *evaluation) (bool, error) {
	id := alarm.GroupKey(e.alarm.UID, e.by...)
	if g.open[[3]string{e.tenant, id, e.chosen()}] || e.route != nil && len(g.holders[id]) > 0 {
		return true, nil
	}
	stored, err := g.outbox.Groups.Get(ctx, id)
	return stored.Unresolved, err
}

// missingBytes returns the size of the rows of a group that are not stored.
func missingBytes(e *evaluation, stored outbox.OpenGroup) (size int64) {
	alarmKey := e.alarm.ID.String()
	if threshold := e.alarm.Threshold(); threshold != nil {
		size += max(0, outbox.WindowBytes(alarmKey, e.tenant, threshold.MaxBytes())-stored.Window)
	}
	if e.alarm.Grouping() == nil {
		return size
	}
	for i := range e.recipients {
		id := e.recipients[i].ID
		if !slices.Contains(stored.Receivers, id) {
			size += outbox.GroupBytes(id, alarmKey, e.tenant, groupName(e.by))
		}
	}
	return size
}

// hasSpace reports whether the tenant has space for rows of this size.
func (g *groupLimiter) hasSpace(e *evaluation, size int64) bool {
	leave := int64(0)
	if len(e.by) > 0 {
		leave = sharedGroupsPart
	}
	return g.space.Fits(ledger.Groups, e.tenant, size, leave)
}

// tryOpen opens one more group of the alarm, and reports whether the limits allow it.
func (g *groupLimiter) tryOpen(e *evaluation) bool {
	a := e.alarm
	alarmKey := a.ID.String()
	namespace := alarmKey[:len(alarmKey)-len(a.ID.Name)]
	rows := int64(max(len(e.recipients), 1))
	if a.Threshold() != nil && a.Grouping() != nil && len(e.recipients) > 0 {
		rows++ // the window
	}
	ofEvents := e.tenant + " " + alarmKey
	counted := g.outbox.Groups.Count(alarmKey) + g.opened[alarmKey]
	if counted >= maxGroupsOfAlarm*rows && g.outbox.Groups.CountIn(e.tenant, alarmKey)+g.opened[ofEvents] < halfOfGroups*rows {
		counted -= g.excessOf(alarmKey, halfOfGroups*rows)
	}
	if counted >= maxGroupsOfAlarm*rows {
		return false
	}
	if a.ID.Kind == alarm.KindAlarm && g.outbox.Groups.Count(namespace)+g.opened[namespace] >= maxGroupsOfNamespace {
		return false
	}
	g.opened[alarmKey] += rows
	g.opened[ofEvents] += rows
	g.opened[namespace] += rows
	return true
}

// excessOf returns the groups of an alarm beyond a number for the Events of each namespace, as of the
// last batch.
func (g *groupLimiter) excessOf(alarmKey string, number int64) int64 {
	excess, known := g.excess[alarmKey]
	if !known {
		excess = g.outbox.Groups.CountBeyond(alarmKey, number)
		g.excess[alarmKey] = excess
	}
	return excess
}

// releaseRetry is the time between retries after the outbox could not be written.
const releaseRetry = 5 * time.Second

// releaseGroups puts the messages of groups into the outbox when they are due.
func (p *Pipeline) releaseGroups(ctx context.Context) error {
	for ctx.Err() == nil {
		wait, err := p.releaseDue(ctx)
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
	if n := p.Outbox.Groups.TakeSilenced(); n > 0 {
		p.Reporter.Suppressed(SuppressedByAcknowledgement, n)
	}
	released, err := p.Outbox.Release(ctx)
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

// awaitDue waits for this time, or until occurrences are added to a group, or a message of one
// was sent.
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
	case <-p.Outbox.Groups.Sent():
	}
}

// ComposeGroup makes the message of a group: it is the outbox.Composer of the operator. It
// ignores parts that cannot be decoded, because a retry would not help.
func ComposeGroup(g outbox.Group, parts []outbox.Entry, count int64) ([]byte, error) {
	of := message.Group{Key: g.ID, Total: g.Total, Since: g.Since, First: g.First, Resolved: g.Resolved}
	_ = json.Unmarshal(g.By, &of.By)
	messages := make([]message.Part, 0, len(parts))
	for i := range parts {
		if parts[i].Member.Event.Kind == group.End && len(parts) > 1 {
			continue // it has the content of the last occurrence
		}
		var m message.Part
		if json.Unmarshal(parts[i].Payload, &m) == nil {
			if parts[i].Count == 0 {
				m.SetUncounted()
			}
			messages = append(messages, m)
		}
	}
	composed := message.Compose(of, messages, count)
	if len(messages) == 1 && messages[0].Acknowledged != nil {
		composed = messages[0]
		composed.Group = &of
	}
	payload, err := message.Encode(composed)
	if err != nil {
		return nil, fmt.Errorf("encode a group's message: %w", err)
	}
	return payload, nil
}

// groupName shows the values of a group to users: see [outbox.MaxGroupName].
func groupName(by []alarm.GroupValue) string {
	values := make([]string, 0, len(by))
	for _, v := range by {
		if v.Value != "" {
			values = append(values, v.Value)
		}
	}
	name := strings.Join(values, "/")
	if len(name) <= outbox.MaxGroupName {
		return name
	}
	cut := outbox.MaxGroupName
	for !utf8.RuneStart(name[cut]) {
		cut--
	}
	return name[:cut]
}

func acknowledgement(a *match.Acknowledgement) *group.Acknowledgement {
	return &group.Acknowledgement{Token: a.Token, Until: a.Until, Announced: a.Announced}
}
