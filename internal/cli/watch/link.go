package watch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// refusalPatience is how long refusals are taken for the confusion of a server that
// has just started, once the watch has worked.
const refusalPatience = 30 * time.Second

// link knows how the connection to the API server is, from how requests went. The
// informer itself would try for ever.
type link struct {
	config Config
	end    context.CancelCauseFunc

	mu sync.Mutex
	// synced says that it has worked.
	synced bool
	// lost says that the connection is lost, and that this was told.
	lost bool
	// refusedSince is when the server began to refuse, zero if it does not.
	refusedSince time.Time
}

// established says that the watch works.
func (l *link) established() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.synced = true
}

// report tells how a request went. A request that the end of the watch has cut off
// says nothing.
func (l *link) report(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.found()
	case isRefusal(err):
		l.refused(err)
	case isLoss(err):
		l.lose(err)
	}
}

func (l *link) found() {
	l.refusedSince = time.Time{}
	if l.lost {
		l.lost = false
		l.config.Tell("connected again")
	}
}

func (l *link) lose(err error) {
	if !l.lost {
		l.lost = true
		if request, ok := errors.AsType[*url.Error](err); ok {
			err = request.Err // without the URL, which is long and tells nothing
		}
		l.config.Tell(fmt.Sprintf("connection lost, trying again: %v", err))
	}
}

func (l *link) refused(err error) {
	now := l.config.Clock.Now()
	if l.refusedSince.IsZero() {
		l.refusedSince = now
	}
	if !l.synced || now.Sub(l.refusedSince) >= refusalPatience {
		l.end(explainRefusal(l.config.Target, err))
	}
}

// isRefusal says whether the server will not let the type be watched, whenever it
// is asked.
func isRefusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) ||
		apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}

// isLoss says whether the server can not be reached, or not answer. What it answers
// to a request that it does not like, the informer knows how to deal with: it asks
// for less, or from a later version on.
func isLoss(err error) bool {
	status, answered := errors.AsType[*apierrors.StatusError](err)
	return !answered || status.ErrStatus.Code >= http.StatusInternalServerError
}

// explainRefusal says what is missing.
func explainRefusal(target Target, err error) error {
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf(`you may not watch %s; it takes the rights "list" and "watch" on %q there: %w`,
			target, target.Type, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the server does not accept the credentials; they may have expired: %w", err)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the server has no %s any more: %w", target.Type, err)
	}
	return fmt.Errorf("the server does not let %s be watched: %w", target.Type, err)
}
