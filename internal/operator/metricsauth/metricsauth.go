// Package metricsauth admits requests for metrics only with the token of a user who can get
// their path. The API server checks both. The filter of controller-runtime does the same, but
// adds gRPC and OpenTelemetry to the operator, which make it a third larger.
package metricsauth

import (
	"context"
	"crypto/sha256"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
)

const (
	// keptFor is how long the result for a token is used. A token that is revoked works until
	// then.
	keptFor = time.Minute
	// mostKept is the number of tokens whose results are kept.
	mostKept = 100
	// reviewsPerSecond limits the reviews for all clients that were never accepted. Requests
	// with random tokens must not become a flood of requests to the API server.
	reviewsPerSecond = 10
	// reservedReviews is the number of reviews that each accepted client can use at once.
	// It gets one more in a second.
	reservedReviews = 5
	// mostClients is the number of tokens and addresses that have reserved reviews.
	mostClients = 100
	// reviewTimeout is the longest time of a review.
	reviewTimeout = 10 * time.Second
	// maxToken is the longest token, in bytes.
	maxToken = 16 << 10
)

// TokenReviewer finds the user of a token. The client of client-go implements it.
type TokenReviewer interface {
	Create(context.Context, *authenticationv1.TokenReview, metav1.CreateOptions) (*authenticationv1.TokenReview, error)
}

// AccessReviewer asks for a permission of a user. The client of client-go implements it.
type AccessReviewer interface {
	Create(context.Context, *authorizationv1.SubjectAccessReview, metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error)
}

// Filter admits or refuses requests. It is safe for concurrent use.
type Filter struct {
	tokens TokenReviewer
	access AccessReviewer
	clock  clock.PassiveClock
	limit  *rate.Limiter
	// clients are the reserved limits of accepted tokens, by digest, and of the addresses
	// from which they came. A client that gets a new token keeps its address.
	clients *lru.Cache[string, *rate.Limiter]

	mu   sync.Mutex
	kept map[key]result
}

// key is a request for a path with a token. Only the digest of a token is kept.
type key struct {
	token        [sha256.Size]byte
	method, path string
}

// result is the status of the response to a request, and when it was found out.
type result struct {
	status int
	at     time.Time
}

// New returns a Filter.
func New(tokens TokenReviewer, access AccessReviewer, clk clock.PassiveClock) *Filter {
	clients, err := lru.New[string, *rate.Limiter](mostClients)
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	return &Filter{
		clients: clients,
		tokens:  tokens, access: access, clock: clk, kept: map[key]result{},
		limit: rate.NewLimiter(reviewsPerSecond, reviewsPerSecond),
	}
}

// Wrap returns a handler that forwards the requests that are admitted. Others get the status
// 401, 403, 429 if too many tokens are reviewed, or 503 if the API server does not answer.
func (f *Filter) Wrap(log logr.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, err := f.status(r)
		if err != nil {
			log.Error(err, "The token of a request for metrics could not be reviewed")
		}
		if status != http.StatusOK {
			http.Error(w, http.StatusText(status), status)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (f *Filter) status(r *http.Request) (int, error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || token == "" || len(token) > maxToken {
		return http.StatusUnauthorized, nil
	}
	k := key{sha256.Sum256([]byte(token)), strings.ToLower(r.Method), r.URL.Path}
	if status, ok := f.lookup(k); ok {
		return status, nil
	}
	client := []string{string(k.token[:]), host(r.RemoteAddr)}
	if !f.allows(client) {
		return http.StatusTooManyRequests, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	status, err := f.review(ctx, token, k)
	if err != nil {
		return http.StatusServiceUnavailable, err
	}
	f.keep(k, status)
	if status == http.StatusOK {
		f.reserve(client)
	}
	return status, nil
}

// host returns the address of a client without its port.
func host(address string) string {
	name, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return name
}

// allows reports whether a token can be reviewed now. It uses the reserved reviews of the
// token, then those of the address, then the ones that all clients share.
func (f *Filter) allows(client []string) bool {
	now := f.clock.Now()
	for _, id := range client {
		if reserved, ok := f.clients.Get(id); ok && reserved.AllowN(now, 1) {
			return true
		}
	}
	return f.limit.AllowN(now, 1)
}

// reserve reserves reviews for a token and an address.
func (f *Filter) reserve(client []string) {
	for _, id := range client {
		if _, ok := f.clients.Get(id); !ok {
			f.clients.Add(id, rate.NewLimiter(1, reservedReviews))
		}
	}
}

// review asks the API server who has the token, and what this user is allowed.
func (f *Filter) review(ctx context.Context, token string, k key) (int, error) {
	who, err := f.tokens.Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return 0, err
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user := who.Status.User
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, Groups: user.Groups, UID: user.UID, Extra: map[string]authorizationv1.ExtraValue{},
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: k.path, Verb: k.method},
	}
	for name, values := range user.Extra {
		spec.Extra[name] = authorizationv1.ExtraValue(values)
	}
	may, err := f.access.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return 0, err
	}
	if !may.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}

func (f *Filter) lookup(k key) (int, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kept, ok := f.kept[k]
	return kept.status, ok && f.clock.Since(kept.at) < keptFor
}

// keep keeps a result. If there is no space, it removes all that are refused or too old, and
// then all others.
func (f *Filter) keep(k key, status int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.kept) >= mostKept {
		for other, kept := range f.kept {
			if kept.status != http.StatusOK || f.clock.Since(kept.at) >= keptFor {
				delete(f.kept, other)
			}
		}
	}
	if len(f.kept) >= mostKept {
		clear(f.kept)
	}
	f.kept[k] = result{status, f.clock.Now()}
}
