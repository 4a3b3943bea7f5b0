package httppost

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
)

// maxAnswer bounds what is read of an answer, so that its connection can be used
// again; maxExcerpt bounds what of it Explain is shown.
const (
	maxAnswer  = 64 << 10
	maxExcerpt = 256
)

// keyHeader is Idempotency-Key, in lower case on purpose: net/http silently
// repeats a POST that carries the canonical name when a kept connection breaks,
// and one Post is to be one request. Header names are case-insensitive.
const keyHeader = "idempotency-key"

// Request is one POST of JSON.
type Request struct {
	URL string
	// Header is sent besides what every request carries.
	Header http.Header
	// Key is the Idempotency-Key.
	Key  string
	Body []byte
	// Explain says more than the status of a refusal does; it is handed the
	// answer's beginning. Empty adds nothing. Optional.
	Explain func(status int, answer string) string
}

// Post makes one request. It returns nil after a 2xx, else a *notify.SendError.
func (c *Client) Post(ctx context.Context, r Request) error {
	req, err := c.newRequest(ctx, r)
	if err != nil {
		return invalidRequest()
	}
	resp, err := c.http.Do(req) //nolint:bodyclose // drain closes it
	if err != nil {
		return connectionError(err)
	}
	excerpt := drain(resp.Body)
	if resp.StatusCode/100 == 2 {
		return nil
	}
	return statusError(resp, r.explain(resp.StatusCode, excerpt))
}

func (c *Client) newRequest(ctx context.Context, r Request) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	if r.Header != nil {
		req.Header = r.Header.Clone()
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", c.userAgent)
	req.Header[keyHeader] = []string{r.Key}
	return req, nil
}

func (r Request) explain(status int, excerpt string) string {
	if r.Explain == nil {
		return ""
	}
	return r.Explain(status, excerpt)
}

// drain reads what is left of the answer, within bounds, and returns its
// beginning. That it broke off changes nothing: the status has been answered.
func drain(body io.ReadCloser) string {
	defer func() { _ = body.Close() }()
	excerpt, _ := io.ReadAll(io.LimitReader(body, maxExcerpt))
	_, _ = io.CopyN(io.Discard, body, maxAnswer-maxExcerpt)
	return string(excerpt)
}
