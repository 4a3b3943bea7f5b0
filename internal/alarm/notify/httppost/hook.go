package httppost

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/notify"
)

// Hook is a URL that is a secret: whoever knows it may post.
type Hook struct {
	client *Client
	url    string
	limit  notify.Limit
	judge  func(*Answer)
}

// HookConfig is what all hooks of a sink have in common.
type HookConfig struct {
	// Sink names the sink, in the key of the limit.
	Sink string
	// Every is the least time between two messages.
	Every time.Duration
	// Judge is as in Request.
	Judge func(*Answer)
}

// NewHook returns a Hook. White space around the URL is taken off, and an error does
// not tell it.
func NewHook(client *Client, rawURL string, c HookConfig) (*Hook, error) {
	rawURL = strings.TrimSpace(rawURL)
	if err := CheckURL(rawURL); err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(rawURL))
	limit := notify.Limit{Key: c.Sink + ":" + hex.EncodeToString(sum[:]), Every: c.Every}
	return &Hook{client: client, url: rawURL, limit: limit, judge: c.Judge}, nil
}

// Limit is shared by all receivers of the same URL.
func (h *Hook) Limit() notify.Limit { return h.limit }

// Send posts the body.
func (h *Hook) Send(ctx context.Context, key string, body []byte) error {
	return h.client.Post(ctx, Request{URL: h.url, Key: key, Body: body, Judge: h.judge})
}
