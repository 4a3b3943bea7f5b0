package pagerduty

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/fit"
)

// Limits in characters. Of the summary PagerDuty cuts what is beyond 1,024; all of an
// event may have 512 KB (https://developer.pagerduty.com/docs/send-alert-event).
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

// Render makes an event that triggers, or resolves, the incident of the message's
// group.
func (n *Notifier) Render(m message.Message) ([]byte, error) {
	if notify.IsResolved(&m) {
		return json.Marshal(event{EventAction: "resolve", DedupKey: dedupKey(&m)})
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

// dedupKey is the identity of the incident: the group, or what an alarm without
// groups says of one object. It is empty of a digest.
func dedupKey(m *message.Message) string {
	switch {
	case m.Group != nil:
		return m.Group.Key
	case m.Digest || len(m.Events) == 0:
		return ""
	}
	identity, err := json.Marshal([]any{m.Cluster, m.Alarm, m.Events[0].Regarding, m.Events[0].Reason})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(identity)
	return hex.EncodeToString(sum[:])
}
