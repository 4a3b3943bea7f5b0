// Package alertmanager sends messages as alerts through Alertmanager's API v2, so that
// its routes, silences and inhibitions apply to them.
package alertmanager

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/clock"

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
	// ResolveAfter is the time after its last message at which an alert ends. With 0, it is
	// defaultValidity for an alert of a group. Otherwise, Alertmanager decides.
	ResolveAfter time.Duration
	Clock        clock.PassiveClock
}

// Notifier posts to one Alertmanager. It has no rate limit of its own, because a digest is a
// separate alert. Alertmanager has its own grouping.
type Notifier struct {
	client       *httppost.Client
	url          string
	header       http.Header
	resolveAfter time.Duration
	clock        clock.PassiveClock
}

var (
	_ notify.Repeater = (*Notifier)(nil)
	_ notify.Batcher  = (*Notifier)(nil)
)

// maxBatch is the number of alerts in a request.
const maxBatch = 100

// defaultValidity is Alertmanager's default resolve_timeout.
const defaultValidity = 5 * time.Minute

// maxInterval limits the time between two alerts of a group. Alertmanager forgets all alerts
// when it is restarted.
const maxInterval = 5 * time.Minute

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
	return &Notifier{client: client, url: base.JoinPath("api/v2/alerts").String(), header: header, resolveAfter: c.ResolveAfter, clock: c.Clock}, nil
}

// Format of the bodies.
func (n *Notifier) Format() string { return "alertmanager" }

// Send posts the body. It sets when an unresolved alert ends, counted from this attempt.
// Otherwise the alert would arrive as resolved after an outage.
func (n *Notifier) Send(ctx context.Context, key string, body []byte) error {
	var alerts []alert
	if err := json.Unmarshal(body, &alerts); err != nil {
		return err
	}
	return n.post(ctx, key, alerts)
}

// MaxBatch returns the maximum number of alerts in a request.
func (n *Notifier) MaxBatch() int { return maxBatch }

// SendBatch posts the alerts of several messages. Alertmanager handles them in order. If it
// refuses the request, it can have accepted some of them.
func (n *Notifier) SendBatch(ctx context.Context, key string, messages []notify.BatchMessage) error {
	all := make([]alert, 0, len(messages))
	for _, m := range messages {
		var alerts []alert
		if err := json.Unmarshal(m.Body, &alerts); err != nil {
			return err
		}
		all = append(all, alerts...)
	}
	return n.post(ctx, key, all)
}

// RepeatEvery returns a third of the time after which the alert of a group ends. One request
// can then fail, or two if the time is five minutes or more and the failures are quick.
func (n *Notifier) RepeatEvery() time.Duration {
	return min(cmp.Or(n.resolveAfter, defaultValidity)/3, maxInterval)
}

// SendAgain posts the alerts of groups, which then end later than before.
func (n *Notifier) SendAgain(ctx context.Context, messages []message.Message) error {
	alerts := make([]alert, 0, len(messages))
	for i := range messages {
		alerts = append(alerts, newAlert(&messages[i]))
	}
	return n.post(ctx, "", alerts)
}

// post sets the ends of the alerts that have none, and sends them. The other times come from
// Events, and can be in the future. Alertmanager would show a resolved alert until then.
func (n *Notifier) post(ctx context.Context, key string, alerts []alert) error {
	now := n.clock.Now().UTC()
	for i := range alerts {
		a := &alerts[i]
		a.StartsAt, a.EndsAt = notAfter(now, a.StartsAt), notAfter(now, a.EndsAt)
		validity := n.resolveAfter
		if _, grouped := a.Labels["group"]; grouped {
			validity = cmp.Or(validity, defaultValidity)
		}
		if a.EndsAt == nil && validity > 0 {
			a.EndsAt = latest(a.StartsAt, now.Add(validity))
		}
	}
	body, err := json.Marshal(alerts)
	if err != nil {
		return err
	}
	return n.client.Post(ctx, httppost.Request{URL: n.url, Header: n.header, Key: key, Body: body})
}

// notAfter returns a time, but at most the limit. Nil stays nil.
func notAfter(limit time.Time, at *time.Time) *time.Time {
	if at != nil && at.After(limit) {
		return &limit
	}
	return at
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
	return json.Marshal([]alert{newAlert(&m)})
}

func newAlert(m *message.Message) alert {
	a := alert{Labels: labels(m), Annotations: map[string]string{}}
	set(a.Annotations, "summary", fit.Line(notify.Headline(m), maxLabel, nil))
	set(a.Annotations, "description", fit.Text(strings.TrimSpace(m.Text), maxAnnotation, nil))
	if start := startOf(m); !start.IsZero() {
		a.StartsAt = &start
	}
	if notify.IsResolved(m) {
		a.EndsAt = latest(a.StartsAt, m.LastSeen.UTC())
	}
	return a
}

// latest returns end, but not before start: Alertmanager would refuse that.
func latest(start *time.Time, end time.Time) *time.Time {
	switch {
	case start != nil && end.Before(*start):
		return start
	case end.IsZero():
		return nil
	default:
		return &end
	}
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
		set(all, "event_namespace", e.EventNamespace)
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
