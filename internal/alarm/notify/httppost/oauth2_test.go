package httppost_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
)

// protected is a token server together with the server that it protects.
type protected struct {
	*httptest.Server

	mu sync.Mutex
	// issued is the number of tokens so far. The last one is valid unless refuses is true.
	issued  int
	refuses bool
	// status is that of a refusal.
	status int
	// answer replaces that of the token server if it is set.
	answer http.HandlerFunc
	// form and user are those of the last request for a token.
	form           url.Values
	user, password string
	posts          int
}

func newProtected(t *testing.T) *protected {
	t.Helper()
	p := &protected{status: http.StatusUnauthorized}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", p.serveToken)
	mux.HandleFunc("POST /secret", p.servePost)
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

func (p *protected) serveToken(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = r.ParseForm()
	p.form = r.PostForm
	p.user, p.password, _ = r.BasicAuth()
	p.issued++
	if p.answer != nil {
		p.answer(w, r)
		return
	}
	_, _ = fmt.Fprintf(w, `{"access_token": "secret-token-%d", "token_type": "Bearer", "expires_in": 300}`, p.issued)
}

func (p *protected) servePost(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.posts++
	if p.refuses || r.Header.Get("Authorization") != fmt.Sprintf("Bearer secret-token-%d", p.issued) {
		w.WriteHeader(p.status)
	}
}

// counts returns how many tokens were requested, and how many messages were posted.
func (p *protected) counts() [2]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return [2]int{p.issued, p.posts}
}

func (p *protected) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func (p *protected) client(t *testing.T, clk *clocktesting.FakePassiveClock, change ...func(*httppost.OAuth2)) *httppost.Client {
	t.Helper()
	config := httppost.OAuth2{TokenURL: p.URL + "/token", ClientID: "bongsu", ClientSecret: "the secret: 100%", Clock: clk}
	for _, c := range change {
		c(&config)
	}
	return newClient(t, nil, nil).WithOAuth2(config)
}

func TestATokenIsRequestedOnceAndReplacedBeforeItsEnd(t *testing.T) {
	p, clk := newProtected(t), clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	c := p.client(t, clk)
	for i, step := range []struct {
		after time.Duration
		want  [2]int
	}{{0, [2]int{1, 1}}, {time.Minute, [2]int{1, 2}}, {3*time.Minute + 29*time.Second, [2]int{1, 3}}, {time.Second, [2]int{2, 4}}} {
		clk.SetTime(clk.Now().Add(step.after))
		if err := post(t, c, p.URL+"/secret"); err != nil {
			t.Fatalf("post %d: %v", i, err)
		}
		if got := p.counts(); got != step.want {
			t.Errorf("post %d: %v requests for tokens and posts, want %v", i, got, step.want)
		}
	}
}

func TestTheCredentialsAreSentAsConfigured(t *testing.T) {
	for name, tc := range map[string]struct {
		change         func(*httppost.OAuth2)
		form           url.Values
		user, password string
	}{
		"in the header": {
			func(*httppost.OAuth2) {}, url.Values{"grant_type": {"client_credentials"}}, "bongsu", "the+secret%3A+100%25",
		},
		"in the body": {
			func(c *httppost.OAuth2) { c.InBody = true },
			url.Values{"grant_type": {"client_credentials"}, "client_id": {"bongsu"}, "client_secret": {"the secret: 100%"}}, "", "",
		},
		"with scopes and an audience": {
			func(c *httppost.OAuth2) { c.Scopes, c.Audience = []string{"a", "b"}, "https://a.example" },
			url.Values{"grant_type": {"client_credentials"}, "scope": {"a b"}, "audience": {"https://a.example"}}, "bongsu", "the+secret%3A+100%25",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProtected(t)
			if err := post(t, p.client(t, clocktesting.NewFakePassiveClock(time.Unix(0, 0)), tc.change), p.URL+"/secret"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.form, p.form); diff != "" || p.user != tc.user || p.password != tc.password {
				t.Errorf("user %q, password %q, form (-want +got):\n%s", p.user, p.password, diff)
			}
		})
	}
}

func TestARevokedTokenIsReplacedByARetry(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		p := newProtected(t)
		p.status = status
		c := p.client(t, clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
		if err := post(t, c, p.URL+"/secret"); err != nil {
			t.Fatal(err)
		}
		p.set(func() { p.issued++ }) // the server accepts another one now
		if err := post(t, c, p.URL+"/secret"); err == nil || err.Class != notify.Retry {
			t.Errorf("%d: got %v, want an error that a retry corrects", status, err)
		}
		if err := post(t, c, p.URL+"/secret"); err != nil {
			t.Errorf("%d: the retry: %v", status, err)
		}
	}
}

func TestAReceiverThatRefusesEachTokenIsParked(t *testing.T) {
	p := newProtected(t)
	p.refuses = true
	c := p.client(t, clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
	for range 2 {
		if err := post(t, c, p.URL+"/secret"); err == nil || err.Class != notify.Stop || !strings.Contains(err.Text, "refuses the access token: check oauth2") {
			t.Errorf("got %v", err)
		}
	}
	if got := p.counts(); got != [2]int{2, 2} {
		t.Errorf("%v requests for tokens and posts, want a new token for each attempt", got)
	}
}

// A failure of the token server must not drop the message.
func TestAFailureOfTheTokenServerIsNoFailureOfTheMessage(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_, _ = io.WriteString(w, `{"error": "invalid_client", "error_description": "secret"}`)
		}
	}
	body := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
	}
	const noToken = "the token server's answer contains no bearer token: check tokenURL"
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		class  notify.Class
		text   string
	}{
		"400":               {status(http.StatusBadRequest), notify.Stop, "the token server refuses the client: check clientID, the Secret, and the scopes (HTTP 400 Bad Request)"},
		"401":               {status(http.StatusUnauthorized), notify.Stop, "the token server refuses the client"},
		"422":               {status(http.StatusUnprocessableEntity), notify.Stop, "the token server refuses the client"},
		"a redirect":        {status(http.StatusFound), notify.Stop, "the token server refuses the client"},
		"429":               {status(http.StatusTooManyRequests), notify.Retry, "the token server asks for fewer messages"},
		"500":               {status(http.StatusInternalServerError), notify.Retry, "the token server has an internal error"},
		"no JSON":           {body("secret"), notify.Stop, noToken},
		"no token":          {body(`{"token_type": "bearer"}`), notify.Stop, noToken},
		"another type":      {body(`{"access_token": "secret", "token_type": "mac"}`), notify.Stop, noToken},
		"two lines":         {body(`{"access_token": "secret\nX-A: b", "token_type": "bearer"}`), notify.Stop, noToken},
		"a large token":     {body(`{"access_token": "` + strings.Repeat("a", 8<<10+1) + `", "token_type": "bearer"}`), notify.Stop, noToken},
		"a connection lost": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, notify.Retry, "the connection to the token server broke off"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProtected(t)
			p.answer = tc.answer
			err := post(t, p.client(t, clocktesting.NewFakePassiveClock(time.Unix(0, 0))), p.URL+"/secret")
			if err == nil || err.Class != tc.class || !strings.HasPrefix(err.Text, tc.text) || strings.Contains(err.Text, "secret") {
				t.Errorf("got %v, want a %s with the text %q", err, tc.class, tc.text)
			}
			if p.counts()[1] != 0 {
				t.Error("the message was posted without a token")
			}
		})
	}
}

func TestTheLifetimeOfAToken(t *testing.T) {
	for expires, lasts := range map[string]time.Duration{
		`3600`: 3570 * time.Second, `"3600"`: 3570 * time.Second, `20`: 15 * time.Second, `1e300`: 24*time.Hour - 30*time.Second,
		`null`: 270 * time.Second, `0`: 270 * time.Second, `-5`: 270 * time.Second, `"NaN"`: 270 * time.Second,
	} {
		p, clk := newProtected(t), clocktesting.NewFakePassiveClock(time.Unix(0, 0))
		p.answer = func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"access_token": "secret-token-%d", "token_type": "bearer", "expires_in": %s}`, p.issued, expires)
		}
		c := p.client(t, clk)
		for _, step := range []struct {
			at     time.Duration
			tokens int
		}{{0, 1}, {lasts - time.Millisecond, 1}, {lasts, 2}} {
			clk.SetTime(time.Unix(0, 0).Add(step.at))
			if err := post(t, c, p.URL+"/secret"); err != nil || p.counts()[0] != step.tokens {
				t.Errorf("expires_in %s: %d tokens after %s, want %d: %v", expires, p.counts()[0], step.at, step.tokens, err)
			}
		}
	}
}

func TestAGuardedClientRequestsNoTokenFromAForbiddenAddress(t *testing.T) {
	p := newProtected(t)
	c := newClient(t, allowing(), nil).WithOAuth2(httppost.OAuth2{
		TokenURL: p.URL + "/token", ClientID: "a", ClientSecret: "b", Clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0)),
	})
	err := post(t, c, "https://a.example/secret")
	if err == nil || err.Reason != v1alpha1.ReasonAddressNotAllowed || !strings.HasPrefix(err.Text, "the token server's host does not exist") {
		t.Errorf("got %v", err)
	}
	if got := p.counts(); got != [2]int{} {
		t.Errorf("%v requests", got)
	}
}

func TestConcurrentPostsShareOneToken(t *testing.T) {
	p := newProtected(t)
	c := p.client(t, clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
	var group sync.WaitGroup
	failures := make([]error, 8)
	for i := range failures {
		group.Go(func() {
			failures[i] = c.Post(t.Context(), httppost.Request{URL: p.URL + "/secret", Key: "key", Body: []byte("{}")})
		})
	}
	group.Wait()
	if err := errors.Join(failures...); err != nil || p.counts() != [2]int{1, 8} {
		t.Errorf("%v requests for tokens and posts: %v", p.counts(), err)
	}
}
