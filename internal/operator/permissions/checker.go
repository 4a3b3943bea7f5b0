package permissions

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
)

// backoff is the time between checks: from 5 s to 5 min, with jitter.
var backoff = wait.Backoff{Duration: 5 * time.Second, Factor: 2, Jitter: 0.1, Steps: 10, Cap: 270 * time.Second}

// Checker checks permissions until all are granted.
type Checker struct {
	reviewer Reviewer
	clock    clock.Clock
	log      logr.Logger

	mu    sync.Mutex
	state state
}

// NewChecker returns a Checker of the needed permissions.
func NewChecker(reviewer Reviewer, needed []Permission, clk clock.Clock, log logr.Logger) *Checker {
	return &Checker{reviewer: reviewer, clock: clk, log: log, state: state{unknown: needed}}
}

// Healthy returns an error that names the missing permissions. It is a check of readiness,
// not of liveness: a restart grants no permission.
func (c *Checker) Healthy(*http.Request) error { return c.current().problem() }

// Start implements manager.Runnable. It returns when all permissions are granted, or when
// ctx ends.
func (c *Checker) Start(ctx context.Context) error {
	delays := backoff
	for {
		was := c.current()
		is := c.round(ctx, was)
		if ctx.Err() != nil || len(is.open()) == 0 {
			return nil
		}
		if is.err == nil && len(is.open()) < len(was.open()) {
			delays = backoff // an administrator is granting permissions
		}
		if !c.sleep(ctx, delays.Step()) {
			return nil
		}
	}
}

// round checks the open permissions, and logs changes.
func (c *Checker) round(ctx context.Context, was state) state {
	results, err := c.ask(ctx, was.open())
	if ctx.Err() != nil {
		return was
	}
	is := was.after(results, err)
	if apierrors.IsForbidden(err) {
		is = state{} // the permissions stay unknown, which must not block readiness forever
	}
	c.mu.Lock()
	c.state = is
	c.mu.Unlock()
	c.logChanges(was, is, err)
	return is
}

func (c *Checker) logChanges(was, is state, err error) {
	if apierrors.IsForbidden(err) {
		c.log.Error(err, "The operator's permissions are not checked, because it may not ask for them: grant it ClusterRole system:basic-user")
		return
	}
	if err != nil {
		c.log.Error(err, "The check of the operator's permissions failed; it is retried")
	}
	for _, sentence := range describe(without(is.missing, was.missing)) {
		c.log.Error(nil, "The operator lacks a permission: it "+sentence)
	}
	for _, p := range without(was.missing, is.missing) {
		c.log.Info("A missing permission was granted", "verb", p.Verb, "resource", p.path(), "group", p.Group)
	}
	if err == nil && len(is.open()) == 0 {
		c.log.V(1).Info("The operator has all permissions that it needs")
	}
}

func (c *Checker) current() state {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// sleep returns false if ctx ends first.
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

var _ prometheus.Collector = (*Checker)(nil)

// description is that of a metric without series if all permissions are granted. The roles
// limit the values of its labels.
var description = prometheus.NewDesc(prometheus.BuildFQName("bongsu", "permissions", "missing"),
	"Permissions that the operator lacks. No series means that none is missing.",
	[]string{"group", "resource", "verb"}, nil)

// Describe implements prometheus.Collector.
func (c *Checker) Describe(out chan<- *prometheus.Desc) { out <- description }

// Collect implements prometheus.Collector.
func (c *Checker) Collect(out chan<- prometheus.Metric) {
	counts := map[[3]string]int{} // a permission can be missing for several names
	for _, r := range c.current().missing {
		counts[[...]string{r.Group, r.path(), r.Verb}]++
	}
	for labels, n := range counts {
		out <- prometheus.MustNewConstMetric(description, prometheus.GaugeValue, float64(n), labels[:]...)
	}
}
