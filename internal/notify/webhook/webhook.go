// Package webhook posts messages as JSON to any HTTP server. docs/webhook.md
// tells its users what they get.
package webhook

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/notify"
	"github.com/bongsu-io/bongsu/internal/notify/httppost"
)

// Notifier posts to one URL.
type Notifier struct {
	client *httppost.Client
	url    string
	header http.Header
}

var _ notify.Notifier = (*Notifier)(nil)

// New returns a Notifier. rawURL and headers may come out of a Secret: white space
// around a value is taken off, and an error tells no value.
func New(client *httppost.Client, rawURL string, headers map[string][]byte) (*Notifier, error) {
	rawURL = strings.TrimSpace(rawURL)
	if err := httppost.CheckURL(rawURL); err != nil {
		return nil, err
	}
	header, err := newHeader(headers)
	if err != nil {
		return nil, err
	}
	return &Notifier{client: client, url: rawURL, header: header}, nil
}

// Format of the bodies.
func (n *Notifier) Format() string { return "webhook" }

// Render is the message's own JSON form. What is empty is an empty list, not null.
func (n *Notifier) Render(m alarm.Message) ([]byte, error) {
	if m.Events == nil {
		m.Events = []alarm.MessageEvent{}
	}
	return json.Marshal(m)
}

// Send posts the body.
func (n *Notifier) Send(ctx context.Context, key string, body []byte) error {
	return n.client.Post(ctx, httppost.Request{URL: n.url, Header: n.header, Key: key, Body: body})
}
