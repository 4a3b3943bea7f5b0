package apiwatch

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
)

const (
	// pageSize is the number of objects in a page of a list.
	pageSize = 500
	// IdleTimeout is the time after which a watch that brings nothing is replaced on a new
	// connection. In a quiet cluster, that costs two small requests.
	IdleTimeout = 100 * time.Second
	// WatchTimeout is the minimum duration of a watch that brings bookmarks. The default of the
	// API server is the same (--min-request-timeout).
	WatchTimeout = 30 * time.Minute
	// watchGrace is the time after which the client ends a watch that the server did not
	// end. It is long enough for IdleTimeout to end a short watch first.
	watchGrace = 90 * time.Second
	// dialTimeout limits the time to connect. It is also the interval of TCP's keep-alive.
	dialTimeout = 30 * time.Second
)

// Client lists and watches the objects of one resource in all namespaces. Requests do not retry:
// their user does, because it can also list instead of watch. T is what Decode reads of a page.
type Client[T any] struct {
	rest rest.Interface
	// connections belong to the client alone, so that it can close a silent one without an effect on
	// others.
	connections *connrotation.Dialer
	decode      Decode[T]
	// Path leads to the resource.
	Path string
	// ListFormat and WatchFormat are the content types to ask for.
	ListFormat, WatchFormat string
	// PageSize and IdleTimeout are the constants, except in tests. WatchTimeout is the minimum duration
	// of a watch.
	PageSize                  int64
	IdleTimeout, WatchTimeout time.Duration
}

// Decode reads one page of a list, and calls each with all of its objects: at once, or in parts. An
// object is valid during the call. A page that is too large returns [kube.ErrTooLarge].
type Decode[T any] func(page io.Reader, each func(T) error) (metav1.ListMeta, error)

// NewClient returns a client for the API server of cfg and a content type. It has no rate limit,
// because API Priority and Fairness limits requests.
func NewClient[T any](cfg *rest.Config, contentType string, decode Decode[T]) (*Client[T], error) {
	cfg = rest.CopyConfig(cfg)
	if cfg.Dial == nil {
		cfg.Dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout}).DialContext
	}
	connections := connrotation.NewDialer(cfg.Dial)
	cfg.Dial = connections.DialContext
	cfg.QPS, cfg.Timeout = -1, 0
	cfg.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	cfg.ContentType, cfg.AcceptContentTypes = contentType, contentType
	r, err := rest.UnversionedRESTClientFor(cfg)
	if err != nil {
		return nil, err
	}
	return &Client[T]{
		rest: r, connections: connections, decode: decode, ListFormat: contentType, WatchFormat: contentType,
		PageSize: pageSize, IdleTimeout: IdleTimeout, WatchTimeout: WatchTimeout,
	}, nil
}

// Close closes all connections.
func (c *Client[T]) Close() { c.connections.CloseAll() }

// Watch opens a watch, and returns its bytes. The API server ends the watch after WatchTimeout to
// twice that, or else the client does 90 seconds later. It ends with ErrIdle if nothing comes for
// IdleTimeout.
func (c *Client[T]) Watch(ctx context.Context, opts metav1.ListOptions) (io.ReadCloser, error) {
	lasts := c.WatchTimeout + rand.N(c.WatchTimeout)
	opts.Watch = true
	opts.AllowWatchBookmarks = true
	opts.TimeoutSeconds = new(int64(lasts / time.Second))
	ctx, cancel := context.WithTimeout(ctx, lasts+watchGrace)
	w, err := c.open(ctx, &opts, c.WatchFormat, c.IdleTimeout)
	if err != nil {
		cancel()
		return nil, err
	}
	end := w.end
	w.end = func() { end(); cancel() }
	return w, nil
}

// ErrIdle ends a request that brings nothing for too long.
var ErrIdle = errors.New("the API server sent nothing for too long")

// open sends a request, and returns the bytes of the answer. It ends with ErrIdle if nothing comes for
// idleTimeout. The next request then uses a new connection: something between here and the API
// server can keep the former one alive and deliver nothing.
func (c *Client[T]) open(ctx context.Context, opts *metav1.ListOptions, format string, idleTimeout time.Duration) (*body, error) {
	ctx, abort := context.WithCancelCause(ctx)
	b := &body{end: func() { abort(nil) }, cause: func() error { return context.Cause(ctx) }, idleTimeout: idleTimeout}
	b.idle = time.AfterFunc(idleTimeout, func() { //nolint:forbidigo // limits a request, as a context does; tests use synctest
		abort(ErrIdle)
		c.Close()
	})
	var err error
	b.body, err = c.rest.Get().AbsPath(c.Path).SpecificallyVersionedParams(opts, scheme.ParameterCodec, schema.GroupVersion{Version: "v1"}).
		SetHeader("Accept", format).MaxRetries(0).Stream(ctx)
	b.idle.Stop()
	if err != nil {
		b.end()
		return nil, b.explain(err)
	}
	return b, nil
}

// body is the body of an answer. It measures only the time during which a reader waits. Close
// ends the request.
type body struct {
	body io.ReadCloser
	// end ends the request. cause returns why it has ended.
	end         func()
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
