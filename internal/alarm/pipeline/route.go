package pipeline

import (
	"context"
	"slices"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
)

// choose adds the receivers that the label chooses to those of spec.receivers. If the label is
// unread, the outcome is Undecided, and all that it can choose are added: one of them gets the
// occurrence later.
func (m *matcher) choose(e *evaluation, occ *alarm.Occurrence, known *alarm.Context) {
	if e.outcome != match.Matched && e.outcome != match.Undecided {
		return
	}
	keys, unread, noReceiver := m.labelled(e.route, occ, known)
	if unread != "" {
		if e.outcome == match.Matched {
			e.outcome, e.unread, e.err = match.Undecided, unread, nil
		}
		e.recipients = m.recipients(e.alarm.AllReceivers())
		return
	}
	e.noReceiver = noReceiver
	chosen := slices.DeleteFunc(m.recipients(keys), func(r recipient) bool { return r.isForFormer(occ) })
	if len(chosen) == 0 {
		chosen = m.recipients([]string{e.route.Default})
	}
	for _, r := range chosen {
		if !slices.Contains(e.alarm.Receivers, r.key) {
			e.recipients = append(e.recipients, r)
		}
	}
}

// labelled returns the keys of the receivers that a label chooses. unread says why they are
// unknown. An Event whose namespace is not that of its object has no labels, because a tenant can
// write it.
func (m *matcher) labelled(route *match.Route, occ *alarm.Occurrence, known *alarm.Context) (keys []string, unread alarm.Unread, none *match.NoReceiverError) {
	if route.UsesObjects() {
		if known.ObjectUnread != "" {
			return nil, known.ObjectUnread, nil
		}
		if keys = route.ByObject(known.Object.Metadata.Labels[route.Label]); len(keys) > 0 {
			return keys, "", nil
		}
	}
	namespace, trusted := match.TrustedNamespace(&occ.Event)
	if !trusted {
		return nil, "", nil
	}
	labels, _, unread := m.namespaces.Labels(namespace)
	value := labels[route.Label]
	keys = route.ByNamespace(value)
	if unread == "" && value != "" && len(keys) == 0 {
		none = &match.NoReceiverError{Namespace: namespace, Label: route.Label, Value: value}
	}
	return keys, unread, none
}

// restore sets the receivers of a state that an earlier process reported. It has no effect if no
// label chose them, or if none can be chosen now.
func (m *matcher) restore(e *evaluation, chosen []string) {
	chosen = slices.DeleteFunc(slices.Clone(chosen), func(key string) bool { return !slices.Contains(e.alarm.AllReceivers(), key) })
	if e.route != nil && len(chosen) > 0 {
		e.recipients = m.recipients(slices.Concat(e.alarm.Receivers, chosen))
	}
}

// addHolders adds the receivers that have the group of an evaluation open, if it resolves the
// group. The label chose them before, and can choose others now.
func (s *suppressor) addHolders(ctx context.Context, occ *alarm.Occurrence, e *evaluation) error {
	g := e.alarm.Grouping()
	if e.route == nil || g == nil || e.stateless || len(e.by) == 0 || !match.Trusted(&occ.Event) || !e.resolves && !g.Resolves(&occ.Event) {
		return nil
	}
	id := alarm.GroupKey(e.alarm.UID, e.by...)
	stored, err := s.outbox.Groups.Get(ctx, id)
	if err != nil {
		return err
	}
	for _, holder := range slices.Concat(stored.Receivers, s.groups.holders[id]) {
		key := alarm.ReceiverKey(holder)
		known := slices.ContainsFunc(e.recipients, func(r recipient) bool { return r.key == key })
		if known || !slices.Contains(e.route.Keys(), key) {
			continue
		}
		for _, r := range s.recipients([]string{key}) {
			if r.ID == holder {
				r.onlyEnd = true
				e.recipients = append(e.recipients, r)
			}
		}
	}
	return nil
}
