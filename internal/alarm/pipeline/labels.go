package pipeline

import (
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
)

// address sets the receivers of an evaluation, and adds labels of the namespace to its message.
func (m *matcher) address(e *evaluation, occ *alarm.Occurrence, known *alarm.Context) {
	if e.outcome == match.NotMatched {
		return
	}
	e.recipients, e.route = m.recipients(e.alarm.Receivers), e.alarm.Route()
	if e.route != nil {
		m.choose(e, occ, known)
	}
	m.addLabels(e, occ)
}

// addLabels adds the labels of the namespace to a message, by which receivers choose a channel.
// If they are unread, the outcome is Undecided: another team must not get the message. An Event
// whose namespace is not that of its object gets no labels, because a tenant can write it.
func (m *matcher) addLabels(e *evaluation, occ *alarm.Occurrence) {
	keys := m.labelsFor(e)
	namespace, trusted := match.TrustedNamespace(&occ.Event)
	if len(keys) == 0 || !trusted {
		return
	}
	labels, _, unread := m.namespaces.Labels(namespace)
	if unread != "" {
		e.outcome, e.unread, e.err = match.Undecided, unread, nil
		return
	}
	found := map[string]string{}
	for _, key := range keys {
		if value, ok := labels[key]; ok {
			found[key] = value
		}
	}
	if len(found) > 0 {
		e.message.NamespaceLabels = found
	}
}

// labelsFor returns the keys of the labels that the receivers of a message need. A message that
// can be about several namespaces gets none.
func (m *matcher) labelsFor(e *evaluation) (keys []string) {
	if e.outcome != match.Matched || !e.alarm.IsAboutOneNamespace() {
		return nil
	}
	for i := range e.recipients {
		keys = append(keys, e.recipients[i].NamespaceLabels...)
	}
	return keys
}
