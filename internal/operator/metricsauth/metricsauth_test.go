package metricsauth

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
)

// apiServer knows the tokens of some users.
type apiServer struct {
	users   map[string]string // by token
	allowed map[string]bool   // by user
	err     error
	reviews int
	asked   authorizationv1.SubjectAccessReviewSpec
}

type tokenReviews struct{ *apiServer }

func (s tokenReviews) Create(_ context.Context, r *authenticationv1.TokenReview, _ metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	s.reviews++
	name, ok := s.users[r.Spec.Token]
	r.Status = authenticationv1.TokenReviewStatus{Authenticated: ok, User: authenticationv1.UserInfo{
		Username: name, UID: "1", Groups: []string{"scrapers"}, Extra: map[string]authenticationv1.ExtraValue{"pod": {"p"}},
	}}
	return r, s.err
}

type accessReviews struct{ *apiServer }

func (s accessReviews) Create(_ context.Context, r *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	s.asked = r.Spec
	r.Status.Allowed = s.allowed[r.Spec.User]
	return r, nil
}

func newServer() *apiServer {
	return &apiServer{
		users:   map[string]string{"token-of-prometheus": "prometheus", "token-of-tenant": "tenant"},
		allowed: map[string]bool{"prometheus": true, "": true},
	}
}

func (s *apiServer) filter() (*Filter, *clocktesting.FakePassiveClock) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	return New(tokenReviews{s}, accessReviews{s}, clk), clk
}

// get returns the status of the response to a request.
func get(f *Filter, log logr.Logger, authorization string) int {
	return getFrom("192.0.2.1", f, log, authorization)
}

// getFrom returns the status of the response to a request from an address.
func getFrom(address string, f *Filter, log logr.Logger, authorization string) int {
	served := f.Wrap(log, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	request, response := httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody), httptest.NewRecorder()
	request.RemoteAddr = net.JoinHostPort(address, "40000")
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	served.ServeHTTP(response, request)
	return response.Code
}

func TestOnlyATokenOfAnAllowedUserIsAdmitted(t *testing.T) {
	for name, tc := range map[string]struct {
		authorization string
		want          int
	}{
		"no token":                  {"", http.StatusUnauthorized},
		"an empty token":            {"Bearer ", http.StatusUnauthorized},
		"a password":                {"Basic dG9rZW4tb2YtcHJvbWV0aGV1cw==", http.StatusUnauthorized},
		"an unknown token":          {"Bearer other", http.StatusUnauthorized},
		"a token of another user":   {"Bearer token-of-tenant", http.StatusForbidden},
		"a token of an allowed one": {"Bearer token-of-prometheus", http.StatusOK},
		"an endless token":          {"Bearer " + strings.Repeat("a", maxToken+1), http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := newServer().filter()
			for range 2 { // the second time from the kept result
				if got := get(f, logr.Discard(), tc.authorization); got != tc.want {
					t.Errorf("%d, want %d", got, tc.want)
				}
			}
		})
	}
}

func TestTheAPIServerIsAskedForTheUserAndThePath(t *testing.T) {
	s := newServer()
	f, _ := s.filter()
	get(f, logr.Discard(), "Bearer token-of-prometheus")
	want := authorizationv1.SubjectAccessReviewSpec{
		User: "prometheus", UID: "1", Groups: []string{"scrapers"}, Extra: map[string]authorizationv1.ExtraValue{"pod": {"p"}},
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"},
	}
	if diff := cmp.Diff(want, s.asked); diff != "" {
		t.Error(diff)
	}
}

func TestARevokedTokenWorksForAMinute(t *testing.T) {
	s := newServer()
	f, clk := s.filter()
	get(f, logr.Discard(), "Bearer token-of-prometheus")
	clear(s.users)
	clk.SetTime(time.Unix(59, 0))
	if got := get(f, logr.Discard(), "Bearer token-of-prometheus"); got != http.StatusOK || s.reviews != 1 {
		t.Errorf("%d after %d reviews, want %d after one", got, s.reviews, http.StatusOK)
	}
	clk.SetTime(time.Unix(60, 0))
	if got := get(f, logr.Discard(), "Bearer token-of-prometheus"); got != http.StatusUnauthorized {
		t.Errorf("%d, want %d", got, http.StatusUnauthorized)
	}
}

func TestAFailedReviewAdmitsNothingAndIsNotKept(t *testing.T) {
	s := newServer()
	f, _ := s.filter()
	var logged strings.Builder
	log := funcr.New(func(_, args string) { logged.WriteString(args) }, funcr.Options{})
	s.err = errors.New("the API server is down")
	if got := get(f, log, "Bearer token-of-prometheus"); got != http.StatusServiceUnavailable {
		t.Errorf("%d, want %d", got, http.StatusServiceUnavailable)
	}
	if text := logged.String(); !strings.Contains(text, "is down") || strings.Contains(text, "token-of-prometheus") {
		t.Errorf("the log is %s", text)
	}
	s.err = nil
	if got := get(f, log, "Bearer token-of-prometheus"); got != http.StatusOK {
		t.Errorf("%d, want %d", got, http.StatusOK)
	}
}

// flood sends requests with wrong tokens from an address from which no token was accepted.
func flood(f *Filter) {
	for i := range 10000 {
		getFrom("192.0.2.2", f, logr.Discard(), fmt.Sprint("Bearer ", i))
	}
}

func TestAFloodOfTokensDoesNotStopAClientThatWasAccepted(t *testing.T) {
	for name, tc := range map[string]struct {
		from, token string
		want        int
	}{
		"its token":                      {"192.0.2.1", "token-of-prometheus", http.StatusOK},
		"its token after it has moved":   {"192.0.2.3", "token-of-prometheus", http.StatusOK},
		"its next token":                 {"192.0.2.1", "next-token-of-prometheus", http.StatusOK},
		"a wrong token from its address": {"192.0.2.1", "wrong", http.StatusUnauthorized},
		"another client":                 {"192.0.2.3", "next-token-of-prometheus", http.StatusTooManyRequests},
		"a client that was refused":      {"192.0.2.4", "token-of-tenant", http.StatusTooManyRequests},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer()
			s.users["next-token-of-prometheus"] = "prometheus"
			f, clk := s.filter()
			get(f, logr.Discard(), "Bearer token-of-prometheus")
			getFrom("192.0.2.4", f, logr.Discard(), "Bearer token-of-tenant")
			clk.SetTime(time.Unix(3600, 0)) // no result is kept
			flood(f)
			if got := getFrom(tc.from, f, logr.Discard(), "Bearer "+tc.token); got != tc.want {
				t.Errorf("%d, want %d", got, tc.want)
			}
		})
	}
}

func TestFewReviewsAreReservedForAClientThatWasAccepted(t *testing.T) {
	s := newServer()
	f, clk := s.filter()
	get(f, logr.Discard(), "Bearer token-of-prometheus")
	clk.SetTime(time.Unix(3600, 0))
	flood(f)
	before := s.reviews
	for i := range 100 {
		get(f, logr.Discard(), fmt.Sprint("Bearer wrong ", i))
	}
	if got := s.reviews - before; got != reservedReviews {
		t.Errorf("%d reviews of tokens from its address, want %d", got, reservedReviews)
	}
	if got := get(f, logr.Discard(), "Bearer token-of-prometheus"); got != http.StatusOK {
		t.Errorf("the accepted token gets %d, want %d", got, http.StatusOK)
	}
	for i := range 2 * mostClients { // each with an address of its own
		clk.SetTime(clk.Now().Add(keptFor))
		getFrom(fmt.Sprint("192.0.3.", i), f, logr.Discard(), "Bearer token-of-prometheus")
	}
	if got := f.clients.Len(); got > mostClients {
		t.Errorf("%d clients are known, want at most %d", got, mostClients)
	}
}

func TestAFloodOfTokensIsNoFloodOfReviews(t *testing.T) {
	s := newServer()
	f, clk := s.filter()
	get(f, logr.Discard(), "Bearer token-of-prometheus")
	flood(f)
	if s.reviews != reviewsPerSecond {
		t.Errorf("%d reviews, want %d", s.reviews, reviewsPerSecond)
	}
	if got := getFrom("192.0.2.3", f, logr.Discard(), "Bearer new"); got != http.StatusTooManyRequests {
		t.Errorf("%d, want %d", got, http.StatusTooManyRequests)
	}
	for i := range 40 { // seconds
		clk.SetTime(time.Unix(int64(i), 0))
		for j := range 2 * reviewsPerSecond {
			getFrom("192.0.2.2", f, logr.Discard(), fmt.Sprint("Bearer later ", i, j))
		}
	}
	if len(f.kept) > mostKept {
		t.Errorf("%d results are kept, want at most %d", len(f.kept), mostKept)
	}
	if got := get(f, logr.Discard(), "Bearer token-of-prometheus"); got != http.StatusOK {
		t.Errorf("the token that is used gets %d, want %d", got, http.StatusOK)
	}
}
