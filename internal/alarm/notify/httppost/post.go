package httppost

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
)

// maxAnswer bounds what is read of an answer, so that its connection can be used
// again, and what Judge is shown.
const maxAnswer = 64 << 10

// keyHeader is Idempotency-Key, in lower case on purpose: net/http silently
// repeats a POST that carries the canonical name when a kept connection breaks,
// and one Post is to be one request. Header names are case-insensitive.
const keyHeader = "idempotency-key"

// Request is one POST.
type Request struct {
	URL string
	// Header is sent besides what every request carries. Without a Content-Type the
	// body is JSON.
	Header http.Header
	// Key is the Idempotency-Key.
	Key  string
	Body []byte
	// Judge corrects what is made of the answer's status, if the answer says more.
	// Optional.
	Judge func(*Answer)
}

// Post makes one request. It returns nil after a 2xx, else a *notify.SendError.
func (c *Client) Post(ctx context.Context, r Request) error {
	req, err := c.newRequest(ctx, r)
	if err != nil {
		return invalidRequest()
	}
	resp, err := c.http.Do(req) //nolint:bodyclose // drain closes it
	if err != nil {
		return ConnectionError(err)
	}
	answer := newAnswer(resp)
	answer.Body = drain(resp.Body)
	if r.Judge != nil {
		r.Judge(answer)
	}
	if answer.Taken {
		return nil
	}
	return answer.sendError()
}

func (c *Client) newRequest(ctx context.Context, r Request) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	if r.Header != nil {
		req.Header = r.Header.Clone()
	}
	if req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("User-Agent", c.config.UserAgent)
	req.Header[keyHeader] = []string{r.Key}
	return req, nil
}

// drain reads the answer, within bounds. That it broke off changes nothing: the
// status has been answered.
func drain(body io.ReadCloser) []byte {
	defer func() { _ = body.Close() }()
	answer, _ := io.ReadAll(io.LimitReader(body, maxAnswer))
	return answer
}
