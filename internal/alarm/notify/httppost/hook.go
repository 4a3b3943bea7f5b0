package httppost

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
)

// Hook is a notify.Notifier that posts to a URL that is a secret, because no other credentials are
// needed.
type Hook struct {
	config HookConfig
	client *Client
	url    string
	limit  notify.Limit
}

var _ notify.Notifier = (*Hook)(nil)

// HookConfig is the configuration that all hooks of a receiver type share.
type HookConfig struct {
	// Format names the form of the bodies: see notify.Notifier. The key of the limit contains it.
	Format string
	// Render returns the body of a message: see notify.Notifier.
	Render func(message.Message) ([]byte, error)
	// Every is the minimum time between two messages.
	Every time.Duration
	// Classify is Request.Classify.
	Classify func(*Response)
}

// NewHook returns a Hook. It ignores white space around the URL. Errors do not reveal
// the URL.
func NewHook(client *Client, rawURL string, c HookConfig) (*Hook, error) {
	rawURL = strings.TrimSpace(rawURL)
	if err := CheckURL(rawURL); err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(rawURL))
	limit := notify.Limit{Key: c.Format + ":" + hex.EncodeToString(sum[:]), Every: c.Every}
	return &Hook{config: c, client: client, url: rawURL, limit: limit}, nil
}

// Format of the bodies.
func (h *Hook) Format() string { return h.config.Format }

// Render returns the body of a message.
func (h *Hook) Render(m message.Message) ([]byte, error) { return h.config.Render(m) }

// Limit is shared by all receivers with the same URL.
func (h *Hook) Limit() notify.Limit { return h.limit }

// Send posts the body.
func (h *Hook) Send(ctx context.Context, key string, body []byte) error {
	return h.client.Post(ctx, Request{URL: h.url, Key: key, Body: body, Classify: h.config.Classify})
}

// ErrInvalidURL explains an invalid URL without revealing it, because it may be a
// secret.
var ErrInvalidURL = errors.New("the URL must be an absolute http or https URL, for example https://alarms.example.com/bongsu")

// CheckURL returns nil or ErrInvalidURL.
func CheckURL(raw string) error {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return ErrInvalidURL
	}
	return nil
}

// reserved headers are set by the operator or belong to the connection.
var reserved = []string{
	"Connection", "Content-Encoding", "Content-Length", "Content-Type", "Expect", "Host", "Idempotency-Key",
	"Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent",
	"X-Idempotency-Key", // net/http repeats a POST that has it
}

// reservedPrefixes begin the headers of proxies, CloudEvents and Standard Webhooks.
var reservedPrefixes = []string{"Proxy-", "Ce-", "Webhook-"}

// NewHeader returns the header with these names and values. Errors do not reveal values.
func NewHeader(data map[string][]byte) (http.Header, error) {
	header := http.Header{}
	for name, value := range data {
		text := strings.TrimSpace(string(value))
		if err := checkHeader(name, text); err != nil {
			return nil, err
		}
		if header.Values(name) != nil {
			return nil, fmt.Errorf("the header %s is set twice, in different spellings: remove one", http.CanonicalHeaderKey(name))
		}
		header.Set(name, text)
	}
	return header, nil
}

func checkHeader(name, value string) error {
	if !httpguts.ValidHeaderFieldName(name) {
		return fmt.Errorf("%q is not a valid header name: use letters, digits and hyphens", name)
	}
	canonical := http.CanonicalHeaderKey(name)
	hasPrefix := func(prefix string) bool { return strings.HasPrefix(canonical, prefix) }
	if slices.Contains(reserved, canonical) || slices.ContainsFunc(reservedPrefixes, hasPrefix) {
		return fmt.Errorf("the header %s cannot be set: remove it", canonical)
	}
	if !httpguts.ValidHeaderFieldValue(value) {
		return fmt.Errorf("the value of the header %s contains an invalid character: use a single line of text", canonical)
	}
	return nil
}
