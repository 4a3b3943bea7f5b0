package httppost

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm/notify"
)

// OAuth2 are the client credentials for access tokens (RFC 6749, section 4.4).
type OAuth2 struct {
	TokenURL     string
	ClientID     string
	ClientSecret string
	Scopes       []string
	// Audience is sent if it is not empty.
	Audience string
	// InBody sends the credentials in the body and not in the header Authorization.
	InBody bool
	Clock  clock.PassiveClock
}

// Times of access tokens.
const (
	// tokenLifetime is assumed for a token whose lifetime the server does not state.
	tokenLifetime    = 5 * time.Minute
	maxTokenLifetime = 24 * time.Hour
	// tokenMargin is how long before its end a token is replaced, but at most a quarter of
	// its lifetime.
	tokenMargin = 30 * time.Second
)

// accessToken is what a token may consist of. It is a part of a header.
var accessToken = regexp.MustCompile(`^[\x21-\x7E]+$`)

// maxToken is the maximum length of a token, in bytes.
const maxToken = 8 << 10

// tokens gets access tokens and keeps the present one.
type tokens struct {
	client *Client
	config OAuth2
	// lock holds one element while a goroutine uses token and end.
	lock  chan struct{}
	token string
	end   time.Time
}

// WithOAuth2 returns a Client that adds an access token to each post. It requests tokens
// with the same guard, proxy and certificate authorities, but without the client's
// certificate.
func (c *Client) WithOAuth2(config OAuth2) *Client {
	with, client := *c, c
	if c.config.Certificate != nil {
		client = c.With(func(cfg *Config) { cfg.Certificate = nil })
	}
	with.tokens = &tokens{client: client, config: config, lock: make(chan struct{}, 1)}
	return &with
}

// postWithToken makes one request with an access token. If the server refuses a token that
// was used before, a retry gets a new one.
func (c *Client) postWithToken(ctx context.Context, r Request) error {
	token, isNew, err := c.tokens.get(ctx)
	if err != nil {
		return err
	}
	r.Header = r.Header.Clone()
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header.Set("Authorization", "Bearer "+token)
	classify := r.Classify
	r.Classify = func(response *Response) {
		switch {
		case refusesToken(response.Status) && !isNew: // it can have been revoked
			c.tokens.forget(token)
			response.Refuse(notify.Retry, "the receiver refuses the access token: the operator requests a new one")
		case response.Status == http.StatusUnauthorized:
			c.tokens.forget(token)
			response.Refuse(notify.Stop, "the receiver refuses the access token: check oauth2, and what the client is allowed to do")
		case classify != nil:
			classify(response)
		}
	}
	return c.post(ctx, r)
}

// refusesToken reports whether a status can mean that the token is no longer valid. Some
// gateways answer 403 instead of 401.
func refusesToken(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}

// get returns the present token, or requests one. isNew means that no request has used it.
func (t *tokens) get(ctx context.Context) (token string, isNew bool, err error) {
	select {
	case t.lock <- struct{}{}:
	case <-ctx.Done():
		return "", false, ConnectionError(context.Cause(ctx))
	}
	defer func() { <-t.lock }()
	now := t.config.Clock.Now()
	if t.token != "" && now.Before(t.end) {
		return t.token, false, nil
	}
	answer, err := t.request(ctx)
	if err != nil {
		return "", false, ofTokenServer(err)
	}
	lifetime := answer.lifetime()
	t.token, t.end = answer.AccessToken, now.Add(lifetime-min(tokenMargin, lifetime/4))
	return t.token, true, nil
}

// forget removes the present token if it is the given one.
func (t *tokens) forget(token string) {
	t.lock <- struct{}{}
	defer func() { <-t.lock }()
	if t.token == token {
		t.token = ""
	}
}

func (t *tokens) request(ctx context.Context) (*tokenAnswer, error) {
	form := url.Values{"grant_type": {"client_credentials"}}
	if len(t.config.Scopes) > 0 {
		form.Set("scope", strings.Join(t.config.Scopes, " "))
	}
	if t.config.Audience != "" {
		form.Set("audience", t.config.Audience)
	}
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {"application/json"}}
	if t.config.InBody {
		form.Set("client_id", t.config.ClientID)
		form.Set("client_secret", t.config.ClientSecret)
	} else {
		// Both are encoded as in a form before they are joined (RFC 6749, section 2.3.1).
		req := http.Request{Header: header}
		req.SetBasicAuth(url.QueryEscape(t.config.ClientID), url.QueryEscape(t.config.ClientSecret))
	}
	var answer tokenAnswer
	err := t.client.post(ctx, Request{
		URL: t.config.TokenURL, Header: header, Body: []byte(form.Encode()), Classify: answer.classify,
	})
	return &answer, err
}

// tokenAnswer is the answer of a token server. It is a secret.
type tokenAnswer struct {
	AccessToken string          `json:"access_token"`
	TokenType   string          `json:"token_type"`
	ExpiresIn   json.RawMessage `json:"expires_in"`
}

// classify reads the answer.
func (a *tokenAnswer) classify(r *Response) {
	switch {
	case !r.Accepted && r.Class != notify.Retry:
		r.Refuse(notify.Stop, "the token server refuses the client: check clientID, the Secret, and the scopes")
	case !r.Accepted:
	case json.Unmarshal(r.Body, a) != nil || len(a.AccessToken) > maxToken || !accessToken.MatchString(a.AccessToken) || !strings.EqualFold(a.TokenType, "bearer"):
		r.Refuse(notify.Stop, "the token server's answer contains no bearer token: check tokenURL")
	}
}

func (a *tokenAnswer) lifetime() time.Duration {
	seconds, err := strconv.ParseFloat(strings.Trim(string(a.ExpiresIn), `"`), 64)
	if err != nil || !(seconds > 0) {
		return tokenLifetime
	}
	return time.Duration(min(seconds, maxTokenLifetime.Seconds()) * float64(time.Second))
}

// ofTokenServer returns an error of a request to the token server. No such error means that
// the receiver refuses the message.
func ofTokenServer(err error) error {
	failure, ok := errors.AsType[*notify.SendError](err)
	if !ok {
		return err
	}
	named := *failure
	named.Answer = "" // it can contain a token
	named.Text = strings.NewReplacer("the receiver's", "the token server's", "the receiver", "the token server").Replace(failure.Text)
	if named.Class == notify.Reject {
		named.Class = notify.Stop
	}
	return &named
}
