// Package pagerduty sends messages as incidents through PagerDuty's Events API v2. Each
// group of an alarm is one incident, which is resolved with the group.
package pagerduty

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/fit"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
)

// DefaultURL is the URL for events, except for accounts in PagerDuty's European region
// (https://developer.pagerduty.com/docs/send-alert-event).
const DefaultURL = "https://events.pagerduty.com/v2/enqueue"

// Config configures the service that gets the incidents.
type Config struct {
	URL string
	// RoutingKey is the integration key, which is a secret.
	RoutingKey string
	// Severity of all incidents. If it is empty, the type of the Events decides.
	Severity string
}

// Notifier posts to one integration. It has no rate limit of its own, because a digest is a
// separate incident.
type Notifier struct {
	client     *httppost.Client
	url        string
	routingKey string
	severity   string
}

var _ notify.Coalescer = (*Notifier)(nil)

var routingKey = regexp.MustCompile(`^[A-Za-z0-9_-]{32}$`)

var errRoutingKey = errors.New("the value is not an integration key: use the one of an Events API v2 integration, which has 32 letters and digits")

// New returns a Notifier. Errors do not reveal the key.
func New(client *httppost.Client, c Config) (*Notifier, error) {
	key := strings.TrimSpace(c.RoutingKey)
	if !routingKey.MatchString(key) {
		return nil, errRoutingKey
	}
	if err := httppost.CheckURL(c.URL); err != nil {
		return nil, err
	}
	return &Notifier{client: client, url: c.URL, routingKey: key, severity: c.Severity}, nil
}

// Format of the bodies, which depend on the severity.
func (n *Notifier) Format() string { return "pagerduty/" + n.severity }

// Send adds the routing key to the body and posts it. A message without a deduplication
// key gets the idempotency key instead, so that retries create only one incident.
func (n *Notifier) Send(ctx context.Context, key string, body []byte) error {
	var e event
	if err := json.Unmarshal(body, &e); err != nil {
		return err
	}
	e.RoutingKey = n.routingKey
	if e.DedupKey == "" {
		e.DedupKey = key
	}
	raw, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return n.client.Post(ctx, httppost.Request{URL: n.url, Key: key, Body: raw, Classify: classify})
}

// classify recognizes an invalid routing key, the only 400 that is not about the message.
func classify(r *httppost.Response) {
	var answer struct {
		Errors []string `json:"errors"`
	}
	if r.Accepted || json.Unmarshal(r.Body, &answer) != nil {
		return
	}
	for _, text := range answer.Errors {
		if strings.Contains(text, "routing_key") || strings.Contains(text, "routing key") {
			r.Refuse(notify.Stop, "the integration key is not valid: put the key of an Events API v2 integration into the Secret")
		}
	}
}

// Limits in characters. PagerDuty cuts a summary after 1,024. An event may have 512 KB
// (https://developer.pagerduty.com/docs/send-alert-event).
const (
	maxSummary = 1024
	maxName    = 255
	maxText    = 16000
)

// event is an event of the Events API v2.
type event struct {
	RoutingKey  string   `json:"routing_key,omitempty"`
	EventAction string   `json:"event_action"`
	DedupKey    string   `json:"dedup_key,omitempty"`
	Client      string   `json:"client,omitempty"`
	Payload     *payload `json:"payload,omitempty"`
}

type payload struct {
	Summary       string  `json:"summary"`
	Source        string  `json:"source"`
	Severity      string  `json:"severity"`
	Timestamp     string  `json:"timestamp,omitempty"`
	Component     string  `json:"component,omitempty"`
	Group         string  `json:"group,omitempty"`
	Class         string  `json:"class,omitempty"`
	CustomDetails details `json:"custom_details"`
}

type details struct {
	Alarm string `json:"alarm,omitempty"`
	Text  string `json:"text,omitempty"`
	Count int64  `json:"count"`
}

// Render returns an event that triggers, acknowledges or resolves the incident of the message.
func (n *Notifier) Render(m message.Message) ([]byte, error) {
	if notify.IsResolved(&m) {
		return json.Marshal(event{EventAction: "resolve", DedupKey: dedupKey(&m)})
	}
	if m.Acknowledged != nil {
		return json.Marshal(event{EventAction: "acknowledge", DedupKey: dedupKey(&m)})
	}
	p := &payload{
		Summary:  fit.Line(notify.Headline(&m), maxSummary, nil),
		Source:   cmp.Or(fit.Line(m.Cluster, maxName, nil), "kubernetes"),
		Severity: n.severityOf(&m),
		CustomDetails: details{
			Alarm: fit.Line(notify.Origin(m.Alarm), maxName, nil), Text: fit.Text(strings.TrimSpace(m.Text), maxText, nil), Count: m.Count,
		},
	}
	if !m.LastSeen.IsZero() {
		p.Timestamp = m.LastSeen.UTC().Format(time.RFC3339)
	}
	if len(m.Events) > 0 {
		first := m.Events[0]
		p.Component = fit.Line(first.Regarding.Kind+"/"+first.Regarding.Name, maxName, nil)
		p.Group = fit.Line(first.Regarding.Namespace, maxName, nil)
		p.Class = fit.Line(first.Reason, maxName, nil)
	}
	return json.Marshal(event{EventAction: "trigger", DedupKey: dedupKey(&m), Client: "Bongsu", Payload: p})
}

func (n *Notifier) severityOf(m *message.Message) string {
	switch {
	case n.severity != "":
		return n.severity
	case notify.IsWarning(m):
		return "warning"
	default:
		return "info"
	}
}

// Incident returns the deduplication key. PagerDuty adds repeated events to the incident and
// shows the newest.
func (n *Notifier) Incident(m *message.Message) string { return dedupKey(m) }

// dedupKey returns the identity of the incident: the group or, without groups, the alarm,
// the object and the reason. It is empty for a digest.
func dedupKey(m *message.Message) string {
	switch {
	case m.Group != nil:
		return m.Group.Key
	case m.Digest || len(m.Events) == 0:
		return ""
	}
	first := &m.Events[0]
	identity, err := json.Marshal([]any{m.Cluster, m.Alarm, first.Regarding, first.Reason, first.EventNamespace})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(identity)
	return hex.EncodeToString(sum[:])
}
