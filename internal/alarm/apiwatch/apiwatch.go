// Package apiwatch is shared by the sources of occurrences. It contains connections of their own,
// watches that end when nothing comes, and the errors of the API server.
package apiwatch

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
)

const (
	// PageSize is the number of objects in a page of a list.
	PageSize = 500
	// MaxRenewals limits how often a list continues after its position has expired.
	MaxRenewals = 3
	// ListTimeout limits the request for one page.
	ListTimeout = time.Minute
	// IdleTimeout is the time after which a watch that brings nothing is replaced on a new
	// connection. In a quiet cluster, that costs two small requests.
	IdleTimeout = 100 * time.Second
	// EarlyClose is the minimum duration of a watch that brings nothing. Some API servers
	// close the watch of an expired position without an error (kubernetes#104171,
	// kubernetes#137089).
	EarlyClose = 5 * time.Second
	// WatchTimeout is the minimum duration of a watch that brings bookmarks. The default of the
	// API server is the same (--min-request-timeout).
	WatchTimeout = 30 * time.Minute
	// watchGrace is the time after which the client ends a watch that the server did not
	// end. It is long enough for IdleTimeout to end a short watch first.
	watchGrace = 90 * time.Second
	// maxRetryAfter limits the delay that an answer asks for. It can come from a proxy, and the
	// API server keeps a position for a few minutes only.
	maxRetryAfter = time.Minute
	// dialTimeout limits the time to connect. It is also the interval of TCP's keep-alive.
	dialTimeout = 30 * time.Second
)

// Config returns a copy of cfg without a rate limit, because API Priority and Fairness limits
// requests. The copy has connections of its own, so that its user can close them.
func Config(cfg *rest.Config) (own *rest.Config, connections *connrotation.Dialer) {
	own = rest.CopyConfig(cfg)
	dial := own.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout}).DialContext
	}
	connections = connrotation.NewDialer(dial)
	own.Dial = connections.DialContext
	own.QPS = -1
	own.Timeout = 0
	return own, connections
}

// ErrIdle ends a watch that brought nothing for too long.
var ErrIdle = errors.New("the API server sent nothing for too long")

// Open opens a watch with the request for opts, and returns its bytes. The API server ends the watch
// after lasts to twice that, or else the client does 90 seconds later. It ends with ErrIdle if
// nothing comes for idleTimeout. The next request then uses a new connection: something
// between here and the API server can keep the former one alive and deliver nothing.
func Open(ctx context.Context, connections *connrotation.Dialer, lasts, idleTimeout time.Duration, opts metav1.ListOptions, request func(*metav1.ListOptions) *rest.Request) (io.ReadCloser, error) {
	lasts += rand.N(lasts)
	opts.Watch = true
	opts.AllowWatchBookmarks = true
	opts.TimeoutSeconds = new(int64(lasts / time.Second))
	ctx, cancel := context.WithTimeout(ctx, lasts+watchGrace)
	ctx, abort := context.WithCancelCause(ctx)
	w := &body{end: cancel, cause: func() error { return context.Cause(ctx) }, idleTimeout: idleTimeout}
	w.idle = time.AfterFunc(idleTimeout, func() { //nolint:forbidigo // limits a request, as its context does; tests use synctest
		abort(ErrIdle)
		connections.CloseAll()
	})
	var err error
	w.body, err = request(&opts).Stream(ctx)
	w.idle.Stop()
	if err != nil {
		cancel()
		return nil, w.explain(err)
	}
	return w, nil
}

// body is the body of a watch. It measures only the time during which a reader waits. Close
// ends the request.
type body struct {
	body io.ReadCloser
	// end ends the request. cause returns why it has ended.
	end         context.CancelFunc
	cause       func() error
	idle        *time.Timer
	idleTimeout time.Duration
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.idle.Reset(b.idleTimeout)
	n, err := b.body.Read(p)
	b.idle.Stop()
	return n, b.explain(err)
}

// explain returns ErrIdle instead of an error that it caused.
func (b *body) explain(err error) error {
	if err != nil && errors.Is(b.cause(), ErrIdle) {
		return ErrIdle
	}
	return err
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.end()
	return b.body.Close()
}

// IsExpired reports whether the API server no longer has the position (410). The error can be
// the status of a response or an entry of a watch.
func IsExpired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// IsStatus reports whether the error is a status of the API server.
func IsStatus(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

// NewerContinue returns the token with which a list continues at the newest position, if its
// own has expired.
func NewerContinue(err error) string {
	var status apierrors.APIStatus
	if !IsExpired(err) || !errors.As(err, &status) {
		return ""
	}
	return status.Status().Continue
}

// RetryAfter returns the delay that the API server asks for, but at most maxRetryAfter.
func RetryAfter(err error) time.Duration {
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return time.Duration(min(seconds, int(maxRetryAfter/time.Second))) * time.Second
}

// ParsePosition returns a resourceVersion as a number.
func ParsePosition(version string) (uint64, error) {
	if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
		return 0, err
	}
	return strconv.ParseUint(version, 10, 64)
}

// FormatPosition returns the resourceVersion of a position.
func FormatPosition(position uint64) string {
	return strconv.FormatUint(position, 10)
}

// ResumeAt returns the options of a watch that begins after a position.
func ResumeAt(position uint64) metav1.ListOptions {
	return metav1.ListOptions{ResourceVersion: FormatPosition(position)}
}

// ListAt returns the options of a list of the objects as of a position.
func ListAt(position uint64) metav1.ListOptions {
	return metav1.ListOptions{ResourceVersion: FormatPosition(position), ResourceVersionMatch: metav1.ResourceVersionMatchExact}
}
