// Package alertmanager sends messages as alerts through Alertmanager's API v2, so that
// its routes, silences and inhibitions apply to them.
package alertmanager

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/fit"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
)

// Config configures the Alertmanager that receives the alerts.
type Config struct {
	// URL of the Alertmanager, without the path of its API. It may be a secret.
	URL     string
	Headers map[string][]byte
	// ResolveAfter is the time after LastSeen at which an alert ends. With 0,
	// Alertmanager decides.
	ResolveAfter time.Duration
}

// Notifier posts to one Alertmanager. It has no rate limit, because a digest would be a
// separate alert. Alertmanager has its own grouping.
type Notifier struct {
	client       *httppost.Client
	url          string
	header       http.Header
	resolveAfter time.Duration
}

var _ notify.Notifier = (*Notifier)(nil)

// New returns a Notifier. Errors do not reveal values.
func New(client *httppost.Client, c Config) (*Notifier, error) {
	raw := strings.TrimSpace(c.URL)
	if err := httppost.CheckURL(raw); err != nil {
		return nil, err
	}
	base, err := url.Parse(raw)
	if err != nil {
		return nil, httppost.ErrInvalidURL
	}
	header, err := httppost.NewHeader(c.Headers)
	if err != nil {
		return nil, err
	}
	return &Notifier{client: client, url: base.JoinPath("api/v2/alerts").String(), header: header, resolveAfter: c.ResolveAfter}, nil
}

// Format of the bodies, which depend on ResolveAfter.
func (n *Notifier) Format() string { return fmt.Sprint("alertmanager/", n.resolveAfter) }

// Send posts the body.
func (n *Notifier) Send(ctx context.Context, key string, body []byte) error {
	return n.client.Post(ctx, httppost.Request{URL: n.url, Header: n.header, Key: key, Body: body})
}

// Limits that keep alerts readable. Alertmanager itself has none.
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

// Render returns one alert. Its labels are its identity, so they contain nothing that
// changes while the problem lasts.
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

// severity depends on the type of the Events. All messages of a group must have the same
// severity, including the one that resolves it, whose Events are Normal.
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

// names are the labels of the most common grouping keys. An alert without a group has
// the same labels.
var names = map[string]string{
	"regarding.namespace": "namespace", "regarding.kind": "kind", "regarding.name": "name", "reason": "reason",
}

// labelName turns a grouping key into a label name, [a-zA-Z_][a-zA-Z0-9_]*. All other
// keys get the prefix "by_", so that they cannot replace one of our labels.
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

// set leaves out empty values, as Alertmanager does.
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

// endOf returns zero if Alertmanager decides when the alert ends (resolve_timeout).
// Alertmanager would refuse an end before the start.
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
