package source

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// Feed reads the Events of one API server. It is safe for concurrent use, but
// Run may be under way only once at a time.
type Source struct {
	client  *client
	clock   clock.Clock
	log     logr.Logger
	backoff wait.Backoff
	// earlyClose is the constant of that name, except in tests.
	earlyClose time.Duration
	lag        prometheus.Histogram

	mu    sync.Mutex
	state State
	// uncommitted is when the oldest of the batch happened that is being committed.
	uncommitted time.Time
	// failure is the handler's last error, nil once it has succeeded.
	failure error
}

// New returns a feed of the API server that cfg describes. The configuration's
// content type and rate limit are overridden: protobuf, and no limit, since API
// Priority and Fairness governs.
func New(cfg *rest.Config, clk clock.Clock, log logr.Logger) (*Source, error) {
	c, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	return &Source{
		client:     c,
		clock:      clk,
		log:        log,
		backoff:    defaultBackoff,
		earlyClose: earlyClose,
		lag:        newLag(),
	}, nil
}

// defaultBackoff waits from 1 s to 20 s, and each time up to half as long again.
var defaultBackoff = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 20 * time.Second}

// Run reads from start on and hands each batch to handle, one at a time, until
// ctx ends; then it returns nil and has left no goroutine behind. The first batch
// may hold no occurrence: it carries the position to commit before anything is
// consumed. Failures of the API server and of the handler are retried inside. An
// error is one of start.Counts.
func (f *Source) Run(ctx context.Context, start Start, handle Handler) error {
	changes := make(chan change, maxChanges)
	r, err := newReader(f, start, changes)
	if err != nil {
		return err
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(changes)
		r.run(ctx)
	})
	f.deliver(ctx, changes, handle)
	reading.Wait()
	f.stopped()
	return nil
}

// sleep waits for d, or until ctx ends.
func (f *Source) sleep(ctx context.Context, d time.Duration) {
	timer := f.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	}
}
