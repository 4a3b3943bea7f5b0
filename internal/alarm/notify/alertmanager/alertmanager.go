// Package alertmanager makes alerts of messages, through Alertmanager's API v2, so
// that its routes, silences and inhibitions apply to them.
package alertmanager

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
)

// Config says which Alertmanager gets the alerts.
type Config struct {
	// URL of the Alertmanager, without the path of its API. It may be a secret.
	URL     string
	Headers map[string][]byte
	// ResolveAfter is how long after it was last seen an alert ends by itself; 0
	// leaves that to Alertmanager.
	ResolveAfter time.Duration
}

// Notifier posts to one Alertmanager. It has no rate limit: a digest would be an
// alert of its own, and Alertmanager groups by itself.
type Notifier struct {
	client       *httppost.Client
	url          string
	header       http.Header
	resolveAfter time.Duration
}

var _ notify.Notifier = (*Notifier)(nil)

// New returns a Notifier, or an error that tells no value.
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

// Format of the bodies, which differ with the time after which alerts end.
func (n *Notifier) Format() string { return fmt.Sprint("alertmanager/", n.resolveAfter) }

// Send posts the body.
func (n *Notifier) Send(ctx context.Context, key string, body []byte) error {
	return n.client.Post(ctx, httppost.Request{URL: n.url, Header: n.header, Key: key, Body: body})
}
