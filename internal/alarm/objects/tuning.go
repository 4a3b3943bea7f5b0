package objects

import (
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/bongsu-io/bongsu/internal/alarm/apiwatch"
)

// tuning contains constants that tests change.
type tuning struct {
	backoff, forbidden     wait.Backoff
	earlyClose, idle       time.Duration
	missing, batch, commit time.Duration
	// linger is how long fields and watches are kept that no alarm needs any more. collect is the
	// least time between two changes of the watches.
	linger, collect time.Duration
	// review is the time between two reviews of the resources in spec.readObjects.
	review   time.Duration
	pageSize int64
}

func defaultTuning() tuning {
	return tuning{
		backoff:    wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 20 * time.Second},
		forbidden:  wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.1, Steps: 10, Cap: 55 * time.Second},
		earlyClose: apiwatch.EarlyClose,
		idle:       apiwatch.IdleTimeout,
		missing:    time.Minute,
		batch:      200 * time.Millisecond,
		commit:     10 * time.Second,
		linger:     time.Minute,
		collect:    time.Second,
		review:     10 * time.Second,
		pageSize:   apiwatch.PageSize,
	}
}
