package alertmanager

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/fit"
)

// Alertmanager has no limits of its own. These keep what it sends on readable.
const (
	maxLabel      = 512
	maxAnnotation = 16000
)

// alert is a postableAlert of the API v2
// (https://github.com/prometheus/alertmanager/blob/main/api/v2/openapi.yaml).
type alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    *time.Time        `json:"startsAt,omitempty"`
	EndsAt      *time.Time        `json:"endsAt,omitempty"`
}

// Render makes one alert. Its labels are its identity: they hold nothing that changes
// while the same goes on.
func (n *Notifier) Render(m message.Message) ([]byte, error) {
	a := alert{Labels: labels(&m), Annotations: map[string]string{}}
	set(a.Annotations, "summary", fit.Line(notify.Headline(&m), maxLabel, nil))
	set(a.Annotations, "description", fit.Text(strings.TrimSpace(m.Text), maxAnnotation, nil))
	if start := startOf(&m); !start.IsZero() {
		a.StartsAt = &start
	}
	if end := n.endOf(&m); !end.IsZero() {
		a.EndsAt = &end
	}
	return json.Marshal([]alert{a})
}

func labels(m *message.Message) map[string]string {
	all := map[string]string{"alertname": cmp.Or(fit.Line(m.Alarm.Name, maxLabel, nil), "BongsuDigest"), "severity": severity(m)}
	set(all, "cluster", m.Cluster)
	set(all, "alarm_kind", m.Alarm.Kind)
	set(all, "alarm_namespace", m.Alarm.Namespace)
	switch {
	case m.Group != nil:
		set(all, "group", m.Group.Key)
		for _, by := range m.Group.By {
			set(all, labelName(by.Key), by.Value)
		}
	case !m.Digest && len(m.Events) > 0:
		e := m.Events[0]
		set(all, "namespace", e.Regarding.Namespace)
		set(all, "kind", e.Regarding.Kind)
		set(all, "name", e.Regarding.Name)
		set(all, "reason", e.Reason)
	}
	return all
}

// severity is that of the Events. A group's is the same of all its messages, also of
// the one that resolves it, which tells of Normal Events.
func severity(m *message.Message) string {
	if m.Group != nil {
		byType := slices.IndexFunc(m.Group.By, func(v alarm.GroupValue) bool { return v.Key == "type" })
		if byType < 0 || m.Group.By[byType].Value == "Warning" {
			return "warning"
		}
		return "info"
	}
	if notify.IsWarning(m) {
		return "warning"
	}
	return "info"
}

// names are the labels of what alarms group by most, as an alert without a group has
// them.
var names = map[string]string{
	"regarding.namespace": "namespace", "regarding.kind": "kind", "regarding.name": "name", "reason": "reason",
}

// labelName makes a label's name, [a-zA-Z_][a-zA-Z0-9_]*, of a key of a group. What
// it makes of others' begins with by_, so that none is taken for one of ours.
func labelName(key string) string {
	if name, known := names[key]; known {
		return name
	}
	return "by_" + strings.Map(func(r rune) rune {
		if r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, key)
}

// set leaves out what is empty, which Alertmanager would.
func set(to map[string]string, name, value string) {
	if value = fit.Text(value, maxAnnotation, nil); value != "" {
		to[name] = value
	}
}

func startOf(m *message.Message) time.Time {
	if m.Group != nil {
		return m.Group.Since.UTC()
	}
	return m.FirstSeen.UTC()
}

// endOf is zero if it is for Alertmanager to say (its resolve_timeout). An end before
// the start would be refused.
func (n *Notifier) endOf(m *message.Message) time.Time {
	end := m.LastSeen.UTC()
	switch {
	case m.LastSeen.IsZero(), !notify.IsResolved(m) && n.resolveAfter == 0:
		return time.Time{}
	case !notify.IsResolved(m):
		end = end.Add(n.resolveAfter)
	}
	if start := startOf(m); end.Before(start) {
		return start
	}
	return end
}
