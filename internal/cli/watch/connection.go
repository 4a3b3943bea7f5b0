package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// refusalGrace is how long a watch that has worked ignores refusals. A restarted server
// may refuse requests until its caches are loaded.
const refusalGrace = 30 * time.Second

// connection derives the state of the connection to the API server from the results of
// requests. It ends the watch on a permanent refusal, because the informer would retry
// forever.
type connection struct {
	config Config
	end    context.CancelCauseFunc

	mu sync.Mutex
	// synced is true once the cache has been filled.
	synced bool
	// lost is true while the connection is lost. The loss has been reported then.
	lost bool
	// refusedSince is the time of the first refusal since the last success; zero if there
	// is none.
	refusedSince time.Time
}

// established records that the watch works.
func (c *connection) established() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.synced = true
}

// observe records the result of a request. It ignores requests that failed because the
// watch ends.
func (c *connection) observe(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.recovered()
	case isRefusal(err):
		c.noteRefusal(err)
	case isConnectionLoss(err):
		c.noteLoss(err)
	}
}

func (c *connection) recovered() {
	c.refusedSince = time.Time{}
	if c.lost {
		c.lost = false
		c.config.Status("connected again")
	}
}

func (c *connection) noteLoss(err error) {
	if !c.lost {
		c.lost = true
		if request, ok := errors.AsType[*url.Error](err); ok {
			err = request.Err // without the URL, which is long
		}
		c.config.Status(fmt.Sprintf("connection lost, trying again: %v", err))
	}
}

func (c *connection) noteRefusal(err error) {
	now := c.config.Clock.Now()
	if c.refusedSince.IsZero() {
		c.refusedSince = now
	}
	if !c.synced || now.Sub(c.refusedSince) >= refusalGrace {
		c.end(explainRefusal(c.config.Target, err))
	}
}

// isRefusal reports whether the server refuses to serve this watch. A retry does not
// help then.
func isRefusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) ||
		apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}

// isConnectionLoss reports whether the server is unreachable or fails. The informer
// handles client errors itself, such as an expired resourceVersion.
func isConnectionLoss(err error) bool {
	status, answered := errors.AsType[*apierrors.StatusError](err)
	return !answered || status.ErrStatus.Code >= http.StatusInternalServerError
}

// explainRefusal adds to a refusal what to do about it.
func explainRefusal(target Target, err error) error {
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf(`you may not watch %s: ask for the permissions "list" and "watch" on %q there: %w`,
			target, target.Type, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the server does not accept your credentials: renew them if they have expired: %w", err)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the server no longer has the type %s: check that its CustomResourceDefinition is installed: %w", target.Type, err)
	}
	return fmt.Errorf("the server does not support watching %s: %w", target.Type, err)
}

// newSource returns the list and watch functions of the informer. The connection
// observes the result of each request.
func newSource(config Config, conn *connection) *cache.ListWatch {
	objects := config.Client.Resource(config.Target.Type.Resource).Namespace(config.Target.Namespace)
	selector := config.Target.Selector.String()
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			all, err := objects.List(ctx, o)
			conn.observe(ctx, err)
			return all, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			o.LabelSelector = selector
			stream, err := objects.Watch(ctx, o)
			conn.observe(ctx, cmp.Or(err, errorOf(stream)))
			return stream, err
		},
	}
}

// errNoAnswer reports a connection that closed before the server answered. client-go
// returns an empty stream instead of an error.
var errNoAnswer = errors.New("the server does not answer")

var emptyStream = reflect.TypeOf(apiwatch.NewEmptyWatch())

func errorOf(stream apiwatch.Interface) error {
	if reflect.TypeOf(stream) == emptyStream {
		return errNoAnswer
	}
	return nil
}
