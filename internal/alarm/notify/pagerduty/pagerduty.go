// Package pagerduty makes incidents of messages, through PagerDuty's Events API v2:
// one for each group of an alarm, resolved when the group is.
package pagerduty

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"

	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
)

// DefaultURL is where PagerDuty takes events, but for accounts of its European region
// (https://developer.pagerduty.com/docs/send-alert-event).
const DefaultURL = "https://events.pagerduty.com/v2/enqueue"

// Config says which service gets the incidents.
type Config struct {
	URL string
	// RoutingKey is the integration's key, a secret.
	RoutingKey string
	// Severity of all incidents; empty follows the Events.
	Severity string
}

// Notifier posts to one integration. It has no rate limit: a digest would be an
// incident of its own.
type Notifier struct {
	client     *httppost.Client
	url        string
	routingKey string
	severity   string
}

var _ notify.Notifier = (*Notifier)(nil)

var routingKey = regexp.MustCompile(`^[A-Za-z0-9_-]{32}$`)

var errRoutingKey = errors.New("this is not an integration key of the Events API v2, which has 32 letters and digits")

// New returns a Notifier, or an error that does not tell the key.
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

// Format of the bodies, which differ with the severity.
func (n *Notifier) Format() string { return "pagerduty/" + n.severity }

// Send posts the body with the routing key. What is an incident for itself gets the
// idempotency key for its identity, so that it is one however often it is sent.
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
	return n.client.Post(ctx, httppost.Request{URL: n.url, Key: key, Body: raw, Judge: judge})
}

// judge knows the one 400 that is not about the message: a routing key that is not.
func judge(a *httppost.Answer) {
	var answer struct {
		Errors []string `json:"errors"`
	}
	if a.Taken || json.Unmarshal(a.Body, &answer) != nil {
		return
	}
	for _, text := range answer.Errors {
		if strings.Contains(text, "routing_key") || strings.Contains(text, "routing key") {
			a.Refuse(notify.Park, "the integration key is not valid; put that of an Events API v2 integration into the Secret")
		}
	}
}
