package permissions

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
)

// backoff is how long what is missing is left alone: with jitter, from 5 s to 5 min.
var backoff = wait.Backoff{Duration: 5 * time.Second, Factor: 2, Jitter: 0.1, Steps: 10, Cap: 270 * time.Second}

// Checker asks for the rights until all are there.
type Checker struct {
	reviewer Reviewer
	clock    clock.Clock
	log      logr.Logger

	mu    sync.Mutex
	state state
}

// NewChecker returns a Checker of the rights that are needed.
func NewChecker(reviewer Reviewer, needed []Permission, clk clock.Clock, log logr.Logger) *Checker {
	return &Checker{reviewer: reviewer, clock: clk, log: log, state: state{unknown: needed}}
}

// Healthy returns an error that names what is missing. It is for readiness, not for
// liveness: a restart gives nobody a right.
func (c *Checker) Healthy(*http.Request) error { return c.current().problem() }

// Start implements manager.Runnable. It returns when there is nothing left to ask, or
// when ctx ends.
func (c *Checker) Start(ctx context.Context) error {
	delays := backoff
	for {
		was := c.current()
		is := c.round(ctx, was)
		if ctx.Err() != nil || len(is.open()) == 0 {
			return nil
		}
		if is.err == nil && len(is.open()) < len(was.open()) {
			delays = backoff // whoever grants rights is at it
		}
		if !c.sleep(ctx, delays.Step()) {
			return nil
		}
	}
}

// round asks for what is open, and tells what is new.
func (c *Checker) round(ctx context.Context, was state) state {
	verdicts, err := c.ask(ctx, was.open())
	if ctx.Err() != nil {
		return was
	}
	is := was.after(verdicts, err)
	if apierrors.IsForbidden(err) {
		is = state{} // it will never be known: not to be ready for ever would help nobody
	}
	c.mu.Lock()
	c.state = is
	c.mu.Unlock()
	c.tell(was, is, err)
	return is
}

func (c *Checker) tell(was, is state, err error) {
	if apierrors.IsForbidden(err) {
		c.log.Error(err, "The operator may not ask what it may do, which ClusterRole system:basic-user lets everyone: its rights are not checked")
		return
	}
	if err != nil {
		c.log.Error(err, "The operator's rights could not all be checked; trying again")
	}
	for _, sentence := range describe(without(is.missing, was.missing)) {
		c.log.Error(nil, "The operator lacks a right: it "+sentence)
	}
	for _, right := range without(was.missing, is.missing) {
		c.log.Info("A right that was missing was granted", "verb", right.Verb, "resource", right.path(), "group", right.Group)
	}
	if err == nil && len(is.open()) == 0 {
		c.log.V(1).Info("The operator has all rights that it needs")
	}
}

func (c *Checker) current() state {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// sleep says whether the time passed; if not, ctx ended.
func (c *Checker) sleep(ctx context.Context, d time.Duration) bool {
	timer := c.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-ctx.Done():
		return false
	}
}
